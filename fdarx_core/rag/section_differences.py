"""How the texts of one section differ between two labels, sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import SequenceMatcher

from fdarx_core.text.sentences import split_sentences

_OWN_DRUG = "\N{WHITE SQUARE}"


@dataclass(frozen=True, slots=True)
class SectionDifference:
    """Sentences of the first text that the second has not at this place, and those of the second; one may be empty.

    `same` marks sentences that the texts have in common.
    """

    first: str
    second: str
    same: bool = False


def section_differences(
    first: str, second: str, first_names: Collection[str], second_names: Collection[str], *, whole: bool = False
) -> list[SectionDifference]:
    """Return the sentences in which two texts differ, in order.

    Upper and lower case, white space, and the names that each label has for its own drug are no difference.

    Args:
        first: the section's text in the first label.
        second: the section's text in the second label.
        first_names: the names of the first label's drug, see `names_of_label`.
        second_names: the names of the second label's drug.
        whole: return the sentences that are the same as well.
    """
    sentences = split_sentences(first, "label"), split_sentences(second, "label")
    compared = _compared(sentences[0], first_names), _compared(sentences[1], second_names)
    blocks = SequenceMatcher(None, compared[0], compared[1], autojunk=False).get_opcodes()
    return [
        SectionDifference("\n".join(sentences[0][a:b]), "\n".join(sentences[1][c:d]), kind == "equal")
        for kind, a, b, c, d in blocks
        if whole or kind != "equal"
    ]


def _compared(sentences: Collection[str], names: Collection[str]) -> list[str]:
    """Return the sentences in the form in which they are compared."""
    longest_first = sorted(names, key=len, reverse=True)
    drug = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE) if names else None
    masked = (drug.sub(_OWN_DRUG, sentence) if drug else sentence for sentence in sentences)
    return [" ".join(sentence.casefold().split()) for sentence in masked]
