"""The passages that a page's claims were held against, each once, as far as the page has room for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson

from fdarx_core.records import Evidence, PairVerdict
from fdarx_core.report.factuality.excerpts import excerpts_of
from fdarx_core.report.factuality.results import ExaminedAnswer, Method
from fdarx_core.report.factuality.wording import SOURCE_NAMES

Window = tuple[int, int]


def weight_of(item: Any) -> int:
    """Bytes that it takes as JSON in a script element, where each of <, > and & is written with six."""
    written = orjson.dumps(item)
    return len(written) + 5 * sum(map(written.count, (b"<", b">", b"&")))


def pairs_of(one: ExaminedAnswer, method: Method) -> list[PairVerdict]:
    """Of every kind, as the main engine judged them."""
    return [pair for pair in one.pairs if pair.engine == method.entailment]


def pairs_shown(one: ExaminedAnswer, method: Method) -> list[PairVerdict]:
    """The claims of an answer against the k best passages, as the main engine judged them, by rank."""
    kept = [pair for pair in pairs_of(one, method) if pair.kind == "evidence" and pair.rank <= method.k]
    return sorted(kept, key=lambda pair: pair.rank)


def passages_of(shown: Sequence[ExaminedAnswer], method: Method, budget: int) -> tuple[list[list[Any]], dict[str, int]]:
    """Rows of title, where it stands, length and excerpts (None where the budget is spent), and each id's row.

    Those that decided come first.
    """
    windows: dict[str, list[Window]] = defaultdict(list)
    found: dict[str, Evidence] = {}
    for one in shown:
        found.update(one.evidence)
        for pair in pairs_shown(one, method):
            windows[pair.evidence_id].append((pair.start, pair.end))
    deciding = [verdict.evidence_id for one in shown for verdict in one.verdicts if verdict.evidence_id in windows]
    ordered = list(dict.fromkeys([*deciding, *windows]))
    rows: dict[str, list[Any]] = {}
    for name in ordered:
        row = _passage(found[name], windows[name])
        weight = weight_of(row)
        rows[name] = row if weight <= budget else [*row[:3], None]
        budget -= weight if weight <= budget else 0
    return list(rows.values()), {name: at for at, name in enumerate(rows)}


def _passage(evidence: Evidence, windows: Sequence[Window]) -> list[Any]:
    year = str(evidence.year) if evidence.year else ""
    parts = [SOURCE_NAMES.get(evidence.source, evidence.source), evidence.section, evidence.place, year]
    label = f"label {evidence.set_id}" if evidence.set_id else ""
    title = evidence.title or evidence.drug or evidence.id
    where = " · ".join(part for part in (*parts, label) if part)
    return [title, where, len(evidence.text), excerpts_of(evidence.text, windows)]
