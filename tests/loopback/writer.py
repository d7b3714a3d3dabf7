"""A loopback model that writes questions from the passages of its prompt, in free wordings, each with its twin.

It copies sentences of a passage, and asks about two noun phrases of them in a wording that a hash chooses. Where the
prompt names what to ask about, it copies sentences that name it, and asks about it instead of the first phrase. The
answer is what it copied. The twin has the first of the absent things in place of what is asked about, or of one phrase.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from fdarx_core.filters.rules import ANSWER_LENGTH, QUESTION_LENGTH
from fdarx_core.generation.tasks import FactualItem, FactualReply, MultihopItem, MultihopReply, Twin
from fdarx_core.records import content_id
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.stems import terms
from fdarx_core.text.tokens import content_words, word_set
from tests.loopback.prompts import ShownPrompt

NUMERIC = (
    "What value does the label of {drug} give for {p} with {q}?",
    "How large is the figure for {p} in {q} with {drug}?",
    "Which number describes {p} for {drug} when {q} is considered?",
)
FACTUAL = (
    "What does the labeling of {drug} say about {p} with {q}?",
    "How does {p} relate to {q} in patients who take {drug}?",
    "What should prescribers of {drug} know about {p} in {q}?",
    "In {q}, what is known of {p} with {drug}?",
    "Which statement on {p} applies to {drug} given {q}?",
    "What happens to {p} with {drug}, considering {q}?",
    "For {drug}, what is stated on {q} in {p}?",
)
MULTIHOP = (
    "How does {p} bear on {q} for {drug}?",
    "Given {p}, what follows for {q} with {drug}?",
    "What links {p} to {q} in the use of {drug}?",
    "Considering {q}, why does {p} matter with {drug}?",
)
_ABOUT, _PREFER = "Ask about", "Prefer, where the passages allow it"
_NONE = "(nothing suggested)"
_MOST = re.compile(r"^Write at most (\d+) questions?", re.M)
_WORD = re.compile(r"[A-Za-z][\w-]*(?:['’]s)?|[^\sA-Za-z]+")
_VERBS = content_words(
    "take taken taking give given giving use used using see avoid consider monitor receive received receiving "
    "treated occur occurred occurs reported report increase increased increases decrease decreased decreases cause "
    "caused causes include includes including contain contains recommended indicated administered administer "
    "associated observed compared following based show shown showed require required requires develop developed "
    "discontinue do not initiate advise inform tell instruct reduce reduced result resulted results appear appears "
    "known"
)
_FUNCTION_WORDS = word_set("question_stop_words") | word_set("stop_words")
_LENGTHS = range(8, 61)
"""Words of a sentence to ask about."""
_LONGEST_PHRASE = 4

Sentences = Sequence[str]


def write(prompt: ShownPrompt) -> str:
    """Return the reply to a prompt of generation."""
    reply = write_factual(prompt) if prompt.task == "generate_factual" else write_multihop(prompt)
    return reply.model_dump_json()


def write_factual(prompt: ShownPrompt) -> FactualReply:
    found = _MOST.search(prompt.user)
    assert found, "the prompt does not say how many questions to write"
    most, several = int(found[1]), "list" in prompt.line(_PREFER)
    items: list[FactualItem] = []
    for copied in _chosen(prompt, several):
        item = _factual_item(prompt, copied)
        if item is not None:
            asked = any(one.twin for one in items)
            items.append(item.model_copy(update={"twin": None}) if asked else item)
        if len(items) == most:
            break
    return FactualReply(items=items)


def write_multihop(prompt: ShownPrompt) -> MultihopReply:
    """Write on the two sentences that share most terms, first of all those of what to ask about; else nothing."""
    own, about = terms(prompt.drug), terms(prompt.line(_ABOUT))
    a, b = ([one for one in split_sentences(text) if _is_askable(one)] for text in prompt.passages)
    shared = [
        ((len((terms(one) | terms(other)) & about), len(terms(one) & terms(other) - own)), one, other)
        for one in a
        for other in b
    ]
    most, one, other = max(shared, default=((0, 0), "", ""))
    p = prompt.line(_ABOUT) or _phrase(one, prompt.drug, terms(other))
    q = _phrase(other, prompt.drug, terms(one) | about)
    answer = f"{one} {other}"
    if not (any(most) and p and q and len(answer) <= ANSWER_LENGTH[1]):
        return MultihopReply(items=[])
    question, twin = _worded(prompt, MULTIHOP, p, q)
    kind = "comparison" if any(map(str.isdigit, one)) and any(map(str.isdigit, other)) else "bridge"
    item: dict[str, Any] = {"evidence_a": [one], "evidence_b": [other], "question": question, "answer": answer}
    fits = _fits(question)
    return MultihopReply(items=[MultihopItem(**item, kind=kind, twin=twin)] if fits else [])


def _factual_item(prompt: ShownPrompt, copied: Sentences) -> FactualItem | None:
    answer = " ".join(copied)
    p = prompt.line(_ABOUT) or _phrase(copied[0], prompt.drug, frozenset())
    q = _phrase(copied[-1], prompt.drug, terms(p))
    if not (p and q and len(answer) <= ANSWER_LENGTH[1]):
        return None
    numeric = any(map(str.isdigit, answer)) and _drawn(2, "numeric", answer) == 0
    question, twin = _worded(prompt, NUMERIC if numeric else FACTUAL, p, q, _other_phrase(prompt, copied, p))
    if not _fits(question):
        return None
    kind = "numeric" if numeric else "list" if answer.count(",") + answer.count(";") >= 3 else "factual"
    difficulty = "table" if " | " in answer else "direct" if len(copied) == 1 else "several"
    return FactualItem(
        evidence=list(copied), question=question, answer=answer, type=kind, difficulty=difficulty, twin=twin
    )


def _other_phrase(prompt: ShownPrompt, copied: Sentences, p: str) -> str:
    """Return a phrase of the passages that stands apart from a phrase of the copied sentences, "" if there is none."""
    for text in prompt.passages:
        sentences = split_sentences(text)
        places = [at for at, one in enumerate(sentences) if one in copied or terms(p) <= terms(one)]
        for at, sentence in enumerate(sentences):
            if min((abs(at - place) for place in places), default=0) > 1 and _is_askable(sentence):
                return _phrase(sentence, prompt.drug, terms(" ".join(copied)))
    return ""


def _worded(prompt: ShownPrompt, wordings: Sentences, p: str, q: str, other: str = "") -> tuple[str, Twin | None]:
    """Return a question about two phrases, and its twin.

    The twin is a near miss, where the prompt prefers one and `other` stands apart from `p` in the passages.
    """
    wording = wordings[_drawn(len(wordings), "wording", prompt.drug, p, q)]
    question = wording.format(drug=prompt.drug, p=p, q=q)
    if other and prompt.line("Prefer as twin") == "near_miss":
        near = _capital(wording.format(drug=prompt.drug, p=p, q=other))
        return _capital(question), Twin(kind="near_miss", entity=p, attribute=other, question=near)
    suggested = prompt.line("Absent from this label")
    if suggested == _NONE:
        return _capital(question), None
    absent = suggested.split("; ")[0]
    first = prompt.line(_ABOUT) or _drawn(2, "replaced", p, q)
    phrases = {"p": absent, "q": q} if first else {"p": p, "q": absent}
    twin = _capital(wording.format(drug=prompt.drug, **phrases))
    made = Twin(kind="absent", entity=absent, attribute="", question=twin)
    return _capital(question), made if _fits(twin) else None


def _chosen(prompt: ShownPrompt, several: bool) -> list[Sentences]:
    """Return sentences, or pairs of neighbours, in an order by a hash; no sentence is copied twice.

    Those that name most of what to ask about come first.
    """
    about = terms(prompt.line(_ABOUT))
    found: list[Sentences] = []
    for text in prompt.passages:
        sentences = split_sentences(text)
        size = 2 if several else 1
        groups = [sentences[at : at + size] for at in range(0, len(sentences), size)]
        found += [group for group in groups if all(map(_is_askable, group))]
    return sorted(
        found, key=lambda copied: (-len(terms(" ".join(copied)) & about), content_id("order", prompt.drug, *copied))
    )


def _is_askable(sentence: str) -> bool:
    return len(sentence.split()) in _LENGTHS and not sentence.lower().startswith(("see ", "[see", "refer "))


def _phrase(sentence: str, drug: str, known: Collection[str]) -> str:
    """Return a noun phrase of a sentence with no word of the drug's name and no known term; "" if there is none.

    It is one of the longest runs of words between function words, verbs, numbers and signs.
    """
    own = content_words(drug)
    runs: list[list[str]] = [[]]
    for word in _WORD.findall(sentence):
        if not word[0].isalpha() or _stands_between(word) or content_words(word) <= own:
            runs.append([])
        else:
            runs[-1].append(word)
    phrases = [" ".join(run[-_LONGEST_PHRASE:]) for run in runs if run]
    free = [phrase for phrase in phrases if len(phrase) > 3 and not terms(phrase) & frozenset(known)]
    longest = sorted(free, key=lambda phrase: (-min(len(phrase.split()), 2), content_id(drug, phrase)))
    return _in_sentence(longest[0]) if longest else ""


def _stands_between(word: str) -> bool:
    return word.lower() in _FUNCTION_WORDS or content_words(word) <= _VERBS


def _in_sentence(phrase: str) -> str:
    first, space, rest = phrase.partition(" ")
    return f"{first.lower() if first[1:].islower() else first}{space}{rest}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fits(question: str) -> bool:
    return QUESTION_LENGTH[0] <= len(question) <= QUESTION_LENGTH[1]


def _drawn(number: int, *parts: str) -> int:
    return int(content_id(*parts), 16) % number
