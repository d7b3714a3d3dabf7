"""How far a run's judges and the annotators of a review agree: tables, confusions, and a page with every item."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import Field

from fdarx_core.evaluation.grid import Grid, as_text
from fdarx_core.records.review import Annotation
from fdarx_core.report.review.agreement import agreement_page
from fdarx_core.review.agreement import Agreement, measure, table_3, table_4, table_5
from fdarx_core.review.calibration.tables import calibrated_tables
from fdarx_core.review.items import Review, open_review
from fdarx_core.storage import RunDirectory, StorageError
from jobs.options import JobConfig, read_options, stop
from jobs.review_arguments import flagged


class ReviewReportConfig(JobConfig):
    """Options of `fdarx review report`."""

    review: str = Field(description="folder that `fdarx review sample` wrote; may come first, without --review")
    blind: bool = Field(False, description="leave out votes that were given with the judge's decision in view")
    weighted: bool = Field(
        False,
        description="count each item for those that it was drawn from: figures of the whole run rather than of the "
        "sample, with wider intervals; without it each item counts once, as in the paper",
    )
    seed: int = Field(0, description="fixes the intervals")
    resamples: int = Field(2000, ge=100, description="bootstrap resamples; more make steadier intervals")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the step; returns its exit code."""
    given = flagged(sys.argv[1:] if arguments is None else arguments, "review")
    config = read_options(ReviewReportConfig, given, prog="fdarx review report", description=__doc__ or "")
    try:
        review = open_review(config.review)
        annotations = review.annotations()
        if not annotations:
            stop(f"{review.root} has no annotations; take in what annotators saved with `fdarx review import`")
        found = _measured(review, annotations, config)
        _write(review, found, _calibrated(review, config))
    except StorageError as error:
        stop(str(error))
    return 0


def _measured(review: Review, annotations: Sequence[Annotation], config: ReviewReportConfig) -> Agreement:
    try:
        return measure(review.items(), annotations, **config.model_dump(exclude={"review"}))
    except ValueError as error:
        stop(f"{review.root}: {error}")


def _calibrated(review: Review, config: ReviewReportConfig) -> list[Grid]:
    """Of a review of an evaluation; the rest of the report stands without it where the evaluation is gone."""
    if review.info["job"] != "evaluate":
        return []
    try:
        return calibrated_tables(review, RunDirectory.open(str(review.info["run"])), blind=config.blind)
    except (StorageError, ValueError) as error:
        print(f"no calibrated accuracy: {error}", file=sys.stderr)
        return []


def _write(review: Review, found: Agreement, calibrated: Sequence[Grid]) -> None:
    """agreement.json, .txt and .html in the review's folder, in place of those of an earlier report."""
    grids = [grid for grid in (table_3(found), table_4(found), table_5(found), *calibrated) if grid.rows]
    text = "\n\n\n".join(map(as_text, grids))
    page = review.root / "agreement.html"
    (review.root / "agreement.json").write_text(
        json.dumps(_as_data(review, found, calibrated), ensure_ascii=False, indent=1) + "\n"
    )
    (review.root / "agreement.txt").write_text(f"{text}\n")
    page.write_text(agreement_page(review.info, found, calibrated))
    print(f"{text}\n\npage    {page}")


def _as_data(review: Review, found: Agreement, calibrated: Sequence[Grid]) -> dict[str, Any]:
    """All but items and votes, which stand in the review's own files."""
    how = {name: getattr(found, name) for name in ("blind", "weighted", "seed", "informed")}
    rows = {name: [asdict(one) for one in getattr(found, name)] for name in ("tallies", "figures", "confusions")}
    return {"review": review.digest, **how, **rows, "calibrated": [asdict(one) for one in calibrated]}


if __name__ == "__main__":
    sys.exit(main())
