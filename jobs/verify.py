"""Score a verification engine on marked pairs: what it decides, and how often that is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter
from pydantic import Field

from jobs.cli import run_as
from jobs.options import JobConfig
from jobs.output import print_json

if TYPE_CHECKING:
    from fdarx_core.evaluation.verifier_scores import MarkedPair

_CHUNK = 200


class VerifyConfig(JobConfig):
    """Options of `fdarx verify`."""

    pairs: list[str] = Field(min_length=1)
    """files of JSON lines, on disk or s3://, each line with text (or evidence, premise), statement (or claim,
    hypothesis) and mark (or label, gold): supported, contradicted, unsupported, or not_supported where only two classes
    are known; a `drug` lets engines recognise the drug's name; a folder of `fdarx review` stands for the claims on
    which people have a verdict"""
    engine: str = "auto"
    """`language-model:ID@URL`, `cross-encoder:MODEL` (a directory or hub name), `exact` (word for word), or `auto`: a
    cross-encoder that is on this machine, else `exact`"""
    threshold: float = Field(0.7, gt=0, le=1)
    """probability from which a class decides"""
    out: str | None = None
    """JSON file for the figures"""
    seed: int = 0
    """random seed of the intervals"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples over texts; more give more stable intervals"""


def verify(*, config: Annotated[VerifyConfig, Parameter(name="*")]) -> int:
    """Score a verification engine on pairs of a text and a statement that people have marked."""
    from fdarx_core.storage import Location  # importing it takes longer than showing the help may

    result, table = score_pairs(
        read_pairs(config.pairs), config.engine, config.threshold, config.seed, config.resamples, config.quiet
    )
    if config.out:
        Location(config.out).write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    print_json(result) if config.as_json else print(table)
    return 0


def read_pairs(files: Sequence[str]) -> list[MarkedPair]:
    """Return the marked pairs of files and of the folders of reviews."""
    from fdarx_core.evaluation.verifier_scores import read_marked_pairs
    from fdarx_core.storage import Location

    return [pair for file in files for pair in _reviewed(file) or read_marked_pairs(Location(file))]


def score_pairs(
    marked: Sequence[MarkedPair], engine: str, threshold: float, seed: int, resamples: int, quiet: bool
) -> tuple[dict[str, Any], str]:
    """Return what is kept of an engine's figures on marked pairs, and their table as text."""
    from fdarx_core.evaluation.tables import table_text
    from fdarx_core.evaluation.verifier_scores import engine_table, score_engine
    from fdarx_core.verify import open_engine
    from fdarx_core.verify import verify as verdicts_of
    from fdarx_core.verify.engine import TextPair
    from jobs.progress import ProgressLine

    judge = open_engine(engine)
    verdicts = []
    with ProgressLine({"pairs": "pairs judged"}, quiet=quiet) as progress:
        progress("pairs", 0, len(marked))
        for start in range(0, len(marked), _CHUNK):
            chunk = [TextPair(one.text, one.statement, one.drug) for one in marked[start : start + _CHUNK]]
            verdicts += verdicts_of(chunk, judge, threshold=threshold)
            progress("pairs", len(verdicts), len(marked))
    figures = score_engine(marked, verdicts, seed=seed, resamples=resamples)
    rows = [one.to_row() for one in figures]
    kept = {"engine": judge.name, "threshold": threshold, "figures": rows}
    return kept, table_text(engine_table(judge.name, figures))


def _reviewed(address: str) -> list[MarkedPair]:
    """Return the pairs of a review, none where the address is not one."""
    from fdarx_core.review.importing import marked_pairs
    from fdarx_core.review.review_set import INFO, open_review
    from fdarx_core.storage import Location

    return marked_pairs(open_review(address)) if (Location(address) / INFO).exists() else []


if __name__ == "__main__":
    run_as("verify")
