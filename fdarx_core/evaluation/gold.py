"""The gold passages of a question, keys for passages of one or several labels, and passages that state the same.

Labels repeat themselves, so a citation may be right without naming the gold passage. A passage may replace a gold
passage of the same label if it has the same text (near_duplicate), or if it has, by exact matching, each sentence of
the gold passage that supports a sentence of the answer (same_statement). Paraphrases are not found. Source: FDARxBench
§6, second limitation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fdarx_core.records import Equivalence, Passage, QuestionAnswer
from fdarx_core.text.sentences import split_sentences
from fdarx_core.verify.exact import quoted_span


def gold_indices(question: QuestionAnswer) -> list[int]:
    """Return the indices of the gold passages that contain the answer, in order; all if none is marked.

    All passages of a section are gold passages of a question from the Highlights; those without the answer are not
    evidence.
    """
    pairs = zip(question.gold_passages, question.gold_has_answer, strict=True)
    marked = [passage for passage, has_answer in pairs if has_answer]
    return marked or list(question.gold_passages)


PassageKey = tuple[str, int]
"""The key of a passage: the set id of its label and its doc_chunk_index."""


def passage_keys(set_id: str, indices: Sequence[int], set_ids: Sequence[str] = ()) -> list[PassageKey]:
    """Return the keys of distinct passages in order. `set_ids` has the label of each; by default it is `set_id`."""
    owners: Iterable[str] = set_ids or [set_id] * len(indices)
    return list(dict.fromkeys(zip(owners, indices, strict=True)))


def gold_keys(question: QuestionAnswer) -> list[PassageKey]:
    """Return the keys of the gold passages; a refusal question has none, because no passage contains its answer."""
    return passage_keys(question.set_id, gold_indices(question)) if question.answerable else []


def equivalents_by_gold(equivalence: Equivalence | None) -> Mapping[PassageKey, set[PassageKey]]:
    """Return the equivalent passages of each gold passage that has any."""
    members: dict[PassageKey, set[PassageKey]] = defaultdict(set)
    if equivalence:
        for gold, member in zip(equivalence.gold, equivalence.members, strict=True):
            members[equivalence.set_id, gold].add((equivalence.set_id, member))
    return members


def equivalences(questions: Sequence[QuestionAnswer], passages: Sequence[Passage]) -> list[Equivalence]:
    """Return the passages that may replace gold passages, for each answerable question of one label.

    `passages` are all passages of the label; a gold passage that is not among them has no equivalent passages.
    """
    by_index = {one.doc_chunk_index: one.text for one in sorted(passages, key=lambda passage: passage.doc_chunk_index)}
    found = []
    for question in questions:
        if not question.answerable:
            continue
        equivalence = Equivalence(question.id, question.set_id)
        gold, sentences = gold_indices(question), split_sentences(question.answer)
        for index in dict.fromkeys(one for one in gold if one in by_index):
            spans = [quoted_span(sentence, by_index[index]) for sentence in sentences]
            stated = list(dict.fromkeys(by_index[index][slice(*span)] for span in spans if span))
            for other, text in by_index.items():
                why = ""
                if other in gold:
                    continue
                if by_index[index].split() == text.split():
                    why = "near_duplicate"
                elif stated and all(quoted_span(one, text) for one in stated):
                    why = "same_statement"
                if why:
                    equivalence.gold.append(index)
                    equivalence.members.append(other)
                    equivalence.why.append(why)
        found.append(equivalence)
    return found
