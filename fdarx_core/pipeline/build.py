"""A whole build: labels selected, taken through the steps in parts, then the benchmark and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

from fdarx_core.filters.judges import Judge, judges
from fdarx_core.filters.round_trip import ROUND_TRIP_ANSWER
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
from fdarx_core.generation.writing import written_types
from fdarx_core.labels import Identity, Selection, identify_sources, select
from fdarx_core.llm import AskingStopped, Criteria, ResponseStore
from fdarx_core.pipeline.asking import PlanRow, add_up
from fdarx_core.pipeline.build_results import (
    audit_build,
    count_unusable,
    effective_size,
    labels_that_exceed,
    reject_reasons,
    split_build_votes,
    vote_agreement,
)
from fdarx_core.pipeline.build_steps import Roles, build_steps, survey_labels, transfer_steps
from fdarx_core.pipeline.executor import PartResult, Stages
from fdarx_core.pipeline.job import PipelineJob, check_inputs, prompt_length_lines, unchecked_line
from fdarx_core.pipeline.label_state import (
    WRITTEN,
    TopicPlan,
    add_counts,
    check_accounts,
    fitting_of_part,
    planned_states,
    portable_of_part,
    transferred_states,
    write_labels,
    write_transferred,
)
from fdarx_core.pipeline.round_trip_steps import LAST_STAGE
from fdarx_core.pipeline.steps import Part, Stage, batches
from fdarx_core.records import Reject, StageCount, content_id
from fdarx_core.report import build_report, questions_page
from fdarx_core.report.retention import build_sentence
from fdarx_core.storage import StorageError, write_records
from fdarx_core.storage.benchmark_writer import write_benchmark
from fdarx_core.storage.sources import Inputs
from fdarx_core.storage.splits import choose_splits

LABELS_PER_PART = 8
"""Labels of a part: the grain of parallel work, of resuming, and of memory (a few MB)."""

_SOURCES_PER_TASK = 64
COUNTED_LABELS = 20
"""The most labels on which a build counts prompts before it asks; one takes about 0.3 CPU-seconds."""

TRANSFER = "transfer"
"""The stage of the second phase of a build by a model, which asks questions on one label of others."""


def role_in_build(task: str) -> str:
    """Return the role of a build whose model gets the prompts of a task."""
    if task in written_types():
        return "writer"
    return "reader" if task == ROUND_TRIP_ANSWER.name else "judge"


class EmptySelection(StorageError, ValueError):
    """The selection of labels is empty. The message says what was found and why it was not selected."""


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
        return sha256("".join(sorted(f"{label.set_id}:{label.sha256}" for label in self.labels)).encode()).hexdigest()

    @property
    def parts(self) -> list[Part]:
        """The labels in parts, which depend on nothing but the labels, so that a resumed run has the same."""
        return [Part(number, labels) for number, labels in enumerate(batches(self.labels, LABELS_PER_PART))]


@dataclass(slots=True, kw_only=True)
class Build(PipelineJob):
    """One build into a run directory; see `PipelineJob`. Before it asks, it tells which prompts are too long for a
    model.

    `criteria` are those of the writer, None for the project's own; `dev_drugs` is the number of drugs of the dev split,
    None as `choose_splits` says.
    """

    phase: ClassVar[str] = "build"

    inputs: Inputs
    selection: Selection = field(default_factory=Selection)
    amounts: GenerationConfig = field(default_factory=GenerationConfig)
    roles: Roles = field(default_factory=Roles)
    judges: Sequence[Judge] = field(default_factory=judges)
    criteria: Criteria | None = None
    dev_drugs: int | None = None
    corpus: Corpus = field(init=False, repr=False)
    drug_of: Mapping[str, str] = field(default_factory=dict, init=False, repr=False)
    near: Mapping[str, Sequence[str]] = field(default_factory=dict, init=False, repr=False)
    plans: Mapping[str, TopicPlan] = field(default_factory=dict, init=False, repr=False)
    counts: list[StageCount] = field(default_factory=list, init=False)
    transferring: bool = field(default=False, init=False)

    @property
    def transfers(self) -> int:
        """The most questions that a label is asked of those that a model wrote on others; 0 where nobody judges."""
        return self.amounts.transfers if self.roles.by_model and self.roles.judges else 0

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
            amounts, by_model = self.amounts, self.roles.by_model
            surveys = self.survey_topics(keep=not planned)
            pairs = pair_topics(surveys, amounts.twins, amounts.topic_labels, amounts.seed, by_model=by_model)
            # The surveys are not kept: they take most of the memory that the driver needs for each label.
            self.drug_of, self.near = {survey.set_id: survey.drug for survey in surveys}, near_drugs(surveys)
            expected = expected_numbers(self.drug_of, self.near, self.transfers)
            self.plans = {
                label.set_id: TopicPlan(pairs.get(label.set_id, ()), by_model, expected.get(label.set_id, 0))
                for label in self.corpus.labels
            }

    def stages(self, *, planned: bool, corpus: Corpus | None = None) -> Stages:
        corpus = corpus or self.corpus
        steps = build_steps(self.amounts, self.roles, self.judges, self.criteria, planned=planned)
        parts = [
            Part(part.number, [(label, self.plans[label.set_id]) for label in part.inputs]) for part in corpus.parts
        ]
        write = partial(write_labels, self.run, f"{WRITTEN}/" if self.transfers else "")
        return [(Stage("build", planned_states, steps, write, 16), parts)]

    def phases(self) -> Iterator[Stages]:
        sent, spent = self._asked()
        if len(self.finished("build", self.numbers)) < len(self.numbers):
            self._tell_prompt_lengths()
        yield self.stages(planned=False)
        if self.transfers:
            self.transferring = True
            requests, cost = self._asked()
            self.clients = replace(self.clients, sent=requests - sent, spent=cost - spent)
            steps = transfer_steps(self.roles, self.judges)
            read, write = partial(transferred_states, self.run), partial(write_transferred, self.run)
            yield [(Stage(TRANSFER, read, steps, write, 16), self._transfer_parts())]

    def plan_notes(self, planned: Sequence[PlanRow]) -> list[str]:
        return prompt_length_lines(planned, self.clients.models, role_in_build)

    def _tell_prompt_lengths(self) -> None:
        """Tell which prompts are too long, as a plan of some of the labels counts them."""
        models = self.clients.models
        if not any(model.context_length for model in models.values()):
            lines = unchecked_line(models)
        else:
            every = self.corpus.labels
            seed = str(self.amounts.seed)
            drawn = sorted(every, key=lambda label: content_id("prompt lengths", seed, label.set_id))
            some = replace(self.corpus, labels=drawn[:COUNTED_LABELS])
            stages = self.stages(planned=True, corpus=some)
            work = self.work(stages, ResponseStore(self.run.file("responses")), planned=True)
            self.progress("count", 0, 1, "")
            planned = add_up(self.executor.plan(work), models)
            few = len(some.labels) < len(every)
            on = f"counted on {len(some.labels):,} of the {len(every):,} labels, drawn at random" if few else ""
            lines = prompt_length_lines(planned, models, role_in_build, on)
        for line in lines:
            self.tell(line)

    def _asked(self) -> tuple[int, float]:
        """Return the requests that models have answered and their cost in US dollars; zeros without a limit of them."""
        if not self.clients.has_budget:
            return 0, 0.0
        rows = [row for row in self.request_counts() if row["endpoint"] in self.clients.models]
        return sum(row["requests"] for row in rows), sum(row["cost"] or 0.0 for row in rows)

    def _transfer_parts(self) -> list[Part]:
        """Return the labels in parts, each with the questions of other labels that it is asked."""
        amounts, parts = self.amounts, self.corpus.parts
        found = self.executor.map(partial(portable_of_part, self.run), self.numbers)
        portable = (question for listed in found for question in listed)
        offered = offered_questions(portable, self.drug_of, self.near, amounts.transfers, amounts.seed)
        labels = [
            (part.number, {label.set_id: offered.get(label.set_id, []) for label in part.inputs}) for part in parts
        ]
        fitting: dict[str, list[PortableQuestion]] = {}
        for places in self.executor.map(partial(fitting_of_part, self.run), labels):
            fitting |= {set_id: [offered[set_id][place] for place in listed] for set_id, listed in places.items()}
        chosen = chosen_transfers(fitting, amounts.transfers, amounts.seed)
        return [Part(part.number, [(label, chosen.get(label.set_id, [])) for label in part.inputs]) for part in parts]

    def finished(self, stage: str, numbers: Collection[int]) -> set[int]:
        first = self.transfers and stage != TRANSFER
        return self.parts.existing(f"{WRITTEN}/stages" if first else "stages", numbers)

    def show(self, done: int, total: int, result: PartResult | None = None) -> None:
        """Show how many labels are built, with the questions and the rejects so far."""
        if result is None:
            whole = self.parts.existing("stages", self.numbers)
            first = [number for number in self.numbers if number not in whole]
            written = self.parts.read_all(f"{WRITTEN}/stages", first, StageCount)
            self.counts = add_counts([*self.parts.read_all("stages", sorted(whole), StageCount), *written])
        elif result.account is not None:
            run = self.run.root.name
            for count in result.account:
                if count.stage == "passages":
                    self.executor.count("fdarx_run_labels", count.rows_in, {"run": run, "model": ""})
                self.executor.count("fdarx_run_rejects", count.rejected, {"run": run, "stage": count.stage})
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
        inputs, selection = self.inputs, self.selection
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
        rejects = sorted(
            rejects + unselected, key=lambda reject: (reject.stage, reject.reason, reject.id, reject.source)
        )
        if not chosen:
            reasons = Counter(reject.reason for reject in rejects)
            listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
            message = f"no label is left to build from ({listed or 'no document was found'})"
            if unusable := _first_unusable(rejects):
                message += f": {unusable}"
            if unselected:
                message += "; see --document-types, --exclude-routes and --set-ids"
            raise EmptySelection(message)
        return Corpus(chosen, rejects, counts, sorted(selection.set_ids - {label.set_id for label in found}))

    def check_labels(self) -> None:
        """Raise RunConflict for a finished run that was made of other labels than those that are selected now."""
        check_inputs(self.run, self.select_labels().digest, "other labels")

    def survey_topics(self, *, keep: bool) -> list[TopicSurvey]:
        """Return what each selected label answers and is silent on, by set id.

        `keep` writes the surveys into the run, from which a resumed run reads them.
        """
        if not (self.amounts.twins or self.transfers):
            return []
        parts = self.corpus.parts
        kept = self.parts.existing("surveys", self.numbers) if keep else set()
        surveys: list[TopicSurvey] = []
        for number in sorted(kept):
            surveys += map(shared_places, self.parts.read("surveys", number, TopicSurvey))
        missing = [part for part in parts if part.number not in kept]
        self.progress("survey", len(surveys), len(self.corpus.labels), "")
        found_in_parts = self.executor.map(survey_labels, [part.inputs for part in missing])
        for part, found in zip(missing, found_in_parts, strict=True):
            surveys += map(shared_places, found)
            if keep:
                write_records(self.run.part("surveys", part.number), found, TopicSurvey)
            self.progress("survey", len(surveys), len(self.corpus.labels), "")
        return sorted(surveys, key=lambda survey: survey.set_id)

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        """Audit the questions, write the benchmark and the report, and mark the run complete.

        Raises AskingStopped where asking ended.
        """
        if ended:
            raise AskingStopped(next(iter(ended.values())))
        corpus, inputs = self.corpus, self.inputs
        counts = add_counts([*corpus.counts, *self.counts])
        check_accounts(counts)
        read = {"digest": corpus.digest, "files": len(inputs.sources), "ignored": inputs.ignored}
        summary: dict[str, Any] = {
            "input": {**read, "set_ids_not_found": corpus.not_found, "first_unusable": _first_unusable(corpus.rejects)},
            "stages": [asdict(count) for count in counts],
            "timings": self.timings,
            "flows": self.executor.flows,
            "asked": self.request_counts(),
            "reject_reasons": reject_reasons(self.run),
        }
        if self.clients.models:
            summary["replies"] = count_unusable(self.run)
            unscored = self.run.rows("questions", "unscored")
            summary["questions_without_verdict"] = sum(bool(stages) for (stages,) in unscored)
        reads = any(count.rows_in for count in counts if count.stage == ROUND_TRIP)
        tokens, counter = self.roles.reader_room
        if reads and tokens is not None:
            summary["labels_read_in_part"] = labels_that_exceed(self.run, tokens, counter)
        with self.timed("publish"):
            self.progress("publish", 0, 1, "")
            if len(self.roles.voters) > 1:
                summary["agreement"] = vote_agreement(split_build_votes(self.run))
            splits = choose_splits(self.run, dev_drugs=self.dev_drugs, seed=self.amounts.seed)
            summary["splits"] = splits.summary()
            summary["effective_size"] = effective_size(self.run)
            summary["audit"] = audit_build(self.run, splits)
            summary["questions"] = write_benchmark(self.run, about={**self.run.info(), **summary})
            summary["result"] = build_sentence(summary["questions"], len(corpus.labels), self.run.info()["config"])
            self.run.file("questions.html").write_text(questions_page(self.run, summary))
            self.run.file("report.html").write_text(build_report(self.run, summary))
        return self.end(summary, complete=True)


def _first_unusable(rejects: Sequence[Reject]) -> str:
    return next((f"{bad.source or bad.id}: {bad.detail}" for bad in rejects if bad.stage != "select"), "")
