"""People's judgement of a run: items drawn and annotated, taken in, and held against what the judges decided."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jobs.dispatch import dispatch

_STEPS = {
    "sample": ("jobs.review_sample", "draw what people are to judge, with a page for each of them"),
    "import": ("jobs.review_import", "take in what they saved"),
    "report": ("jobs.review_report", "how far judges and people agree, and people with each other"),
    "criteria": ("jobs.review_criteria", "what they rejected and remarked, as a change to the judges' criteria"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over to the named step; returns its exit code."""
    return dispatch(_STEPS, sys.argv[1:] if arguments is None else arguments, prog="fdarx review", noun="step")


if __name__ == "__main__":
    sys.exit(main())
