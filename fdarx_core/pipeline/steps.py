"""The steps of a build over one dossier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.filters import Evidence, drop_duplicates, first_failure
from fdarx_core.filters.judges import Judge
from fdarx_core.generation.candidates import from_highlights, understand
from fdarx_core.generation.contexts import Amounts, contexts, label_text
from fdarx_core.generation.tasks import TASKS
from fdarx_core.labels import BadDocument, BadSource, parse_label, read_document
from fdarx_core.llm import Task
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.stepping import Address, Asked
from fdarx_core.records import QuestionAnswer, Reject, Request, Verdict


@dataclass(frozen=True, slots=True)
class Read:
    """Address → Label and Passages."""

    def __call__(self, dossier: Dossier) -> None:
        source = dossier.identity.source
        try:
            dossier.label, dossier.passages = parse_label(read_document(source), source.name)
        except (BadDocument, BadSource) as error:
            self._drop(dossier, error.reason, error.detail)
            return
        if dossier.passages:
            dossier.close("passages", 1, 1, len(dossier.passages))
        else:
            self._drop(dossier, "no_body", "no section of the label has text")

    def _drop(self, dossier: Dossier, reason: str, detail: str) -> None:
        set_id, name = dossier.identity.set_id, dossier.identity.source.name
        dossier.label = None
        dossier.close("passages", 1, 0, 0, [Reject(set_id, "passages", reason, detail, set_id, name)])


@dataclass(frozen=True, slots=True)
class Choose:
    """Passages → Contexts: what to ask about."""

    amounts: Amounts

    def __call__(self, dossier: Dossier) -> None:
        if dossier.label is not None:
            dossier.contexts = contexts(dossier.label, dossier.passages, self.amounts)
            dossier.close("contexts", 1, 1, len(dossier.contexts))


@dataclass(frozen=True, slots=True)
class Generate:
    """Contexts → candidate questions; those from the Highlights, which nobody is asked for, come first."""

    addresses: Mapping[str, Address]

    @property
    def endpoints(self) -> frozenset[str]:
        return frozenset(address.name for address in self.addresses.values())

    def requests(self, dossier: Dossier) -> list[Request]:
        return [_request(TASKS[one.task], one.slots, self.addresses[one.task]) for one in dossier.contexts]

    def take(self, dossier: Dossier, asked: Sequence[Asked]) -> None:
        if dossier.label is None:
            return
        rejects: list[Reject] = []
        found: list[QuestionAnswer] = []
        for context, (_, response) in zip(dossier.contexts, asked, strict=True):
            made = understand(context, response, dossier.label, dossier.passages)
            if isinstance(made, Reject):
                rejects.append(made)
            else:
                found.extend(made)
        dossier.candidates = from_highlights(dossier.label, dossier.passages) + found
        kept = len(dossier.contexts) - len(rejects)
        dossier.close("generate", len(dossier.contexts), kept, len(dossier.candidates), rejects)


def _request(task: Task[Any], slots: Mapping[str, Any], address: Address) -> Request:
    return task.request(slots, endpoint=address.name, sampling=address.sampling)


def apply_rules(dossier: Dossier) -> None:
    """Candidates → questions that pass every rule. Source: FDARxBench §B.4, stage 1."""
    if dossier.label is None:
        return
    rejects: list[Reject] = []
    names = [dossier.label.drug_name, *dossier.label.aliases]
    whole = label_text(dossier.label, dossier.passages)
    for question in dossier.candidates:
        texts = [dossier.passages[index].text for index in question.gold_passages]
        failure = first_failure(question, Evidence(names, texts, whole))
        if failure is None:
            dossier.questions.append(question)
        else:
            rejects.append(Reject(question.id, "rules", *failure, question.set_id))
    kept = len(dossier.questions)
    dossier.close("rules", len(dossier.candidates), kept, kept, rejects)


def keep_one_of_each(dossier: Dossier) -> None:
    """Questions → questions without exact and near duplicates within the label."""
    if dossier.label is not None:
        before = len(dossier.questions)
        dossier.questions, repeated = drop_duplicates(dossier.questions)
        dossier.close("duplicates", before, len(dossier.questions), len(dossier.questions), repeated)


@dataclass(frozen=True, slots=True)
class Judged:
    """Questions → questions that a judge keeps. A judge that fails has found nothing: the question is unscored."""

    judge: Judge
    address: Address

    @property
    def endpoints(self) -> frozenset[str]:
        return frozenset((self.address.name,))

    def requests(self, dossier: Dossier) -> list[Request]:
        label = dossier.label
        if label is None:
            return []
        return [
            _request(task, self.judge.slots(question, label, dossier.passages), self.address)
            for question in dossier.questions
            if (task := self.judge.task(question)) is not None
        ]

    def take(self, dossier: Dossier, asked: Sequence[Asked]) -> None:
        if dossier.label is None:
            return
        waiting = iter(asked)
        kept: list[QuestionAnswer] = []
        rejects: list[Reject] = []
        for question in dossier.questions:
            if self.judge.task(question) is None:
                kept.append(question)
                continue
            request, response = next(waiting)
            verdict = self.judge.read(question, request.slots, response)
            dossier.verdicts.append(verdict)
            if verdict.outcome == "kept":
                kept.append(_judged(question, verdict))
            else:
                rejects.append(_fallen(question, verdict))
        before = len(dossier.questions)
        dossier.questions = kept
        dossier.close(self.judge.stage, before, len(kept), len(kept), rejects)


def _judged(question: QuestionAnswer, verdict: Verdict) -> QuestionAnswer:
    question.judge = verdict.endpoint
    question.verdict_keys = [*question.verdict_keys, verdict.response_key]
    question.relevance = verdict.relevance or question.relevance
    question.category = verdict.category or question.category
    return question


def _fallen(question: QuestionAnswer, verdict: Verdict) -> Reject:
    reason = verdict.reason if verdict.outcome == "dropped" else f"unscored_{verdict.reason}"
    return Reject(question.id, verdict.stage, reason, verdict.detail, question.set_id)
