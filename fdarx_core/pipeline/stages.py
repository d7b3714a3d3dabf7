"""The stages of a build as functions over dossiers. They know no Ray: a loop over them builds the same benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fdarx_core.filters import Evidence, drop_duplicates, first_failure
from fdarx_core.generation.candidates import from_highlights, understand
from fdarx_core.generation.contexts import Amounts, contexts, label_text
from fdarx_core.generation.tasks import RULES_VERSION, TASKS
from fdarx_core.labels import BadDocument, BadSource, parse_label, read_document
from fdarx_core.llm import Baseline, Endpoint, ResponseStore, ask
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.records import QuestionAnswer, Reject

Stage = Callable[[Sequence[Dossier]], list[Dossier]]

STAGES = ("passages", "contexts", "generate", "rules", "duplicates")
"""The names under which dossiers account for their rows, in order."""


def build_stages(amounts: Amounts, store: ResponseStore | None = None) -> list[Stage]:
    """The stages of a build in order, from addresses of labels to finished questions."""
    endpoint = Baseline(TASKS, RULES_VERSION)
    return [Read(), Choose(amounts), Ask(endpoint, store), understand_replies, filter_candidates]


@dataclass(slots=True)
class Read:
    """Address → Label and Passages."""

    def __call__(self, dossiers: Sequence[Dossier]) -> list[Dossier]:
        for dossier in dossiers:
            self._read(dossier)
        return list(dossiers)

    def _read(self, dossier: Dossier) -> None:
        identity = dossier.identity
        source = identity.source
        try:
            dossier.label, dossier.passages = parse_label(read_document(source), source.name)
        except (BadDocument, BadSource) as error:
            self._drop(dossier, error.reason, error.detail)
            return
        if not dossier.passages:
            self._drop(dossier, "no_body", "no section of the label has text")
            return
        dossier.close("passages", 1, 1, len(dossier.passages))

    def _drop(self, dossier: Dossier, reason: str, detail: str) -> None:
        set_id, name = dossier.identity.set_id, dossier.identity.source.name
        dossier.label = None
        dossier.close("passages", 1, 0, 0, [Reject(set_id, "passages", reason, detail, set_id, name)])


@dataclass(slots=True)
class Choose:
    """Passages → Contexts: what to ask about."""

    amounts: Amounts

    def __call__(self, dossiers: Sequence[Dossier]) -> list[Dossier]:
        for dossier in dossiers:
            if dossier.label is not None:
                dossier.contexts = contexts(dossier.label, dossier.passages, self.amounts)
                dossier.close("contexts", 1, 1, len(dossier.contexts))
        return list(dossiers)


@dataclass(slots=True)
class Ask:
    """Contexts → Responses. The requests of all labels of a batch go out together, those of one label in a row."""

    endpoint: Endpoint
    store: ResponseStore | None

    def __call__(self, dossiers: Sequence[Dossier]) -> list[Dossier]:
        name, sampling = self.endpoint.name, self.endpoint.sampling
        requests = [
            TASKS[context.task].request(context.slots, endpoint=name, sampling=sampling)
            for dossier in dossiers
            for context in dossier.contexts
        ]
        responses = iter(ask(requests, self.endpoint, self.store))
        for dossier in dossiers:
            dossier.responses = [next(responses) for _ in dossier.contexts]
        return list(dossiers)


def understand_replies(dossiers: Sequence[Dossier]) -> list[Dossier]:
    """Responses → candidate questions. Candidates from the Highlights, which nobody is asked for, come first."""
    for dossier in dossiers:
        if dossier.label is None:
            continue
        highlights = from_highlights(dossier.label, dossier.passages)
        rejects: list[Reject] = []
        asked: list[QuestionAnswer] = []
        for context, response in zip(dossier.contexts, dossier.responses, strict=True):
            made = understand(context, response, dossier.label, dossier.passages)
            if isinstance(made, Reject):
                rejects.append(made)
            else:
                asked.extend(made)
        dossier.candidates = highlights + asked
        kept = len(dossier.contexts) - len(rejects)
        dossier.close("generate", len(dossier.contexts), kept, len(dossier.candidates), rejects)
    return list(dossiers)


def filter_candidates(dossiers: Sequence[Dossier]) -> list[Dossier]:
    """Candidates → questions: the rules one by one, then duplicates within the label. Source: FDARxBench §B.4."""
    for dossier in dossiers:
        if dossier.label is not None:
            kept = _apply_rules(dossier)
            dossier.questions, repeated = drop_duplicates(kept)
            dossier.close("duplicates", len(kept), len(dossier.questions), len(dossier.questions), repeated)
    return list(dossiers)


def _apply_rules(dossier: Dossier) -> list[QuestionAnswer]:
    assert dossier.label is not None
    kept: list[QuestionAnswer] = []
    rejects: list[Reject] = []
    names = [dossier.label.drug_name, *dossier.label.aliases]
    whole = label_text(dossier.label, dossier.passages)
    for question in dossier.candidates:
        texts = [dossier.passages[index].text for index in question.gold_passages]
        failure = first_failure(question, Evidence(names, texts, whole))
        if failure is None:
            kept.append(question)
        else:
            rejects.append(Reject(question.id, "rules", *failure, question.set_id))
    dossier.close("rules", len(dossier.candidates), len(kept), len(kept), rejects)
    return kept
