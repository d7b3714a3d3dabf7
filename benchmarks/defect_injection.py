"""Good questions spoilt in known ways: what share of each defect does each stage of a build catch, and what is lost?

    python -m benchmarks.defect_injection [--labels PATH ...] [--part dev|test|all] [--most N] [--per-defect 100]
        [--seed 0] [--questions FILE] [--judge NAME --models FILE] [--writer-rate 0.3]
        [--error-rates 0.05,0.1,0.2 --votes 1,3,5]

The built-in rules write questions on the labels of a part (by their moieties, as `benchmarks.drug_search`). A question
that passes the whole chain of stages is good. Copies of good questions are spoilt (`benchmarks.defects`) and take their
places among the good ones of their labels. Then every stage sees them alone, and the chain in order. A question that is
unscored does not get into a benchmark: it counts as caught, and is counted apart. With `--questions`, good questions
are those of a file, such as people's questions with quotations (`marked/label_evidence.jsonl`), whether they
pass the chain or not. `--judge` is a model that judges and compares; without it the built-in rules do. `--writer-rate`
builds once more, end to end, with a loopback model that spoils this share of what it writes. `--error-rates` has
loopback judges which know the truth and err at these rates.
Exits 1 where the chain catches less than 90 % of a defect.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import PRESCRIPTION_LABELS, json_lines, run, wilson_interval
from benchmarks.defects import DEFECTS
from benchmarks.erring_judges import HEADINGS, measure_votes
from benchmarks.spoiling_writer import SpoilingWriter
from benchmarks.spoilt_labels import (
    WRITING_STEPS,
    Part,
    Runner,
    SpoiltLabel,
    WrittenLabels,
    family,
    read_part,
    spoil_labels,
    with_candidates,
)
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.llm.model_config import load_models
from fdarx_core.pipeline.build_steps import Roles, build_steps, stage_names
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.steps import Step
from fdarx_core.records import QuestionAnswer, Reject

LEAST_CAUGHT = 0.9
STAGES = stage_names()[WRITING_STEPS:]
GOOD = "good questions"
TWINS = "good twins of spoilt ones"


@dataclass(slots=True)
class StageCounts:
    """How many questions there were, and how many each stage rejected, with those of them that are unscored."""

    questions: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    unscored: Counter[str] = field(default_factory=Counter)

    def add(self, reject: Reject | None) -> None:
        """Count one question with its reject, None where it was kept."""
        self.questions += 1
        if reject is not None:
            self.rejected[reject.stage] += 1
            self.unscored[reject.stage] += reject.reason.startswith("unscored_")

    @property
    def share(self) -> float:
        """The share of the questions that were rejected."""
        return self.rejected.total() / self.questions if self.questions else 0.0

    def cells(self) -> list[str]:
        """Return a cell a stage: the rejected ones, and in brackets those of them that are unscored."""
        return [
            f"{self.rejected[stage]}" + (f" ({self.unscored[stage]})" if self.unscored[stage] else "")
            for stage in STAGES
        ]

    def interval(self) -> str:
        """Return the share of rejected questions with its 95 % interval by Wilson."""
        low, high = wilson_interval(self.rejected.total(), self.questions)
        return f"{self.share:.3f} ({low:.3f} to {high:.3f})"


def chain_steps(roles: Roles) -> dict[str, list[Step[LabelState]]]:
    """Return the steps of each stage after the writing of questions."""
    steps = build_steps(GenerationConfig(), roles)[WRITING_STEPS:]
    comparing = len(steps) - 2  # the round trip takes two steps
    grouped = [[one] for one in steps[: comparing - 1]] + [steps[comparing - 1 : comparing + 1], [steps[-1]]]
    return dict(zip(STAGES, grouped, strict=True))


def good_questions(written: WrittenLabels, runner: Runner) -> tuple[dict[str, list[QuestionAnswer]], StageCounts]:
    """Return the candidates that pass the chain of rules, by set id, and what the chain does to all of them."""
    states = [with_candidates(one, one.candidates) for one in written.states]
    runner.run([step for steps in chain_steps(Roles()).values() for step in steps], states)
    tally = StageCounts()
    good: dict[str, list[QuestionAnswer]] = defaultdict(list)
    for before, after in zip(written.states, states, strict=True):
        rejects, kept = {one.id: one for one in after.rejects}, {one.id for one in after.questions}
        for question in before.candidates:
            tally.add(rejects.get(question.id))
            if question.id in kept:
                good[before.identity.set_id].append(question)
    return good, tally


def tallies(states: Sequence[LabelState], labels: Sequence[SpoiltLabel]) -> dict[str, StageCounts]:
    """Return what became of the spoilt questions by defect, of the good ones, and of the twins of spoilt ones."""
    found = {name: StageCounts() for name in (*(defect.name for defect in DEFECTS), GOOD, TWINS)}
    for state, label in zip(states, labels, strict=True):
        rejects = {one.id: one for one in state.rejects}
        families = {family(label.questions[key]) for key in label.spoilt}
        for key, question in label.questions.items():
            beside = TWINS if family(question) in families else GOOD
            found[label.spoilt[key].name if key in label.spoilt else beside].add(rejects.get(key))
    return found


def stage_alone(
    labels: Sequence[SpoiltLabel], runner: Runner, stages: Mapping[str, list[Step[LabelState]]]
) -> dict[str, StageCounts]:
    """Return what each stage does when it is the only one: for each defect, one tally over all stages."""
    joined: dict[str, StageCounts] = {}
    for name, steps in stages.items():
        states = [label.candidates() if name == "rules" else label.judged() for label in labels]
        runner.run(steps, states)
        for defect, tally in tallies(states, labels).items():
            one = joined.setdefault(defect, StageCounts(tally.questions))
            one.rejected += tally.rejected
            one.unscored += tally.unscored
    return joined


def table(found: Mapping[str, StageCounts], last: Callable[[StageCounts], str] | None) -> Iterable[str]:
    """Yield the lines of a table with a row a defect; `last` makes the cell of the last column, if there is one."""
    heads = ["defect", "n", *STAGES, *(["in all"] if last else [])]
    yield f"| {' | '.join(heads)} |"
    yield f"|---|{'--:|' * (len(heads) - 1)}"
    for name, tally in found.items():
        if not tally.questions:
            continue
        cells = [name, str(tally.questions), *tally.cells(), *([last(tally)] if last else [])]
        yield f"| {' | '.join(cells)} |"


def built_by_writer(writer: SpoilingWriter, folder: str) -> tuple[dict[str, StageCounts], int, int]:
    """Build with the writer; return what became of its questions, and how many were written and are kept spoilt."""
    found = {GOOD: StageCounts()}
    written = left = 0
    for state in writer.build(folder):
        kept = {one.id for one in state.questions}
        rejects = {one.id: one for one in state.rejects if one.id not in kept}
        for question in {one.id: one for one in state.candidates}.values():
            defect = writer.spoilt.get(question.id)
            found.setdefault(defect.name if defect else GOOD, StageCounts()).add(rejects.get(question.id))
            written += defect is not None
        left += sum(one.id in writer.spoilt for one in state.questions)
    return found, written, left


def main(
    *,
    labels: Sequence[str] = (str(PRESCRIPTION_LABELS),),
    part: Part = "dev",
    most: int | None = None,
    per_defect: int = 100,
    seed: int = 0,
    questions: str = "",
    judge: str = "",
    models: str = "",
    writer_rate: float = 0.0,
    error_rates: str = "",
    votes: str = "1,3,5",
) -> int:
    """Print the tables; exit 1 where the chain catches less than 90 % of a defect."""
    asked = load_models(models) if models else {}
    roles = Roles(asked, judges=(judge,)) if judge else Roles()
    identities = read_part(labels, part, most, seed)
    if questions:
        written = WrittenLabels.with_questions(identities, json_lines(Path(questions)))
    else:
        written = WrittenLabels.of(identities, GenerationConfig(seed=seed))
    with TemporaryDirectory() as folder:
        rules = Runner({}, folder)
        good, before = good_questions(written, rules)
        if questions:
            good = {one.identity.set_id: one.candidates for one in written.states}
        spoilt = spoil_labels(written, good, per_defect, seed)
        runner = Runner(roles.used, folder) if roles.used else rules
        print(f"Part {part}: {len(written.states)} labels, {before.questions} candidates; judge: {judge or 'rules'}")
        print("\nWhat the rules reject of the candidates, before anything is spoilt:\n")
        print(*table({"candidates": before}, StageCounts.interval), sep="\n")
        stages = chain_steps(roles)
        states = [label.candidates() for label in spoilt]
        runner.run([step for steps in stages.values() for step in steps], states)
        found = tallies(states, spoilt)
        print("\nCaught by the chain, by the first stage that drops the question (of them unscored):\n")
        print(*table(found, StageCounts.interval), sep="\n")
        print("\nCaught by each stage alone (of them unscored):\n")
        print(*table(stage_alone(spoilt, runner, stages), None), sep="\n")
        if writer_rate:
            ended, wrote, left = built_by_writer(SpoilingWriter(written, good, writer_rate, seed), folder)
            total = sum(tally.questions for tally in ended.values())
            kept = total - sum(tally.rejected.total() for tally in ended.values())
            print(
                f"\nA writer over HTTP: {wrote} of its {total} questions are spoilt, and {left} of the {kept} kept:\n"
            )
            print(*table(ended, StageCounts.interval), sep="\n")
        if error_rates:
            print("\nJudges over HTTP that err, all defects together:\n")
            print(HEADINGS)
            counts, errors = [int(one) for one in votes.split(",")], [float(one) for one in error_rates.split(",")]
            for measured in measure_votes(spoilt, errors, counts, folder):
                print(measured.line(), flush=True)
    return int(any(found[one.name].questions and found[one.name].share < LEAST_CAUGHT for one in DEFECTS))


if __name__ == "__main__":
    run(main)
