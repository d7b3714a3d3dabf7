"""Loopback judges that know which questions are spoilt, and err at a known rate; what their votes must come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import comb
from typing import Any

import orjson

from benchmarks import wilson_interval
from benchmarks.defects import Defect
from benchmarks.spoilt_labels import Runner, SpoiltLabel
from fdarx_core.filters import tasks
from fdarx_core.filters.judges import Judge, judges
from fdarx_core.filters.tasks import NO_TOPIC
from fdarx_core.llm import ModelConfig, Reply
from fdarx_core.pipeline.build_steps import Roles, judge_step
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.records import Label, Passage, QuestionAnswer
from tests.llm.loopback_server import LoopbackServer

SEED = 11
_QUOTED_WORDS = 12
JUDGES: tuple[Judge, ...] = tuple(one for one in judges() if one.stage in ("relevance", "support", "quality"))
"""The built-in judges; what others reply is not known here."""


def chance_kept(keeping: float, votes: int) -> float:
    """Return the chance that independent votes keep a question, each with the chance `keeping`; a tie drops it."""
    return sum(
        comb(votes, kept) * keeping**kept * (1 - keeping) ** (votes - kept)
        for kept in range(votes + 1)
        if 2 * kept > votes
    )


def expected_kept(error: float, votes: int, spoilt: bool) -> float:
    """Return the chance that a question passes all judges; one of them should drop a spoilt question."""
    right, wrong = chance_kept(1 - error, votes), chance_kept(error, votes)
    return float(right ** (len(JUDGES) - spoilt) * wrong**spoilt)


@dataclass(slots=True)
class Truth:
    """What a judge without errors replies to each prompt, by its messages, and what it replies where it errs."""

    replies: dict[bytes, tuple[str, str]] = field(default_factory=dict)

    def learn(self, question: QuestionAnswer, label: Label, passages: Sequence[Passage], defect: Defect | None) -> None:
        """Learn the replies to what the judges are asked about a question; `defect` is None for a good one."""
        for judge in JUDGES:
            if (task := judge.task(question)) is not None:
                slots = judge.slots(question, label, passages)
                messages = task.request(slots, endpoint="", sampling={}).messages
                keep, drop = (one.model_dump_json() for one in _replies(judge.stage, question, slots))
                right = drop if defect is not None and defect.judged_at == judge.stage else keep
                self.replies[_digest(messages)] = (right, keep if right == drop else drop)

    def answer(self, body: Mapping[str, Any]) -> str:
        """Reply to a request; the name of its model ends in the rate at which it errs, independently a request."""
        right, wrong = self.replies[_digest(body["messages"])]
        drawn = blake2b(orjson.dumps([body["messages"], body["model"], body["seed"]]), digest_size=8).digest()
        error = float(body["model"].rpartition(" ")[2])
        return wrong if int.from_bytes(drawn, "big") < error * 2**64 else right


def _digest(messages: Any) -> bytes:
    return blake2b(orjson.dumps(messages), digest_size=16).digest()


def _replies(stage: str, question: QuestionAnswer, slots: Mapping[str, Any]) -> tuple[Reply, Reply]:
    """Return the replies that keep and that drop a question, with evidence that is in the text."""
    keep: dict[str, Any]
    drop: dict[str, Any]
    if stage == "support":
        return _support_replies(question, slots)
    if stage == "relevance":
        reply: type[Reply] = tasks.RelevanceReply
        keep = {"reason": "", "category": question.category, "relevance": "relevant"}
        drop = {"reason": "", "category": NO_TOPIC, "relevance": "irrelevant"}
    else:
        reply = _QUALITY[question.type]
        keep, drop = {"note": "", "flags": []}, {"note": "", "flags": ["other"]}
    return reply.model_validate(keep), reply.model_validate(drop)


_QUALITY: dict[str, type[Reply]] = {
    "factual": tasks.FactualQualityReply,
    "multihop": tasks.MultihopQualityReply,
    "refusal": tasks.RefusalQualityReply,
}


def _support_replies(question: QuestionAnswer, slots: Mapping[str, Any]) -> tuple[Reply, Reply]:
    if question.type == "multihop":
        a, b = _quote(slots["context_a"]), _quote(slots["context_b"])
        one, other = (
            tasks.MultihopSupportReply(
                evidence_a=a, evidence_b=b, fault="", supported_by_a=yes, supported_by_b=yes, both_needed=yes
            )
            for yes in (True, False)
        )
        return one, other
    quote = _quote(next(one["text"] for one in slots["passages"] if _quote(one["text"])))
    if question.type == "refusal":
        return (
            tasks.RefusalSupportReply(closest_text="", label_answers=False),
            tasks.RefusalSupportReply(closest_text=quote, label_answers=True),
        )
    return (
        tasks.FactualSupportReply(evidence=quote, fault="", supported=True),
        tasks.FactualSupportReply(evidence="", fault="the answer is spoilt", supported=False),
    )


def _quote(text: str) -> str:
    return " ".join(text.split()[:_QUOTED_WORDS])


@dataclass(frozen=True, slots=True)
class Measured:
    """What judges with one error rate and number of votes caught of the spoilt questions and lost of the good ones."""

    error: float
    votes: int
    spoilt: int
    caught: int
    good: int
    lost: int

    def line(self) -> str:
        """Return a row of a table: shares with 95 % intervals beside the shares that are expected by calculation."""
        cells = [f"{self.error:.0%}", str(self.votes)]
        for hit, of, spoilt in ((self.caught, self.spoilt, True), (self.lost, self.good, False)):
            low, high = wilson_interval(hit, of)
            due = 1 - expected_kept(self.error, self.votes, spoilt)
            outside = "" if low <= due <= high else " (outside)"
            cells += [str(of), f"{hit / of:.3f} ({low:.3f} to {high:.3f})", f"{due:.3f}{outside}"]
        return f"| {' | '.join(cells)} |"


HEADINGS = "| error | votes | spoilt | caught | expected | good | lost | expected |\n|--:|--:|--:|---|--:|--:|---|--:|"


def measure_votes(
    labels: Sequence[SpoiltLabel], errors: Sequence[float], votes: Sequence[int], folder: str
) -> Iterator[Measured]:
    """Yield what the chain of judges catches and loses for each error rate and number of votes.

    The spoilt questions are judged, and the good ones that they were made of, each once, by the real steps and client.
    """
    chosen = _judged_alone(labels)
    truth = Truth()
    for label in chosen:
        assert label.written.label is not None
        for key, question in label.questions.items():
            truth.learn(question, label.written.label, label.written.passages, label.spoilt.get(key))
    with LoopbackServer(truth.answer, keep_calls=False) as server:
        for error in errors:
            name = f"errs-{error:g}"
            model = ModelConfig(name=name, model=f"errs {error:g}", base_url=server.openai_url, sampling={"seed": SEED})
            runner = Runner({name: model}, folder)
            for count in votes:
                roles = Roles({name: model}, judges=(name,), votes=count)
                states = [label.judged() for label in chosen]
                runner.run([judge_step(judge, roles.voters) for judge in JUDGES], states)
                yield _measured(error, count, chosen, states)


def _judged_alone(labels: Iterable[SpoiltLabel]) -> list[SpoiltLabel]:
    """Return labels with the spoilt questions alone, and labels with the good questions that these were."""
    spoilt = [SpoiltLabel(one.written, {key: one.questions[key] for key in one.spoilt}, one.spoilt) for one in labels]
    good: dict[str, SpoiltLabel] = {}
    for label in spoilt:
        originals = good.setdefault(label.written.identity.set_id, SpoiltLabel(label.written, {}))
        originals.questions |= {one.id: one for one in label.written.candidates if one.id in label.spoilt}
    return [label for label in (*spoilt, *good.values()) if label.questions]


def _measured(error: float, votes: int, labels: Sequence[SpoiltLabel], states: Sequence[LabelState]) -> Measured:
    counts = {"spoilt": 0, "caught": 0, "good": 0, "lost": 0}
    for label, state in zip(labels, states, strict=True):
        dropped = len({one.id for one in state.rejects})
        all_of, gone = ("spoilt", "caught") if label.spoilt else ("good", "lost")
        counts[all_of] += len(label.questions)
        counts[gone] += dropped
    return Measured(error, votes, **counts)
