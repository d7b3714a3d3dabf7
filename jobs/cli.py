"""`fdarx JOB …`: one command for all jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jobs.dispatch import dispatch

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
    "finetune": ("jobs.finetune_answerer", "question-answer pairs into a LoRA adapter for hypothetical answers"),
    "review": ("jobs.review", "what people say of a run: sample, import, agreement with the judges"),
    "serve": ("jobs.serve", "cited answers over HTTP, and a page to ask on"),
    "report": ("jobs.report", "draw a run's page anew"),
    "show": ("jobs.show", "all that a run knows of one question"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over to the named job; returns its exit code."""
    return dispatch(_JOBS, sys.argv[1:] if arguments is None else arguments, prog="fdarx", noun="job")


if __name__ == "__main__":
    sys.exit(main())
