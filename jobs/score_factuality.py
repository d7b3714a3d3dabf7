"""Answers of models held against evidence: claims, verdicts, the Fact-Aligned Score, safety flags, and a report."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from fdarx_core.evaluation.grid import as_text
from fdarx_core.factuality.evidence import LocalEvidence
from fdarx_core.pipeline.factuality.parts import UNDERSTOOD_BY
from fdarx_core.pipeline.factuality.results import tables_of
from fdarx_core.pipeline.factuality.run import FactualityEvaluation
from fdarx_core.records import CheckedAnswer, Reject
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.answers import Answers, Census, Gold, open_answers, read_gold
from jobs.frame import carried_out, end_code, exit_code, is_done, session
from jobs.options import read_options
from jobs.score_factuality_config import ScoreFactualityConfig
from jobs.versions import versions

_PHASES = {
    "plan": "parts planned",
    "contraindications": "parts of labels read for contraindications",
    "check": "parts checked",
    "publish": "computing figures and intervals",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    config = read_options(ScoreFactualityConfig, arguments, prog="fdarx factuality", description=__doc__ or "")
    return exit_code(lambda: _score(config), ValueError)


def _score(config: ScoreFactualityConfig) -> int:
    checking = config.checking()
    source = config.source(checking)
    gold = read_gold(config.gold)
    answers = open_answers(config.predictions, gold)
    census = answers.census()
    chosen = census.chosen(config.sample, config.seed)
    identity = config.identity(checking, source, census)
    run = RunDirectory.begin(config.out, job="score_factuality", config=identity, versions=versions())
    if is_done(run, UNDERSTOOD_BY):
        return _tell(run)
    rejects = [*gold.rejects, *(source.rejects if source else ())]
    told = _intake(census, gold, source, len(chosen))
    _tell_intake(told, run)
    del source  # what it holds is held by workers from here
    read = [config.bertscore_model, config.cosine_model, checking.safety]
    with session(run, _PHASES, asking="check", read=read, cpus=config.cpus) as progress:
        evaluation = FactualityEvaluation(
            run=run,
            what=checking,
            rows=lambda: _rows(answers, chosen, rejects),
            told=told,
            progress=progress,
            seed=config.seed,
            resamples=config.resamples,
            reuse=[RunDirectory.open(other) for other in config.reuse],
        )
        if not carried_out(evaluation, progress, plan=config.plan):
            return 0
    return _tell(run)


def _rows(answers: Answers, chosen: set[str], rejects: Sequence[Reject]) -> Iterator[CheckedAnswer | Reject]:
    yield from rejects
    yield from (one for one in answers if isinstance(one, Reject) or one.question_id in chosen)


def _intake(census: Census, gold: Gold, source: LocalEvidence | None, chosen: int) -> dict[str, Any]:
    """What run.json says of the rows: each is an answer or a reject."""
    return {
        "intake": {
            "rows": census.rows,
            "answers": census.answers,
            "rejects": census.rejects,
            "questions": len(census.questions),
            "questions_chosen": chosen,
            "models": dict(census.models),
        },
        "gold": {
            "rows": len(gold.rows) + len(gold.rejects),
            "questions": len(gold.rows),
            "rejects": len(gold.rejects),
            "matched": census.gold,
            "answers_with_statements": census.with_gold,
        },
        "evidence_rejects": len(source.rejects) if source else 0,
    }


def _tell_intake(told: dict[str, Any], run: RunDirectory) -> None:
    intake, gold = told["intake"], told["gold"]
    rejects = intake["rejects"] + gold["rejects"] + told["evidence_rejects"]
    if rejects:
        print(f"{rejects} rows can't be used, see {run.part('rejects', 0)}", file=sys.stderr)
    if not gold["rows"]:
        print("no gold statements (--gold): nothing is correlated with gold factuality", file=sys.stderr)
    elif gold["matched"] < gold["questions"]:
        unmatched = gold["questions"] - gold["matched"]
        print(f"{unmatched} of {gold['questions']} questions of the gold match no answer", file=sys.stderr)
    if gold["rows"] and gold["answers_with_statements"] < intake["answers"]:
        lacking = intake["answers"] - gold["answers_with_statements"]
        print(f"{lacking} of {intake['answers']} answers have no gold statements", file=sys.stderr)


def _tell(run: RunDirectory) -> int:
    info = run.info()
    if info["rxnav"]:
        print(info["rxnav"], file=sys.stderr)
    for grid in tables_of(run):
        print(f"\n{as_text(grid)}")
    print(f"\nscores   {run.root}/scores\nmetrics  {run.file('metrics.json')}\nreport   {run.file('report.html')}")
    return end_code(info)


if __name__ == "__main__":
    sys.exit(main())
