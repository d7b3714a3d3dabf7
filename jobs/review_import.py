"""Take in what annotators saved: files of their pages, or filled-in sheets; nothing that stands is overwritten."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pydantic import Field

from fdarx_core.review.importing import WrongAnnotations, import_annotations
from fdarx_core.review.items import open_review
from fdarx_core.storage import StorageError
from jobs.options import JobConfig, read_options, stop
from jobs.review_arguments import flagged


class ReviewImportConfig(JobConfig):
    """Options of `fdarx review import`."""

    review: str = Field(description="folder that `fdarx review sample` wrote; may come first, without --review")
    files: list[str] = Field(
        min_length=1,
        description="what annotators hand in, after the folder: .json as their pages save it, items.csv or items.jsonl "
        "with annotator and value filled in",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the step; returns its exit code."""
    given = flagged(sys.argv[1:] if arguments is None else arguments, "review", "files")
    config = read_options(ReviewImportConfig, given, prog="fdarx review import", description=__doc__ or "")
    try:
        done = import_annotations(open_review(config.review), config.files)
    except (StorageError, WrongAnnotations) as error:
        stop(str(error))
    for notice in done.notices:
        print(notice, file=sys.stderr)
    print(f"{done.new} annotations taken in, {done.known} were known already")
    for file in done.files:
        print(f"rows    {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
