"""The steps of a build over the state of one label, and the accounts of the rows that each stage keeps and rejects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fdarx_core.filters import LabelEvidence, drop_duplicates, first_failure
from fdarx_core.filters.judges import Judge, judges
from fdarx_core.filters.label_excerpt import PromptRoom
from fdarx_core.filters.votes import majority
from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import GenerationConfig, expected_items, label_text, make_contexts
from fdarx_core.generation.tasks import RULES_VERSION, TASKS, tasks_by
from fdarx_core.generation.topics import TopicSurvey, survey_label
from fdarx_core.generation.transfers import expected_transfers
from fdarx_core.labels import Identity, parse_document, read_document
from fdarx_core.llm import Baseline, Criteria, ModelsError, Task
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.round_trip_steps import answer_again, compare_answers, keep_twins
from fdarx_core.pipeline.steps import Address, AskStep, Exchange, Step, batches
from fdarx_core.pipeline.transfer_steps import account_for_sources
from fdarx_core.records import JudgeVerdict, QuestionAnswer, Reject, Request
from fdarx_core.storage.errors import InputError


def baseline() -> Baseline:
    """Return the built-in rules, which write template questions. They judge nothing."""
    return Baseline(TASKS, RULES_VERSION)


NONE = "none"
"""The name of a reader or judge that a build does without."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Who writes, answers again and judges in a build.

    Attributes:
        models: the models by name.
        generator: the model that writes the questions, or `baseline` for template questions.
        reader: the model that answers every question in the round trip; "" for no round trip.
        judges: the models that judge, each of which votes `votes` times on a question at each stage; the first of them
            compares the answers of the round trip. None: nobody judges, and without a reader nothing is verified.
        strict: whether a question is dropped where a verdict on it is missing; otherwise it stays, and is marked.
        drop_known: whether a question is dropped that the reader answers without any passage.
    """

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    generator: str = Baseline.name
    reader: str = ""
    judges: Sequence[str] = ()
    votes: int = 1
    strict: bool = False
    drop_known: bool = False

    @classmethod
    def named(
        cls, models: Mapping[str, ModelConfig], generator: str, reader: str | None, judges: Sequence[str], **how: Any
    ) -> Roles:
        """Return the roles by the names that a user gave.

        Args:
            models: the models by name.
            generator: the model that writes, or `baseline`.
            reader: the model that answers again, or `none`; None for the generator, where that is a model.
            judges: the models that judge, or `none` alone; empty for the generator, where that is a model.
            how: the other attributes.

        Raises ModelsError for `baseline`, which judges nothing, and for `none` beside models.
        """
        writer = [] if generator == Baseline.name else [generator]
        given = {"reader": writer if reader is None else [reader], "judge": list(judges) or writer}
        for role, names in given.items():
            if Baseline.name in names:
                raise ModelsError(
                    f"--{role} {Baseline.name}: the built-in rules judge nothing; name a model of --models, or {NONE}"
                )
            if NONE in names and len(names) > 1:
                raise ModelsError(f"--{role}: {NONE} stands beside models; give models, or {NONE} alone")
        readers, judged_by = ([name for name in names if name != NONE] for names in given.values())
        return cls(models, generator, "".join(readers), tuple(judged_by), **how)

    def check_votes(self) -> None:
        """Raise ModelsError for an even number of votes, and for a judge that would repeat its first vote."""
        total = len(self.judges) * self.votes
        if self.judges and total % 2 == 0:
            raise ModelsError(
                f"--votes: the number of judges ({len(self.judges)}) times votes ({self.votes}) must be odd, so that a "
                "majority decides"
            )
        for name in self.judges if self.votes > 1 else ():
            if self.models[name].sampling.get("temperature") == 0:
                raise ModelsError(
                    f"--votes {self.votes}: {name} has temperature 0 and gives the same vote each time; raise the "
                    "temperature in its sampling in --models"
                )

    @property
    def by_model(self) -> bool:
        """Whether a model writes the questions."""
        return self.generator != Baseline.name

    def address(self, name: str) -> Address:
        """Return where requests of that name go. Raises KeyError for a name that is no model."""
        return Address.of(name, self.models, baseline())

    @property
    def judges_itself(self) -> bool:
        """Whether the model that writes the questions is the only judge or the reader of them."""
        return self.by_model and (self.reader == self.generator or set(self.judges) == {self.generator})

    @property
    def comparer(self) -> str:
        """The model that compares the answers of the round trip with those of the writer."""
        return self.judges[0] if self.judges else self.reader

    @property
    def reader_room(self) -> PromptRoom | None:
        """The room that the reader's context has for a label; None without a reader or a known limit."""
        return PromptRoom.of(self.models[self.reader]) if self.reader else None

    @property
    def voters(self) -> list[Address]:
        """The addresses of the votes on a question, judge by judge."""
        return [self.address(name).for_vote(vote) for name in self.judges for vote in range(1, self.votes + 1)]

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        names = {self.generator, self.reader, *self.judges}
        return {name: model for name, model in self.models.items() if name in names}


def build_steps(
    amounts: GenerationConfig,
    roles: Roles | None = None,
    judged_by: Sequence[Judge] | None = None,
    criteria: Criteria | None = None,
    *,
    planned: bool = False,
) -> list[Step[LabelState]]:
    """Return the steps of a build in order, from the source of a label to its questions. Source: FDARxBench §3.2.

    `judged_by` are the judges, by default `judges()`; `criteria` are those of the writer, None for the project's own.
    In a plan, where no model is asked, each passage has as many questions as a model may write on it.
    """
    roles = roles or Roles()
    return [
        parse,
        partial(chunk, amounts),
        generate(roles.address(roles.generator), tasks_by(criteria), planned=planned),
        *([keep_expected] if planned and roles.by_model else [filter_by_rules, filter_duplicates]),
        *_judging_steps(roles, judged_by, planned=planned),
        keep_twins,
    ]


def transfer_steps(roles: Roles, judged_by: Sequence[Judge]) -> list[Step[LabelState]]:
    """Return the steps that candidates take which were transferred from other labels, all those of a build."""
    return [filter_by_rules, filter_duplicates, *_judging_steps(roles, judged_by), account_for_sources]


def _judging_steps(
    roles: Roles, judged_by: Sequence[Judge] | None, *, planned: bool = False
) -> list[AskStep[LabelState]]:
    steps: list[AskStep[LabelState]] = []
    if roles.judges:
        chosen = judges() if judged_by is None else judged_by
        steps += (judge_step(one, roles.voters, strict=roles.strict, planned=planned) for one in chosen)
    if roles.reader:
        how = {"strict": roles.strict, "drop_known": roles.drop_known, "planned": planned}
        room = roles.reader_room
        steps += (
            answer_again(roles.address(roles.reader), room),
            compare_answers(roles.address(roles.comparer), **how),
        )
    return steps


def survey_labels(identities: Sequence[Identity]) -> list[TopicSurvey]:
    """Return what labels answer and are silent on; nothing on a label that cannot be read."""
    surveys: list[TopicSurvey] = []
    for identity in identities:
        try:
            label, passages = parse_document(read_document(identity.source), identity.source.name)
        except InputError:
            continue
        if passages:
            surveys.append(survey_label(label, passages))
    return surveys


def parse(state: LabelState) -> None:
    """Parse the source of a label into the Label and its Passages."""
    source = state.identity.source
    try:
        state.label, state.passages = parse_document(read_document(source), source.name)
    except InputError as error:
        _reject_label(state, error.reason, error.detail)
        return
    if state.passages:
        state.account("passages", 1, 1, len(state.passages))
    else:
        _reject_label(state, "no_body", "no section of the label has text")


def _reject_label(state: LabelState, reason: str, detail: str) -> None:
    set_id, name = state.identity.set_id, state.identity.source.name
    state.label = None
    state.account("passages", 1, 0, 0, [Reject(set_id, "passages", reason, detail, set_id, name)])


def chunk(amounts: GenerationConfig, state: LabelState) -> None:
    """Make the Contexts for questions from the passages."""
    if state.label is not None:
        plan = state.plan
        state.contexts = make_contexts(state.label, state.passages, amounts, plan.pairs, by_model=plan.by_model)
        state.account("contexts", 1, 1, len(state.contexts))


def generate(address: Address, tasks: Mapping[str, Task[Any]] = TASKS, *, planned: bool = False) -> AskStep[LabelState]:
    """Return the step Contexts → candidate questions; `tasks` are the tasks of generation by name."""
    requests = partial(_generation_requests, address, tasks, planned)
    return AskStep("generate", frozenset((address.name,)), requests, _take_candidates)


def _generation_requests(
    address: Address, tasks: Mapping[str, Task[Any]], planned: bool, state: LabelState
) -> list[Request]:
    if address.name == Baseline.name:
        slots = [one.slots for one in state.contexts]
    elif planned:
        slots = [one.slots | {"written": one.slots["written"] or expected_items(one)} for one in state.contexts]
    else:
        # What the rules write is not part of a model's request, whose key would change with the rules.
        slots = [one.slots | {"written": []} for one in state.contexts]
    return [address.request(tasks[one.task], given) for one, given in zip(state.contexts, slots, strict=True)]


def _take_candidates(state: LabelState, exchanges: Sequence[Exchange]) -> None:
    if state.label is None:
        return
    rejects: list[Reject] = []
    for context, (_, response) in zip(state.contexts, exchanges, strict=True):
        parsed = parse_candidates(context, response, state.label, state.passages)
        if isinstance(parsed, Reject):
            rejects.append(parsed)
        else:
            state.candidates.extend(parsed)
    kept = len(state.contexts) - len(rejects)
    state.account("generate", len(state.contexts), kept, len(state.candidates), rejects)


def keep_expected(state: LabelState) -> None:
    """Keep all candidates, in a plan: those of a model are not known, and what stands in their place has no wording.

    Candidates are added for the questions of other labels that are expected to be asked of this one.
    """
    if state.label is not None:
        expected = expected_transfers(state.label, state.plan.transfers)
        state.account("generate", 0, 0, len(expected))
        state.candidates.extend(expected)
    state.questions = list(state.candidates)
    for stage in ("rules", "duplicates"):
        state.account(stage, len(state.questions), len(state.questions), len(state.questions))


def filter_by_rules(state: LabelState) -> None:
    """Keep the candidates that pass every rule as questions. Source: FDARxBench §B.4, stage 1."""
    if state.label is None:
        return
    rejects: list[Reject] = []
    names = [state.label.drug_name, *state.label.aliases]
    whole = label_text(state.label, state.passages)
    for question in state.candidates:
        gold = [state.passages[index] for index in question.gold_passages]
        texts = [f"{one.table_header}\n{one.text}".lstrip() for one in gold]
        failure = first_failure(question, LabelEvidence(names, texts, whole))
        if failure is None:
            state.questions.append(question)
        else:
            rejects.append(Reject(question.id, "rules", *failure, question.set_id))
    kept = len(state.questions)
    state.account("rules", len(state.candidates), kept, kept, rejects)


def filter_duplicates(state: LabelState) -> None:
    """Drop exact and near duplicates among the questions of a label."""
    if state.label is not None:
        before = len(state.questions)
        state.questions, repeated = drop_duplicates(state.questions)
        state.account("duplicates", before, len(state.questions), len(state.questions), repeated)


def judge_step(
    judge: Judge, voters: Sequence[Address], *, strict: bool = False, planned: bool = False
) -> AskStep[LabelState]:
    """Return the step Questions → questions that the majority of a judge's votes keeps; each of `voters` is one vote.

    A vote that fails is no verdict. Where fewer than half of the votes on a question are verdicts, it stays, marked as
    unscored; `strict` drops it. In a plan all questions are kept, since nobody knows what the judges will drop.
    """
    return AskStep(
        judge.stage,
        frozenset(address.name for address in voters),
        partial(_judge_requests, judge, voters),
        partial(_take_verdicts, judge, len(voters), strict, planned),
    )


def _judge_requests(judge: Judge, voters: Sequence[Address], state: LabelState) -> list[Request]:
    label = state.label
    if label is None:
        return []
    requests: list[Request] = []
    for question in state.questions:
        if (task := judge.task(question)) is not None:
            slots = judge.slots(question, label, state.passages)
            requests += [address.request(task, slots) for address in voters]
    return requests


def _take_verdicts(
    judge: Judge, votes: int, strict: bool, planned: bool, state: LabelState, exchanges: Sequence[Exchange]
) -> None:
    if state.label is None:
        return
    waiting = batches(exchanges, votes)
    kept: list[QuestionAnswer] = []
    rejects: list[Reject] = []
    for question in state.questions:
        if judge.task(question) is None:
            kept.append(question)
            continue
        verdicts = [judge.read(question, request.slots, response) for request, response in next(waiting)]
        for number, verdict in enumerate(verdicts, 1):
            verdict.vote = number
        state.verdicts += verdicts
        decided = majority(verdicts)
        if planned or decided.outcome == "kept":
            kept.append(_with_verdict(question, decided, verdicts))
        elif decided.outcome == "unscored" and not strict:
            question.unscored = [*question.unscored, judge.stage]
            kept.append(question)
        else:
            rejects.append(_reject_question(question, decided, verdicts))
    before = len(state.questions)
    state.questions = kept
    state.account(judge.stage, before, len(kept), len(kept), rejects)


def _with_verdict(question: QuestionAnswer, decided: JudgeVerdict, votes: Sequence[JudgeVerdict]) -> QuestionAnswer:
    question.judge = decided.endpoint
    question.verdict_keys = [*question.verdict_keys, *(vote.response_key for vote in votes)]
    question.relevance = decided.relevance or question.relevance
    question.category = decided.category or question.category
    return question


def _reject_question(question: QuestionAnswer, decided: JudgeVerdict, votes: Sequence[JudgeVerdict]) -> Reject:
    reason = decided.reason if decided.outcome == "dropped" else f"unscored_{decided.reason}"
    detail = decided.detail
    if len(votes) > 1:
        agreeing = sum(vote.outcome == decided.outcome for vote in votes)
        detail = f"{agreeing} of {len(votes)} votes {decided.outcome}: {detail}".removesuffix(": ")
    return Reject(question.id, decided.stage, reason, detail, question.set_id)
