"""A whole build: labels selected, taken through the steps in parts, then the benchmark and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

from fdarx_core.filters.judges import Judge, judges
from fdarx_core.filters.label_excerpt import LabelExcerpts, PromptRoom
from fdarx_core.filters.round_trip import STAGE as ROUND_TRIP
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.generation.pairing import pair_topics
from fdarx_core.generation.topics import TopicSurvey, shared_places
from fdarx_core.generation.transfers import (
    PortableQuestion,
    chosen_transfers,
    expected_numbers,
    near_drugs,
    offered_questions,
)
from fdarx_core.labels import Identity, Selection, identify_sources, select
from fdarx_core.llm import AskingStopped, Criteria, ModelConfig, ResponseStore
from fdarx_core.pipeline.asking import ClientPool, PlanRow, add_up
from fdarx_core.pipeline.build_audit import audit_build, effective_size
from fdarx_core.pipeline.build_steps import (
    Roles,
    baseline,
    build_steps,
    survey_labels,
    transfer_steps,
)
from fdarx_core.pipeline.executor import PartResult, Stages, Work
from fdarx_core.pipeline.job import PipelineJob, check_inputs
from fdarx_core.pipeline.label_state import ROWS, LabelState, TopicPlan, add_counts, check_accounts
from fdarx_core.pipeline.prompt_lengths import (
    counted_labels,
    prompt_length_lines,
    role_in_build,
    unchecked_line,
)
from fdarx_core.pipeline.round_trip_steps import LAST_STAGE
from fdarx_core.pipeline.steps import Part, Stage, batches
from fdarx_core.pipeline.transfer_steps import STAGE as TRANSFER
from fdarx_core.pipeline.transfer_steps import WRITTEN, fitting_of_part, portable_of_part, transfer_stage
from fdarx_core.pipeline.unusable_replies import count_unusable, questions_without_verdict
from fdarx_core.pipeline.vote_agreement import VoteSplits, split_votes, vote_agreement
from fdarx_core.records import JudgeVerdict, Label, Passage, Reject, StageCount
from fdarx_core.report import build_report, questions_page
from fdarx_core.storage import RunDirectory, read_records, read_table, write_records
from fdarx_core.storage.benchmark_reader import write_benchmark
from fdarx_core.storage.sources import Inputs
from fdarx_core.storage.splits import choose_splits

LABELS_PER_PART = 8
"""Labels of a part: the grain of parallel work, of resuming, and of memory (a few MB)."""

_SOURCES_PER_TASK = 64


class EmptySelection(ValueError):
    """The selection of labels is empty. The message says what was found and why it was not selected."""


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """The specification of a build: the labels, amounts of questions, judges, the criteria of
    the writer (None for the project's own), limits of requests, the number of drugs of the dev split (None: as
    `choose_splits` says), and whether requests go through batch APIs.
    """

    inputs: Inputs
    selection: Selection = field(default_factory=Selection)
    amounts: GenerationConfig = field(default_factory=GenerationConfig)
    roles: Roles = field(default_factory=Roles)
    max_requests: int | None = None
    max_cost: float | None = None
    judges: Sequence[Judge] = field(default_factory=judges)
    criteria: Criteria | None = None
    dev_drugs: int | None = None
    batch: bool = False

    @property
    def models(self) -> Mapping[str, ModelConfig]:
        """The models by name, also those that are not asked."""
        return self.roles.models

    @property
    def transfers(self) -> int:
        """The most questions that a label is asked of those that a model wrote on others; 0 where nobody judges."""
        return self.amounts.transfers if self.roles.by_model and self.roles.judges else 0

    @property
    def clients(self) -> ClientPool:
        return ClientPool(baseline(), self.roles.used, self.max_requests, self.max_cost, batch=self.batch)


@dataclass(slots=True)
class Corpus:
    """The selected labels by set id, the rejects and accounts of selecting them, and set ids that were not found."""

    labels: list[Identity]
    rejects: list[Reject]
    counts: list[StageCount]
    not_found: list[str]

    @property
    def digest(self) -> str:
        """A digest of the selected labels: their set ids and the bytes of their files."""
        return sha256("".join(sorted(f"{one.set_id}:{one.sha256}" for one in self.labels)).encode()).hexdigest()

    @property
    def parts(self) -> list[Part]:
        """The labels in parts, which depend on nothing but the labels, so that a resumed run has the same."""
        return [Part(number, labels) for number, labels in enumerate(batches(self.labels, LABELS_PER_PART))]


@dataclass(slots=True, kw_only=True)
class Build(PipelineJob):
    """One build into a run directory; see `PipelineJob`.

    Before it asks, it calls `tell` with sentences on prompts that are too long for a model.
    """

    phase: ClassVar[str] = "build"

    spec: BuildSpec
    tell: Callable[[str], None] = field(default=lambda _: None, repr=False)
    corpus: Corpus = field(init=False, repr=False)
    drug_of: Mapping[str, str] = field(default_factory=dict, init=False, repr=False)
    near: Mapping[str, Sequence[str]] = field(default_factory=dict, init=False, repr=False)
    plans: Mapping[str, TopicPlan] = field(default_factory=dict, init=False, repr=False)
    counts: list[StageCount] = field(default_factory=list, init=False)
    transferring: bool = field(default=False, init=False)
    asked: tuple[int, float] = field(default=(0, 0.0), init=False)

    def prepare(self, *, planned: bool) -> None:
        """Identify and select the labels. Raises EmptySelection, and RunConflict when the labels changed since the run
        began."""
        with self.timed("identify"):
            self.corpus = self.select_labels()
        self.numbers = range(len(self.corpus.parts))
        if not planned:
            check_inputs(self.run, self.corpus.digest, "other labels")
            write_records(self.run.part("rejects", len(self.numbers)), self.corpus.rejects, Reject)
        with self.timed("survey"):
            amounts, by_model = self.spec.amounts, self.spec.roles.by_model
            surveys = self.survey_topics(keep=not planned)
            bounds = amounts.twins, amounts.topic_labels, amounts.seed
            pairs = pair_topics(surveys, *bounds, by_model=by_model)
            # The surveys are not kept: they take most of the memory that the driver needs for each label.
            self.drug_of, self.near = {one.set_id: one.drug for one in surveys}, near_drugs(surveys)
            expected = expected_numbers(self.drug_of, self.near, self.spec.transfers)
            self.plans = {
                one.set_id: TopicPlan(pairs.get(one.set_id, ()), by_model, expected.get(one.set_id, 0))
                for one in self.corpus.labels
            }

    def stages(self, *, planned: bool) -> Stages:
        return self._stages_of(self.corpus, planned=planned)

    def _stages_of(self, corpus: Corpus, *, planned: bool) -> Stages:
        spec = self.spec
        steps = build_steps(spec.amounts, spec.roles, spec.judges, spec.criteria, planned=planned)
        parts = [Part(part.number, [(one, self.plans[one.set_id]) for one in part.inputs]) for part in corpus.parts]
        write = partial(_write_part, self.run, f"{WRITTEN}/" if self.spec.transfers else "")
        return [(Stage("build", _states, steps, write, 16, LabelState), parts)]

    def phases(self) -> Iterator[Stages]:
        sent, spent = self._asked()
        if len(self.finished("build", self.numbers)) < len(self.numbers):
            self._tell_prompt_lengths()
        yield self.stages(planned=False)
        if self.spec.transfers:
            self.transferring = True
            requests, cost = self._asked()
            self.asked = requests - sent, cost - spent
            steps = transfer_steps(self.spec.roles, self.spec.judges)
            yield [(transfer_stage(self.run, steps), self._transfer_parts())]

    def prompt_lengths(self, planned: Sequence[PlanRow], counted_on: str = "") -> list[str]:
        return prompt_length_lines(planned, self.spec.models, role_in_build, counted_on)

    def _tell_prompt_lengths(self) -> None:
        """Tell which prompts are too long, as a plan of some of the labels counts them."""
        used = self.spec.roles.used
        if not any(model.context_length for model in used.values()):
            lines = unchecked_line(used)
        else:
            every = self.corpus.labels
            some = replace(self.corpus, labels=counted_labels(every, self.spec.amounts.seed))
            stages = self._stages_of(some, planned=True)
            work = self.work(stages, ResponseStore(self.run.file("responses")), planned=True)
            self.progress("count", 0, 1, "")
            planned = add_up(self.executor.plan(work), self.spec.models)
            few = len(some.labels) < len(every)
            on = f"counted on {len(some.labels):,} of the {len(every):,} labels, drawn at random" if few else ""
            lines = self.prompt_lengths(planned, on)
        for line in lines:
            self.tell(line)

    def work(self, stages: Stages, store: ResponseStore, *, planned: bool) -> Work:
        sent, spent = self.asked
        return Work(stages, replace(self.spec.clients, sent=sent, spent=spent), store)

    def _asked(self) -> tuple[int, float]:
        """Return the requests that models have answered and their cost in US dollars; zeros without a limit of them."""
        if self.spec.max_requests is None and self.spec.max_cost is None:
            return 0, 0.0
        rows = [row for row in self.request_counts() if row["endpoint"] in self.spec.models]
        return sum(row["requests"] for row in rows), sum(row["cost"] or 0.0 for row in rows)

    def _transfer_parts(self) -> list[Part]:
        """Return the labels in parts, each with the questions of other labels that it is asked."""
        amounts, parts = self.spec.amounts, self.corpus.parts
        found = self.executor.map(partial(portable_of_part, self.run), self.numbers)
        portable = (one for listed in found for one in listed)
        offered = offered_questions(portable, self.drug_of, self.near, amounts.transfers, amounts.seed)
        labels = [
            (part.number, {one.set_id: offered.get(one.set_id, []) for one in part.inputs}) for part in parts
        ]  # fmt: skip
        fitting: dict[str, list[PortableQuestion]] = {}
        for places in self.executor.map(partial(fitting_of_part, self.run), labels):
            fitting |= {set_id: [offered[set_id][place] for place in listed] for set_id, listed in places.items()}
        chosen = chosen_transfers(fitting, amounts.transfers, amounts.seed)
        return [Part(part.number, [(one, chosen.get(one.set_id, [])) for one in part.inputs]) for part in parts]

    def finished(self, stage: str, numbers: Collection[int]) -> set[int]:
        first = self.spec.transfers and stage != TRANSFER
        return self.parts.there(f"{WRITTEN}/stages" if first else "stages", numbers)

    def show(self, done: int, total: int, result: PartResult | None = None) -> None:
        """Show how many labels are built, with the questions and the rejects so far."""
        if result is None:
            whole = self.parts.there("stages", self.numbers)
            first = [number for number in self.numbers if number not in whole]
            self.counts = add_counts(
                [
                    *self.parts.read_all("stages", sorted(whole), StageCount),
                    *self.parts.read_all(f"{WRITTEN}/stages", first, StageCount),
                ]
            )
        elif result.account is not None:
            self._count(result.account)
            self.counts = add_counts([*self.counts, *result.account])
        labels = next((count.rows_in for count in self.counts if count.stage == "passages"), 0)
        questions = next((count.rows_out for count in self.counts if count.stage == LAST_STAGE), None)
        rejects = sum(count.rejected for count in self.counts)
        note = "" if questions is None else f"{questions:,} questions, {rejects:,} rejects"
        if self.transferring:
            self.progress(TRANSFER, done, total, note)
        else:
            self.progress(self.phase, labels, len(self.corpus.labels), note)

    def select_labels(self) -> Corpus:
        """Identify all documents of the inputs and select among them. Raises EmptySelection."""
        inputs, selection = self.spec.inputs, self.spec.selection
        found: list[Identity] = []
        rejects = list(inputs.rejects)
        done = 0
        self.progress("identify", 0, len(inputs.sources), "")
        for sources, identities, bad in self.executor.map(identify_sources, batches(inputs.sources, _SOURCES_PER_TASK)):
            found += identities
            rejects += bad
            done += sources
            self.progress("identify", done, len(inputs.sources), "")
        unread = sum(reject.stage == "read" for reject in rejects)
        read = len(found) + len(rejects) - unread
        counts = [
            StageCount("read", read + unread, read, unread, read),
            StageCount("identify", read, len(found), len(rejects) - unread, len(found)),
        ]
        chosen, unselected = select(found, selection)
        counts.append(StageCount("select", len(found), len(chosen), len(unselected), len(chosen)))
        rejects = sorted(rejects + unselected, key=lambda one: (one.stage, one.reason, one.id, one.source))
        if not chosen:
            raise EmptySelection(_why_empty(rejects))
        return Corpus(chosen, rejects, counts, sorted(selection.set_ids - {one.set_id for one in found}))

    def survey_topics(self, *, keep: bool) -> list[TopicSurvey]:
        """Return what each selected label answers and is silent on, by set id.

        `keep` writes the surveys into the run, from which a resumed run reads them.
        """
        if not (self.spec.amounts.twins or self.spec.transfers):
            return []
        parts = self.corpus.parts
        kept = self.parts.there("surveys", self.numbers) if keep else set()
        surveys: list[TopicSurvey] = []
        for number in sorted(kept):
            surveys += map(shared_places, self.parts.read("surveys", number, TopicSurvey))
        missing = [part for part in parts if part.number not in kept]
        self.progress("survey", len(surveys), len(self.corpus.labels), "")
        found_in_parts = self.executor.map_ordered(survey_labels, [part.inputs for part in missing])
        for part, found in zip(missing, found_in_parts, strict=True):
            surveys += map(shared_places, found)
            if keep:
                write_records(self.run.part("surveys", part.number), found, TopicSurvey)
            self.progress("survey", len(surveys), len(self.corpus.labels), "")
        return sorted(surveys, key=lambda one: one.set_id)

    def _count(self, counts: Sequence[StageCount]) -> None:
        run = self.run.root.name
        for count in counts:
            if count.stage == "passages":
                self.executor.count("fdarx_run_labels", count.rows_in, {"run": run, "model": ""})
            self.executor.count("fdarx_run_rejects", count.rejected, {"run": run, "stage": count.stage})

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        """Audit the questions, write the benchmark and the report, and mark the run complete.

        Raises AskingStopped where asking ended.
        """
        if ended:
            raise AskingStopped(next(iter(ended.values())))
        corpus, inputs = self.corpus, self.spec.inputs
        counts = add_counts([*corpus.counts, *self.counts])
        check_accounts(counts)
        read = {"digest": corpus.digest, "files": len(inputs.sources), "ignored": inputs.ignored}
        summary: dict[str, Any] = {
            "input": {**read, "set_ids_not_found": corpus.not_found},
            "stages": [asdict(count) for count in counts],
            "timings": self.timings,
            "asked": self.request_counts(),
            "reject_reasons": reject_reasons(self.run),
        }
        if self.spec.roles.used:
            summary["replies"] = [asdict(one) for one in count_unusable(self.run)]
            summary["questions_without_verdict"] = questions_without_verdict(self.run)
        reads = any(count.rows_in for count in counts if count.stage == ROUND_TRIP)
        if reads and (room := self.spec.roles.reader_room) is not None:
            summary["labels_read_in_part"] = labels_that_exceed(self.run, room)
        with self.timed("publish"):
            self.progress("publish", 0, 1, "")
            if len(self.spec.roles.voters) > 1:
                summary["agreement"] = [asdict(stage) for stage in vote_agreement(self._vote_splits())]
            splits = choose_splits(self.run, dev_drugs=self.spec.dev_drugs, seed=self.spec.amounts.seed)
            summary["splits"] = splits.summary()
            summary["effective_size"] = effective_size(self.run)
            summary["audit"] = audit_build(self.run, splits)
            summary["questions"] = write_benchmark(self.run, about={**self.run.info(), **summary})
            self.run.file("questions.html").write_text(questions_page(self.run, summary))
            self.run.file("report.html").write_text(build_report(self.run, summary))
        return self.end(summary, complete=True)

    def _vote_splits(self) -> VoteSplits:
        """Count the questions by the split of their votes; the votes of one part are in memory at a time.

        The round trip has one verdict on a question, which nobody votes on.
        """
        splits: VoteSplits = Counter()
        for part in self.run.parts("verdicts"):
            splits.update(split_votes(one for one in read_records(part, JudgeVerdict) if one.stage != ROUND_TRIP))
        return splits


def labels_that_exceed(run: RunDirectory, room: PromptRoom) -> int:
    """Return the number of labels that are longer than the reader's context, of which it was shown a part."""
    count = 0
    for part in run.parts("passages"):
        of_label: dict[str, list[Passage]] = {}
        for passage in read_records(part, Passage):
            of_label.setdefault(passage.set_id, []).append(passage)
        count += sum(not LabelExcerpts(passages, room).fits for passages in of_label.values())
    return count


_REASONS = 10
"""The reasons for rejects that run.json has."""


def reject_reasons(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the most frequent reasons for which questions and labels were rejected after their selection, and of each
    the number of rows; of equal ones in alphabetical order."""
    counted: Counter[tuple[str, str]] = Counter()
    for part in run.parts("rejects"):
        rows = read_table(part, ["stage", "reason"]).group_by(["stage", "reason"]).aggregate([([], "count_all")])
        for row in rows.to_pylist():
            if row["stage"] not in _SELECTING:
                counted[row["stage"], row["reason"]] += row["count_all"]
    found = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:_REASONS]
    return [{"stage": stage, "reason": reason, "rows": rows} for (stage, reason), rows in found]


_SELECTING = ("read", "identify", "select")
"""The stages that choose labels, of which most files of a bulk release are rejected on purpose."""


def _states(part: Part) -> list[LabelState]:
    return [LabelState(identity, plan) for identity, plan in part.inputs]


def _write_part(run: RunDirectory, folder: str, part: int, states: Sequence[LabelState]) -> list[StageCount]:
    """Write the states of a part, which come by set id; returns the accounts of the part.

    The accounts are written last: a part that has them is complete, and is not made again when a run resumes. `folder`
    is where rows about questions are written, "" where no phase follows that adds to them.
    """
    counts = add_counts(count for state in states for count in state.counts)
    write_records(run.part("labels", part), [state.label for state in states if state.label is not None], Label)
    write_records(run.part("passages", part), [row for state in states for row in state.passages], Passage)
    for kind, record in ROWS.items():
        rows = [row for state in states for row in getattr(state, kind)]
        write_records(run.part(f"{folder}{kind}", part), rows, record)
    write_records(run.part(f"{folder}stages", part), counts, StageCount)
    return counts


def _why_empty(rejects: Sequence[Reject]) -> str:
    reasons = Counter(reject.reason for reject in rejects)
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())) or "no document was found"
    return f"no label is left to build from ({listed}); see --document-types, --exclude-routes and --set-ids"
