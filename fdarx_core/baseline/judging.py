"""The baseline's judges of questions: relevance, support and quality by words and numbers, without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.stems import best_sentences, sentence_terms, term_weight, terms
from fdarx_core.baseline.tokens import contains_entity, vocabulary, words_of
from fdarx_core.labels.loinc import (
    Topic,
    topic_of,
)


def join_quotes(found: Sequence[str]) -> str:
    """Join sentences to one quotation, as a judge gives it."""
    return " … ".join(found)


def passages_text(slots: Mapping[str, Any]) -> str:
    """Return the text of the passages in the slot `passages`."""
    return "\n".join(str(passage["text"]) for passage in slots["passages"])


def passage_headings(slots: Mapping[str, Any]) -> str:
    """Return the section titles of the passages in the slot `passages`."""
    return "\n".join(str(passage["section"]) for passage in slots["passages"])


NO_TOPIC: Final = "None / Irrelevant"

Relevance = Literal["relevant", "somewhat", "irrelevant"]

_TOPICS: list[tuple[Topic, re.Pattern[str]]] = [
    (topic, re.compile(rf"\b(?:{words})")) for topic, words in vocabulary()["asked_topics"].items()
]
_SAYS = re.compile(r"\b(?:say|state|address|give|list|explain|mention|name)s?\b")
_OUTSIDE = re.compile(
    r"telephone|phone number|toll-free|(?:mailing|street|postal|what|which|company'?s?) address|address of|"
    r"\bweb ?site|trademark|copyright|\bndc\b|manufactured|manufacturer|distributor|distributed by|\brevised\b|"
    r"revision|\bprices?\b|\bcosts?\b|who makes|\bcompany\b|\blogo\b|bar ?code|lot number|expiration date"
)
_WEAK = re.compile(
    r"\bcolou?r\b|imprint|deboss|look like|\bdispose|disposal|throw away|flush(?:ed)? down|sponsor|\bodou?r\b|\bsmell"
)


def relevance(slots: Mapping[str, Any]) -> tuple[Topic | Literal["None / Irrelevant"], Relevance]:
    """Return the topic of a question and its relevance.

    Of the topics that its words match, the topic of its sections is taken first, then the most specific one. A question
    that only asks what the label says has the topic of its sections, and no topic if these have none.
    """
    asked = str(slots["question"]).lower().replace(str(slots["drug"]).lower(), " ")
    topics = [topic for topic, words in _TOPICS if words.search(asked)]
    written_from = [topic for topic in map(topic_of, slots["section_codes"]) if topic]
    if not topics and _SAYS.search(asked):
        topics = written_from
    if not topics or _OUTSIDE.search(asked):
        return NO_TOPIC, "irrelevant"
    topic = next((topic for topic in written_from if topic in topics), topics[0])
    return topic, "somewhat" if _WEAK.search(asked) else "relevant"


_DECIMAL = re.compile(r"\d{1,9}(?:\.\d{1,9})?")

LEAST_COVERED = 0.6
"""The share of an answer's terms, by weight, that its evidence must have; it must have all its numbers."""
SAID = 0.6
"""The share of a sentence's terms that one sentence of a passage must have to say the same."""
LEAST_NEW = 0.5
"""The share of a statement's terms without the question's that one or two sentences must have."""
OWN_PART = 2
"""The weight of the terms that only one passage has, from which the passage is needed."""


def support(answer: str, text: str, heading: str) -> str:
    """Return the sentences of a text that hold the answer, "" where text and heading do not hold enough of it."""
    wanted = terms(answer)
    return join_quotes(best_sentences(wanted, text)) if covered(wanted, terms(f"{heading}\n{text}")) else ""


def joint_support(answer: str, text: str, beside: str) -> str:
    """Return the sentences of a text that hold a part of the answer, "" where both texts do not hold enough of it."""
    wanted = terms(answer)
    here, there = wanted & terms(text), wanted & terms(beside)
    held = here | there
    if not covered(wanted, held) and not covered(wanted, held | _computed(wanted, held)):
        return ""
    return join_quotes(_stated(answer, text, beside) or best_sentences(here - there or here, text))


def support_beyond_question(statement: str, text: str, question: str) -> str:
    """Return the first one or two sentences of a text that hold the statement, "" where none do.

    They must also hold half of what the question does not say: repeating the question is no answer.
    """
    wanted = terms(statement)
    new = wanted - terms(question)
    for shown, held in _sentences_and_pairs(text):
        if wanted and covered(wanted, held) and term_weight(new & held) >= LEAST_NEW * term_weight(new):
            return shown
    return ""


@lru_cache(maxsize=256)
def _sentences_and_pairs(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return each sentence, then each pair of neighbours, with its terms."""
    found = sentence_terms(text)
    pairs = [(f"{one} {other}", first | second) for (one, first), (other, second) in pairwise(found)]
    return (*found, *pairs)


def sentence_naming(entity: str, text: str) -> str:
    """Return the first sentence that names the entity, "" for none: rules know no synonyms."""
    return next((sentence for sentence in split_sentences(text) if contains_entity(entity, sentence)), "")


def covered(answer: frozenset[str], held: frozenset[str]) -> bool:
    """Return whether `held` contains all numbers of the answer, and enough of its words."""
    missing = answer - held
    if any(term[0].isdigit() for term in missing):
        return False
    return term_weight(missing) <= (1 - LEAST_COVERED) * term_weight(answer)


def _computed(answer: frozenset[str], held: frozenset[str]) -> frozenset[str]:
    """Return the numbers of an answer that are products or quotients of other numbers, as in "2 tablets of 500 mg"."""
    values = {float(term) for term in held if _DECIMAL.fullmatch(term)} | {2.0}
    results = {x / y for x in values for y in values if y} | {x * y for x in values for y in values}
    return frozenset(term for term in answer - held if _DECIMAL.fullmatch(term) and float(term) in results)


def both_needed(answer: str, a: str, b: str) -> bool:
    """Return whether each passage contributes to the answer words or a sentence that the other lacks."""
    said, in_a, in_b = terms(answer), terms(a), terms(b)
    return all(
        term_weight(said & own - other) >= OWN_PART or _says_alone(answer, text, rest)
        for own, other, text, rest in ((in_a, in_b, a, b), (in_b, in_a, b, a))
    )


def _says_alone(answer: str, text: str, rest: str) -> bool:
    return any(_share(one, text) >= SAID > _share(one, rest) for _, one in sentence_terms(answer))


def _stated(answer: str, text: str, rest: str) -> list[str]:
    """Return the sentences of a text that state the answer's sentences at least as well as the rest does."""
    said = [one for _, one in sentence_terms(answer) if _share(one, text) >= max(SAID, _share(one, rest))]
    pool = sentence_terms(text)
    best = {max(range(len(pool)), key=lambda place: term_weight(one & pool[place][1])) for one in said}
    return [pool[place][0] for place in sorted(best)]


def _share(sentence: frozenset[str], text: str) -> float:
    """Return the largest share of a sentence's terms, by weight, that one sentence of the text has."""
    held = (term_weight(sentence & one) for _, one in sentence_terms(text))
    return max(held, default=0) / max(term_weight(sentence), 1)


FactualFault = tuple[Literal["answer_leakage", "context_mismatch", "unanswerable", "low_utility", "other"], str]
MultihopFault = tuple[Literal["one_sided", "hop_mismatch", "leak_from_context", "unanswerable", "other"], str]

LEAST_LEAKED = 4
"""The weight of the terms that only one passage has, from which a question with all of them gives them away."""

_POINTS = re.compile(
    r"\b(?:this|the (?:above|following|preceding)|in the|does the|of the) "
    r"(?:passage|table|figure|excerpt|context|text)\b"
    r"|\bthis section\b"
)
_POINTER = re.compile(r"(?:see|refer to|please see)\b.{0,120}|.{0,30}\bsee full prescribing information\b.{0,20}", re.S)
_SAYS_NOTHING = re.compile(r"(?:yes|no|true|false|not applicable|none)\b\W*")
_SPACED_OUT = re.compile(r"(?<![\w.])(?:[A-Za-z] ){3,}[A-Za-z]")
_DENIES = re.compile(r"\b(?:no|not|never|none|neither|nor|without|cannot|unknown|lack)\b|n['’]t\b", re.I)
_SHORT_FORM = re.compile(r"\([A-Z]{2,6}s?\)")
_NAMED_THING = re.compile(
    r"\w{3,}(?:itis|a?emia|osis|pathy|m[ai]b|pril|sartan|olol|statin|azole|cillin|mycin|floxacin|parin|thium|oxin|barbital|"
    r"farin|trexate|phylline|porine|limus|gliptin|plegia|algia|oma|uria|penia|rrh?ea|ectomy|plasty|ciclib|tinib)"
)
_THING = r"\bcolou?r\b|\bshape|\bstor(?:e|ed|age)\b|\bpackag|imprint|\bbottle|\bndc\b"
_EFFECT = r"\brisk|advers|\bdose|\bdosing|\bdosage|overdos|interact|pregnan|impairment|metaboli|half-life|\bauc\b|toxic"
_NO_HOP = re.compile(rf"(?=.*(?:{_THING}))(?=.*(?:{_EFFECT}))", re.S)


def factual_fault(slots: Mapping[str, Any]) -> FactualFault | None:
    """Return the first fault of a factual question with its explanation, None for none."""
    question, answer, drug = (str(slots[name]) for name in ("question", "answer", "drug"))
    where = f"{passage_headings(slots)}\n{passages_text(slots)}"
    if garbled := _SPACED_OUT.search(f"{question}\n{answer}"):
        return "other", f"letters apart: {garbled[0]!r}"
    if vague := _vague(question, answer):
        return "low_utility", vague
    if _adds_nothing(question, answer, drug):
        return "answer_leakage", "the question holds all that the answer says"
    if foreign := _foreign(question, where, drug):
        return "context_mismatch", f"the passages do not speak of {foreign}"
    if not covered(terms(answer), terms(where)):
        return "unanswerable", "most of the answer's words are not in the passages"
    return None


def multihop_fault(slots: Mapping[str, Any]) -> MultihopFault | None:
    """Return the first fault of a multi-hop question with its explanation, None for none."""
    question, answer, drug = (str(slots[name]) for name in ("question", "answer", "drug"))
    a, b = str(slots["context_a"]), str(slots["context_b"])
    where = "\n".join((str(slots["section_a"]), a, str(slots["section_b"]), b))
    if garbled := _SPACED_OUT.search(f"{question}\n{answer}"):
        return "other", f"letters apart: {garbled[0]!r}"
    if vague := _vague(question, answer):
        return "other", vague
    if foreign := _foreign(question, where, drug):
        return "unanswerable", f"the passages do not speak of {foreign}"
    if not both_needed(answer, a, b):
        return "one_sided", "one passage adds nothing to the answer"
    if _NO_HOP.match(question.lower()):
        return "hop_mismatch", "look or storage of the product with an effect of the drug"
    if leaked := _leaked(question, answer, drug, a, b):
        return "leak_from_context", f"the question holds all that one passage adds: {leaked}"
    return None


def _adds_nothing(question: str, answer: str, drug: str) -> bool:
    denied = len(_DENIES.findall(answer)) > len(_DENIES.findall(question))
    return not denied and not terms(_SHORT_FORM.sub("", answer)) - terms(question) - terms(drug)


def _leaked(question: str, answer: str, drug: str, a: str, b: str) -> str:
    asked, said = terms(question), terms(answer) - terms(drug)
    in_a, in_b = said & terms(a), said & terms(b)
    own = next((own for own in (in_a - in_b, in_b - in_a) if term_weight(own) >= LEAST_LEAKED and own <= asked), ())
    return ", ".join(sorted(own))


def _vague(question: str, answer: str) -> str:
    said = answer.strip().lower()
    if found := _POINTS.search(question.lower()):
        return f"the question points at a place: {found[0]!r}"
    return "the answer says nothing by itself" if _SAYS_NOTHING.fullmatch(said) or _POINTER.fullmatch(said) else ""


def _foreign(question: str, where: str, drug: str) -> str:
    """Return the numbers, patients, drugs and diseases of the question that the passages lack; "" for none."""
    asked, there = question.lower().replace(drug.lower(), " "), where.lower()
    missing = set(number_strings(asked) - number_strings(there))
    missing |= {
        group
        for group, (asks, speaks) in vocabulary()["asked_groups"].items()
        if re.search(asks, asked) and not re.search(speaks, there)
    }
    missing |= {word for word in words_of(asked) if _NAMED_THING.fullmatch(word) and word not in there}
    return ", ".join(sorted(missing))
