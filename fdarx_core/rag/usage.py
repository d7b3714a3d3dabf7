"""What the answers of a comparison took: requests, tokens, money, time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fdarx_core.rag.figures import Key
from fdarx_core.records import RagAnswer, RagUsage

PHASES = ("rewrite", "search", "postprocess", "answer")


def usage(answers: Iterable[RagAnswer]) -> list[RagUsage]:
    """What each strategy, post-processing and model took."""
    kept: dict[Key, list[RagAnswer]] = defaultdict(list)
    for one in answers:
        kept[one.strategy, one.postprocess, one.model].append(replace(one, context_texts=[], answer=""))
    return [_usage(key, rows) for key, rows in kept.items()]


def _usage(key: Key, rows: Sequence[RagAnswer]) -> RagUsage:
    outcomes = Counter(row.outcome for row in rows)
    done = [row for row in rows if row.outcome != "failed"]
    seconds = {phase: [getattr(row, f"{phase}_s") for row in done] for phase in PHASES}
    seconds["total"] = [sum(times) for times in zip(*seconds.values(), strict=True)]
    times: dict[str, Any] = {
        f"{phase}_p{share}": float(np.percentile(values, share)) if values else None
        for phase, values in seconds.items()
        for share in (50, 95)
    }
    return RagUsage(
        *key,
        outcomes["answered"],
        outcomes["refused"],
        outcomes["failed"],
        sum(row.requests for row in rows),
        sum(row.prompt_tokens for row in rows),
        sum(row.completion_tokens for row in rows),
        sum(row.cost for row in rows),
        **times,
    )
