"""`fdarx JOB …`: one command for all jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from jobs.exits import INTERRUPTED

_JOBS = {
    "fetch": ("jobs.fetch_labels", "labels from DailyMed, to a disk or s3://"),
    "build": ("jobs.build_benchmark", "SPL labels in, a question-answering benchmark out"),
    "evaluate": ("jobs.evaluate", "models × settings × retrievers on a benchmark, with metrics and a report"),
    "compare": ("jobs.compare", "evaluations side by side, with differences and their intervals"),
    "index": ("jobs.build_index", "documents, or a run's labels, into a search index"),
    "evaluate-rag": ("jobs.evaluate_rag", "ways of retrieving and answering compared on an index"),
    "factuality": (
        "jobs.score_factuality",
        "answers held against evidence: claims, verdicts, Fact-Aligned Score, flags",
    ),
    "serve": ("jobs.serve", "cited answers over HTTP, and a page to ask on"),
    "report": ("jobs.report", "draw a run's page anew"),
    "show": ("jobs.show", "all that a run knows of one question"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over to the named job; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _JOBS:
        try:
            job: Callable[[Sequence[str]], int] = import_module(_JOBS[given[0]][0]).main
            return job(given[1:])
        except KeyboardInterrupt:  # before or after what the job itself calls its work
            return INTERRUPTED
    asked_for_help = given in (["--help"], ["-h"])
    lines = ["usage: fdarx JOB [OPTIONS]", "", "jobs:"]
    lines += [f"  {name:<12} {what}" for name, (_, what) in _JOBS.items()]
    lines += ["", "`fdarx JOB --help` lists a job's options."]
    if given and not asked_for_help:
        lines.insert(0, f"error: there is no job {given[0]!r}")
    print("\n".join(lines), file=sys.stdout if asked_for_help else sys.stderr)
    return 0 if asked_for_help else 2


if __name__ == "__main__":
    sys.exit(main())
