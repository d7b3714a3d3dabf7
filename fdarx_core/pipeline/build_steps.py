"""The steps of a build over the state of one label, and the accounts of the rows that each stage keeps and rejects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fdarx_core.filters.duplicates import drop_duplicates
from fdarx_core.filters.judges import Judge, majority
from fdarx_core.filters.label_excerpt import PROMPT_TOKENS
from fdarx_core.filters.rules import LabelEvidence, first_failure
from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import GenerationConfig, label_text, make_contexts
from fdarx_core.generation.tasks import RULES_VERSION
from fdarx_core.generation.topics import TopicSurvey, survey_label
from fdarx_core.generation.transfers import expected_transfers
from fdarx_core.generation.writing import writing_tasks, written_types
from fdarx_core.labels import Identity, parse_document, read_document
from fdarx_core.llm import Baseline, Criteria, ModelsError, Task
from fdarx_core.llm.model_config import ModelConfig, TokenCounter, tokens_left
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.round_trip_steps import account_for_sources, answer_again, compare_answers, keep_twins
from fdarx_core.pipeline.steps import Address, Asking, AskStep, Step, batches
from fdarx_core.records import QuestionAnswer, Reject, Request
from fdarx_core.storage.errors import InputError


def baseline() -> Baseline:
    """Return the built-in rules, which write template questions. They judge nothing."""
    return Baseline(writing_tasks(), RULES_VERSION)


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
    def reader_room(self) -> tuple[int | None, TokenCounter]:
        """The tokens that the reader's context has for a label, None without a known limit, and what counts them."""
        return tokens_left(self.models[self.reader] if self.reader else None, PROMPT_TOKENS)

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
    roles: Roles,
    judged_by: Sequence[Judge],
    criteria: Criteria | None = None,
    *,
    planned: bool = False,
) -> list[Step[LabelState]]:
    """Return the steps of a build in order, from the source of a label to its questions. Source: FDARxBench §3.2.

    `judged_by` are the judges; `criteria` are those of the writer, None for the project's own.
    In a plan, where no model is asked, each passage has as many questions as a model may write on it.
    """
    writer = roles.address(roles.generator)
    return [
        parse,
        partial(chunk, amounts),
        writer.step("generate", partial(generate, writer, writing_tasks(criteria), planned)),
        *([keep_expected] if planned and roles.by_model else [filter_by_rules, filter_duplicates]),
        *judging_steps(roles, judged_by, planned=planned),
        keep_twins,
    ]


def transfer_steps(roles: Roles, judged_by: Sequence[Judge]) -> list[Step[LabelState]]:
    """Return the steps for transferred candidates: the filters and judges of a build, without parsing and writing."""
    return [filter_by_rules, filter_duplicates, *judging_steps(roles, judged_by), account_for_sources]


def judging_steps(roles: Roles, judged_by: Sequence[Judge], *, planned: bool = False) -> list[AskStep[LabelState]]:
    """Return the steps of the judges and of the round trip, as far as models have these roles; see `build_steps`."""
    steps: list[AskStep[LabelState]] = []
    voters = roles.voters
    names = frozenset(voter.name for voter in voters)
    for judge in judged_by if roles.judges else ():
        steps.append(AskStep(judge.stage, names, partial(judge_questions, judge, voters, roles.strict, planned)))
    if roles.reader:
        reader, comparer = roles.address(roles.reader), roles.address(roles.comparer)
        compare = partial(compare_answers, comparer, roles.strict, roles.drop_known, planned)
        steps.append(reader.step("round_trip", partial(answer_again, reader, roles.reader_room)))
        steps.append(comparer.step("compare_answers", compare))
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
    source, set_id = state.identity.source, state.identity.set_id
    fault = "no_body", "no section of the label has text"
    try:
        state.label, state.passages = parse_document(read_document(source), source.name)
    except InputError as error:
        fault = error.reason, error.detail
    if state.passages:
        state.account("passages", 1, 1, len(state.passages))
    else:
        state.label = None
        state.account("passages", 1, 0, 0, [Reject(set_id, "passages", *fault, set_id, source.name)])


def chunk(amounts: GenerationConfig, state: LabelState) -> None:
    """Make the Contexts for questions from the passages."""
    if state.label is not None:
        plan = state.plan
        state.contexts = make_contexts(state.label, state.passages, amounts, plan.pairs, by_model=plan.by_model)
        state.account("contexts", 1, 1, len(state.contexts))


def generate(address: Address, tasks: Mapping[str, Task[Any]], planned: bool, state: LabelState) -> Asking:
    """Ask the writer for candidate questions on the Contexts, by its tasks."""
    if state.label is None:
        return
    if address.name == Baseline.name:
        slots = [context.slots for context in state.contexts]
    elif planned:
        types = written_types()
        slots = [
            context.slots | {"written": context.slots["written"] or types[context.task].writing.expected(context)}
            for context in state.contexts
        ]
    else:
        # A model's request leaves out what the rules write, so that its key does not change with the rules.
        slots = [context.slots | {"written": []} for context in state.contexts]
    pairs = zip(state.contexts, slots, strict=True)
    exchanges = yield [address.request(tasks[context.task], own_slots) for context, own_slots in pairs]
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
    """Keep all candidates (used in a plan).

    A model's questions are not known yet; the placeholders have no wording, so no filter can judge them. Candidates are
    added for the questions of other labels that are expected to be asked of this one.
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
        texts = [f"{passage.table_header}\n{passage.text}".lstrip() for passage in gold]
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
        state.keep("duplicates", *drop_duplicates(state.questions))


def judge_questions(judge: Judge, voters: Sequence[Address], strict: bool, planned: bool, state: LabelState) -> Asking:
    """Keep the questions that the majority of a judge's votes keeps; each of `voters` is one vote.

    A vote that fails is no verdict. Where fewer than half of the votes on a question are verdicts, it stays, marked as
    unscored; `strict` drops it. In a plan all questions are kept, since nobody knows what the judges will drop.
    """
    label, votes = state.label, len(voters)
    if label is None:
        return
    requests: list[Request] = []
    for question in state.questions:
        if (task := judge.task(question)) is not None:
            slots = judge.slots(question, label, state.passages)
            requests += [address.request(task, slots) for address in voters]
    exchanges = yield requests
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
            question.judge = decided.endpoint
            question.verdict_keys = [*question.verdict_keys, *(verdict.response_key for verdict in verdicts)]
            question.relevance = decided.relevance or question.relevance
            question.category = decided.category or question.category
            kept.append(question)
        elif decided.outcome == "unscored" and not strict:
            question.unscored = [*question.unscored, judge.stage]
            kept.append(question)
        else:
            reason = decided.reason if decided.outcome == "dropped" else f"unscored_{decided.reason}"
            detail = decided.detail
            if votes > 1:
                agreeing = sum(verdict.outcome == decided.outcome for verdict in verdicts)
                detail = f"{agreeing} of {votes} votes {decided.outcome}: {detail}".removesuffix(": ")
            rejects.append(Reject(question.id, judge.stage, reason, detail, question.set_id))
    state.keep(judge.stage, kept, rejects)
