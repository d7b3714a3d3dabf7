"""Print all that a run knows of one question: of a build its context, the raw responses and each verdict; of an
evaluation what each model said in each setting, and how it was graded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fdarx_core.report.evaluation import find_answers, tell_answers
from fdarx_core.report.life import UnknownQuestion, find_life, tell_life
from fdarx_core.storage import RunDirectory, StorageError
from jobs.options import stop


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code."""
    parser = argparse.ArgumentParser(prog="fdarx show", description=__doc__, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="the run directory, on disk or s3://")
    parser.add_argument("question", metavar="QUESTION_ID", help="16 hexadecimal digits, the qid of qa.jsonl")
    given = parser.parse_args(arguments)
    try:
        run = RunDirectory.open(given.run)
        if run.info()["job"] == "evaluate":
            print(tell_answers(find_answers(run, given.question)), end="")
        else:
            print(tell_life(find_life(run, given.question)), end="")
    except (UnknownQuestion, StorageError) as error:
        stop(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
