"""The rules that every question must pass, by name; rejects are counted by it. Source: FDARxBench §B.4, stage 1."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial

from fdarx_core.filters.quotations import calculation_error, is_quoted
from fdarx_core.plugins import PluginError, load_plugins
from fdarx_core.records import QuestionAnswer
from fdarx_core.records.question_types import QUESTION_TYPES
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.stems import stem
from fdarx_core.text.tokens import contains_entity, contains_name, content_words, pattern, vocabulary, word_overlap

_pattern = partial(pattern, package=__package__)
_WORDS = vocabulary(__package__)

_DRUG = "thedrug"
_AUXILIARY = _pattern("auxiliary_word")

_INTERROGATIVE = _pattern("interrogative")
_SECOND_QUESTION = _pattern("second_question")
_SECOND_CLAUSE = _pattern("second_clause")
_SUBJECTS = _pattern("subjects")
_ACTIONS = _pattern("actions")
_TAIL = _pattern("tail")
_OF_DRUG = _pattern("of_drug")
_YES_OR_NO = re.compile(r"^\W*(?:yes|no)\b\W*", re.I)
_VAGUE = frozenset(_WORDS["vague"].split())


def artificial_conjunction(question: str, drug_names: Sequence[str], contexts: Sequence[str]) -> str | None:
    """Return a message if a question consists of two that could be asked separately, None for one question.

    Either a conjunction begins a second question ("…, and how is it supplied?"), or it joins two objects of the
    question, of which one is only in the first context and the other only in the second ("the storage temperature and
    the maximum dose"). "Renal and hepatic impairment" is one object.
    """
    names = _names_pattern(tuple(drug_names))  # the drug's name, which may contain conjunctions, becomes one word
    lowered = (names.sub(_DRUG, question) if names else question).lower()
    second = _second_question(lowered) or _SECOND_CLAUSE.search(lowered)
    if second:
        return f"a second question: {second[0].strip()!r}"
    for first, other in _joined_objects(lowered) if len(contexts) > 1 else ():
        stems, other_stems, in_a, in_b = map(_stems, (first, other, *contexts[:2]))
        for own, foreign in ((in_a, in_b), (in_b, in_a)):
            if stems & own and not stems & foreign and other_stems & foreign and not other_stems & own:
                return f"two things asked for, one in each context: {first!r} and {other!r}"
    return None


@lru_cache(maxsize=16)
def _names_pattern(drug_names: tuple[str, ...]) -> re.Pattern[str] | None:
    listed = sorted((name for name in drug_names if name.strip()), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, listed))})(?!\w)", re.IGNORECASE) if listed else None


def _second_question(question: str) -> re.Match[str] | None:
    for found in _SECOND_QUESTION.finditer(question):
        word = found["open"] or found["narrow"] or found["inverted"]
        # A word that already opened a subordinate clause continues it: "in patients who smoke and who …".
        before = question[: found.start()]
        if word not in _INTERROGATIVE.findall(before)[1:] and not (word in ("which", "who") and " that " in before):
            return found
    return None


def _joined_objects(question: str) -> Iterator[tuple[str, str]]:
    """Yield each two objects that a conjunction joins, without the prepositional phrases that follow them."""
    for conjunction in (_SUBJECTS, _ACTIONS):
        if found := conjunction.search(question):
            first = _OF_DRUG.sub("", found["first"])
            if not _TAIL.search(first) and not _AUXILIARY.search(found["second"]):
                yield first.strip(), _TAIL.sub("", found["second"]).strip()


@lru_cache(maxsize=256)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word, "conjunction") for word in content_words(text) - _VAGUE if word != _DRUG)


_DAMAGE = {name: re.compile(sign) for name, sign in _WORDS["damage"].items()}
_DAMAGE_OF_QUESTION = _DAMAGE | {name: re.compile(sign) for name, sign in _WORDS["damage_of_question"].items()}
_NO_VALUE = re.compile(r"\W*(?:null|none|nil|n/?a|nan|undefined|unknown|tbd|not applicable|true|false)?\W*", re.I)
_PAIRS = {")": "(", "]": "[", "}": "{"}


def malformed_question(question: str) -> str | None:
    """Return what is malformed, None for nothing. A question has letters and one question mark, at its end."""
    if not any(unicodedata.category(char).startswith("L") for char in question):
        return "question: no letters"
    if question.count("?") != 1 or not question.endswith("?"):
        return f"question: {question.count('?')} question marks, one at the end expected"
    damage = _damage(question, _DAMAGE_OF_QUESTION) or _unbalanced(question, "()[]{}")
    return f"question: {damage}" if damage else None


def malformed_answer(answer: str) -> str | None:
    """Return what is malformed, None for nothing. Answers may have line breaks, numbered items and open brackets."""
    if _NO_VALUE.fullmatch(answer):
        return f"answer: no value, {answer.strip()!r}"
    damage = _damage(answer, _DAMAGE) or _unbalanced(answer, "{}")
    return f"answer: {damage}" if damage else None


def _damage(text: str, signs: Mapping[str, re.Pattern[str]]) -> str | None:
    for name, sign in signs.items():
        if found := sign.search(text):
            return f"{name} {found[0]!r}"
    return None


def _unbalanced(text: str, brackets: str) -> str | None:
    opened: list[str] = []
    for char in text:
        if char not in brackets:
            continue
        if char not in _PAIRS:
            opened.append(char)
        elif not opened or opened.pop() != _PAIRS[char]:
            return f"unbalanced {char!r}"
    return f"unbalanced {opened[-1]!r}" if opened else None


QUESTION_LENGTH = (10, 200)
ANSWER_LENGTH = (1, 600)
"""Characters, both bounds allowed."""
MIN_OVERLAP = 0.10
"""The least share of the answer's content words that the contexts must have."""


@dataclass(slots=True)
class LabelEvidence:
    """The texts of a label that a question is checked against.

    `drug_names` are the label's aliases, `contexts` the texts of the question's gold passages, in order, and
    `label_text` the whole text of the label with Highlights and tables, for refusal questions.
    """

    drug_names: list[str]
    contexts: list[str] = field(default_factory=list)
    label_text: str = ""


Rule = Callable[[QuestionAnswer, LabelEvidence], str | None]
"""Returns None for a question that passes, else a message that says what is wrong with it."""

ENTRY_POINTS = "fdarx.filters"
"""The entry point group of rules in other packages; each entry point names a `Rule`."""


def first_failure(question: QuestionAnswer, evidence: LabelEvidence) -> tuple[str, str] | None:
    """Return the first of `rules()` that the question breaks, as (name, what is wrong); None where it passes all."""
    for name, rule in rules().items():
        if (detail := rule(question, evidence)) is not None:
            return name, detail
    return None


def missing_field(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    required = {name: getattr(question, name).strip() for name in ("id", "set_id", "drug_name", "question", "answer")}
    if not question.answerable:
        required |= {"entity": question.entity.strip(), "label text": evidence.label_text.strip()}
    else:
        contexts = [context for context in evidence.contexts if context.strip()]
        required["context"] = len(contexts) >= QUESTION_TYPES[question.type].passages
    missing = [name for name, value in required.items() if not value]
    return f"no {', '.join(missing)}" if missing else None


def drug_not_named(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    if any(contains_name(question.question, name) for name in (question.drug_name, *evidence.drug_names)):
        return None
    return f"neither {question.drug_name!r} nor one of its {len(evidence.drug_names)} names is in the question"


def joined_questions(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    if QUESTION_TYPES[question.type].passages < 2:
        return None
    return artificial_conjunction(question.question, [question.drug_name, *evidence.drug_names], evidence.contexts)


def low_overlap(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    """Return a message if the answer has few words of its contexts. Multi-hop answers need the share in each context.

    A "yes" or "no" at the beginning of the answer is not counted.
    """
    answer = _YES_OR_NO.sub("", question.answer)
    if not question.answerable or not content_words(answer):
        return None
    contexts = evidence.contexts if QUESTION_TYPES[question.type].passages > 1 else ["\n".join(evidence.contexts)]
    shares = [word_overlap(answer, context) for context in contexts]
    lowest = min(shares, default=0.0)
    return f"{lowest:.3f} of the answer's words in context {shares.index(lowest) + 1}" if lowest < MIN_OVERLAP else None


def entity_not_named(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    if question.answerable or contains_entity(question.entity, question.question):
        return None
    return f"{question.entity!r} is not in the question"


def entity_present(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    """Return a message if the label names the entity of a refusal question.

    A question on an attribute of an entity passes: only a judge can tell whether the label gives the attribute.
    """
    if question.answerable or question.attribute:
        return None
    if not contains_entity(question.entity, evidence.label_text):
        return None
    return f"{question.entity!r} is in the label"


def evidence_not_quoted(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    """Return a message if what the writer quoted as evidence is in none of the gold passages."""
    for quote in question.evidence:
        if not any(is_quoted(quote, context) for context in evidence.contexts):
            return f"not in the passages: {quote!r}"
    return None


def wrong_calculation(question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    """Return a message for the first sentence of the answer that is a calculation with a wrong result."""
    sentences = split_sentences(question.answer)
    return next((f"{sentence!r}: {error}" for sentence in sentences if (error := calculation_error(sentence))), None)


RULES: dict[str, Rule] = {
    "missing_field": missing_field,
    "malformed": lambda question, _: malformed_question(question.question) or malformed_answer(question.answer),
    "drug_not_named": drug_not_named,
    "question_length": lambda question, _: _outside(len(question.question), QUESTION_LENGTH),
    "answer_length": lambda question, _: _outside(len(question.answer), ANSWER_LENGTH),
    "artificial_conjunction": joined_questions,
    "low_overlap": low_overlap,
    "evidence_not_quoted": evidence_not_quoted,
    "wrong_calculation": wrong_calculation,
    "entity_not_named": entity_not_named,
    "entity_present": entity_present,
}
"""The built-in rules by name, in order: a rejected question is counted by the first rule that it breaks."""


@cache
def rules() -> dict[str, Rule]:
    """Return all rules in order: the built-in ones, then those of other packages (entry point group fdarx.filters).

    The first call imports the packages and raises PluginError for a rule that cannot be used.
    """
    added = load_plugins(ENTRY_POINTS, "function", Callable, builtin_names=RULES)
    return {**RULES, **{name: partial(_added_rule, name, rule) for name, rule in added.items()}}


def _added_rule(name: str, rule: Rule, question: QuestionAnswer, evidence: LabelEvidence) -> str | None:
    """Apply a rule of another package. Raises PluginError, which names it and the question, where it fails."""
    try:
        return rule(question, evidence)
    except Exception as error:  # a foreign function may raise anything
        raise PluginError(
            f"the filter {name!r} of another package failed on question {question.id} "
            f"({type(error).__name__}: {error}); correct or uninstall the package"
        ) from error


def _outside(length: int, bounds: tuple[int, int]) -> str | None:
    low, high = bounds
    return None if low <= length <= high else f"{length} characters, {low} to {high} allowed"
