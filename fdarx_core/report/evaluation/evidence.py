"""Whether the gold passages were shown to a model that went wrong, and what it cited, in words."""

from __future__ import annotations

from fdarx_core.evaluation.places import Place, gold_places
from fdarx_core.records import Prediction, QuestionAnswer
from fdarx_core.report.evaluation.sources import Sources, cited_places, shown_places
from fdarx_core.report.evaluation.wording import plural
from fdarx_core.report.evaluation.wrong import WrongAnswer
from fdarx_core.report.retention import readable

EVIDENCE: dict[str, str] = {
    "shown": "Gold shown: a reading failure",
    "partly": "Gold shown in part",
    "missing": "Gold not shown: a retrieval failure",
    "memory": "Nothing shown: from memory",
    "unanswerable": "The label has no answer",
    "unknown": "Not known",
}
"""Where the evidence was, in the words of the page's filter."""


_VERDICTS: dict[str, str] = {
    "incorrect": "the answer is wrong",
    "not_attempted": "it gives no answer",
    "false_refusal": "the model refused",
}
"""What wrong answers to answerable questions did instead; other kinds say nothing of how passages were read."""


def weigh_evidence(wrong: WrongAnswer, question: QuestionAnswer, sources: Sources) -> tuple[str, str]:
    """A name in `EVIDENCE`, and the sentence that says it of this answer, "" where there is none to say."""
    prediction, gold = wrong.prediction, gold_places(question)
    if question.type == "refusal":
        return "unanswerable", ""
    if prediction.setting == "closed_book":
        return "memory", "No passage was shown: the model had only its memory."
    if wrong.kind not in _VERDICTS or not prediction.shown or not gold:
        return "unknown", ""
    shown = shown_places(prediction)
    alike = {stood[0] for place in shown if (stood := sources.stands_for(question, place))}
    strict = [place for place in gold if place in shown]
    found = [place for place in gold if place in shown or place[1] in alike]
    return _shown_sentence(wrong, len(gold), len(strict), len(found))


def _shown_sentence(wrong: WrongAnswer, gold: int, strict: int, found: int) -> tuple[str, str]:
    where, instead = _field(wrong.prediction), _VERDICTS[wrong.kind]
    if wrong.prediction.setting == "oracle" and found == gold:
        return "shown", f"Reading failure: {_every(gold)} stood in the prompt, and no other, yet {instead}."
    alike = f" ({found - strict} by a passage that states the same)" if found > strict else ""
    if found == gold:
        return "shown", f"Reading failure: {_every(gold)}{alike} stood {where}, yet {instead}."
    if found:
        return "partly", f"Retrieval failure in part: {found} of {gold} gold passages{alike} stood {where}."
    none_of_them = "the gold passage did not stand" if gold == 1 else f"none of the {gold} gold passages stood"
    fair = " Going by what was shown, the refusal was right." if wrong.kind == "false_refusal" else ""
    return "missing", f"Retrieval failure: {none_of_them} {where}.{fair}"


def _every(gold: int) -> str:
    return {1: "the gold passage", 2: "both gold passages"}.get(gold, f"all {gold} gold passages")


def _field(prediction: Prediction) -> str:
    shown = plural(len(prediction.shown), "passage")
    cuts = f"; {prediction.cuts:,} more were left out or cut" if prediction.cuts else ""
    return f"among the {shown} shown{cuts}"


def asks_for_citations(setting: str) -> bool:
    """Settings named by the user may."""
    return setting not in ("closed_book", "oracle")


def tell_citations(prediction: Prediction, question: QuestionAnswer, sources: Sources) -> str:
    """The sentence that counts an answer's citations, "" where none were asked for or nothing was answered."""
    if prediction.outcome != "answered" or not asks_for_citations(prediction.setting):
        return ""
    strange = plural(prediction.cited_unknown, "passage")
    unknown = f" It also names {strange} that it was not shown." if prediction.cited_unknown else ""
    if not prediction.cited:
        return f"It cites no passage.{unknown}"
    marks = [citation_mark(question, key, sources)[0] for key in cited_places(prediction)]
    same = marks.count("same")
    counts = [
        (marks.count("gold"), "gold"),
        (same, "that states the same" if same == 1 else "that state the same"),
        (marks.count(""), "other"),
    ]
    listed = ", ".join(f"{number} {name}" for number, name in counts if number)
    return f"It cites {plural(len(marks), 'passage')}: {listed}.{_left_out(prediction, question, sources)}{unknown}"


def _left_out(prediction: Prediction, question: QuestionAnswer, sources: Sources) -> str:
    """What the citations lack of the gold passages, "" for nothing."""
    gold, cited = gold_places(question), cited_places(prediction)
    alike = {stood[0] for place in cited if (stood := sources.stands_for(question, place))}
    found = sum(place in cited or place[1] in alike for place in gold)
    if not gold or found == len(gold):
        return ""
    if not found:
        return " The answer rests on another place than the gold answer does."
    lost = len(gold) - found
    return f" {lost} of the {len(gold)} gold passages {'is' if lost == 1 else 'are'} not cited."


def citation_mark(question: QuestionAnswer, place: Place, sources: Sources) -> tuple[str, str]:
    """gold, same or "" for a cited passage, with the words that say it."""
    if place in gold_places(question):
        return "gold", "gold"
    if stood := sources.stands_for(question, place):
        return "same", f"states the same as PASSAGE_{stood[0]:04d} ({readable(stood[1])})"
    return "", "not gold"
