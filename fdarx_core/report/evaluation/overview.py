"""What an evaluation was, what did not come through, and what every cell took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from fdarx_core.report.evaluation.exhibits import MISSING
from fdarx_core.report.evaluation.sheets import Sheets
from fdarx_core.report.evaluation.wording import STATUS_NAMES, plural, setting_name
from fdarx_core.report.evaluation.wrong import KINDS, WrongAnswers
from fdarx_core.report.exhibit import Cell

CELL_HEADER = (
    "Model", "Setting", "Status", "Due", "Answered", "Refused", "Unparsed", "Failed", "Unscored",
    "Tokens in", "From cache", "Tokens out", "USD", "Latency p50, s", "p95, s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trouble:
    """Settings in which a model's cells are not done, all for one reason."""

    model: str
    settings: list[str]
    status: str
    counts: str
    reason: str


def troubles(sheets: Sheets) -> list[Trouble]:
    """Cells that are not done, those of one model that share status and reason together."""
    groups = defaultdict(list)
    for cell in sheets.cells:
        if cell.status != "done":
            groups[cell.model, cell.status, cell.reason].append(cell)
    return [
        Trouble(
            model,
            [setting_name(cell.setting, cell.retriever) for cell in cells],
            STATUS_NAMES.get(status, status),
            _counts(sum(cell.failed for cell in cells), sum(cell.due for cell in cells)),
            reason,
        )
        for (model, status, reason), cells in groups.items()
    ]


def cell_rows(sheets: Sheets) -> list[list[Cell]]:
    """The rows below `CELL_HEADER`."""
    return [
        [
            cell.model, setting_name(cell.setting, cell.retriever), STATUS_NAMES.get(cell.status, cell.status),
            cell.due, cell.answered, cell.refused, cell.unparsed, cell.failed, cell.unscored,
            cell.prompt_tokens, _share(cell.cached_tokens, cell.prompt_tokens), cell.completion_tokens,
            _amount(cell.cost), _amount(cell.latency_p50), _amount(cell.latency_p95),
        ]
        for cell in sheets.cells
    ]  # fmt: skip


def wrong_rows(found: WrongAnswers) -> tuple[list[str], list[list[Cell]]]:
    """Header and rows of the counts by cell and kind; kinds that never occur are left out."""
    kinds = [kind for kind in KINDS if any(kind == counted for _, counted in found.counts)]
    cells: Mapping[tuple[str, str, str], None] = dict.fromkeys(cell for cell, _ in found.counts)
    rows: list[list[Cell]] = [
        [cell[0], setting_name(*cell[1:]), *(found.counts[cell, kind] for kind in kinds)] for cell in cells
    ]
    return ["Model", "Setting", *(KINDS[kind] for kind in kinds)], rows


def _counts(failed: int, due: int) -> str:
    return f"{failed:,} of {plural(due, 'question')} failed" if failed else ""


def _amount(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.2f}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else MISSING
