"""Does every row that came in go on or stand among the rejects?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fdarx_core.pipeline.dossier import AccountingError
from fdarx_core.records import StageCount

_MADE = {"passages": "kept"}
"""What the next stage gets of a stage: what it made, except that contexts are chosen a label, not a passage."""


def check_accounts(stages: Sequence[StageCount]) -> None:
    """Rows in = rows kept + rejects at every stage, and each stage got what the one before it made.

    Raises AccountingError naming the stage.
    """
    for stage in stages:
        if stage.rows_in != stage.kept + stage.rejected:
            raise AccountingError(f"stage {stage.stage} does not add up: {stage}")
    for before, after in pairwise(stages):
        made = getattr(before, _MADE.get(before.stage, "rows_out"))
        if made != after.rows_in:
            raise AccountingError(f"stage {after.stage} got {after.rows_in} rows, {before.stage} made {made}")
