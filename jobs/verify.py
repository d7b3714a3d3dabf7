"""Score a verification engine on marked pairs: what it decides, and how often that is right."""

from __future__ import annotations

from typing import Annotated

import orjson
from cyclopts import Parameter
from pydantic import Field

from fdarx_core.specs.options import JobConfig
from jobs import wrong_arguments
from jobs.cli import run_as
from jobs.output import print_json


class VerifyConfig(JobConfig):
    """Options of `fdarx verify`."""

    pairs: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
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


@wrong_arguments()
def verify(*, config: Annotated[VerifyConfig, Parameter(name="*")]) -> int:
    """Score a verification engine on pairs of a text and a statement that people have marked."""
    # importing these takes longer than showing the help may
    from fdarx_core.evaluation.verifier_scores import score_pairs
    from fdarx_core.review.importing import read_pairs
    from fdarx_core.storage import Location
    from jobs.progress import ProgressLine

    marked = read_pairs(config.pairs)
    if config.out:
        Location(config.out).parent.check_writable()
    with ProgressLine({"pairs": "pairs judged"}, quiet=config.quiet) as progress:
        result, table = score_pairs(
            marked,
            config.engine,
            threshold=config.threshold,
            seed=config.seed,
            resamples=config.resamples,
            progress=lambda done, total: progress("pairs", done, total),
        )
    if config.out:
        Location(config.out).write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    print_json(result) if config.as_json else print(table)
    return 0


if __name__ == "__main__":
    run_as("verify")
