"""How a model wants two texts in one input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Frame:
    """The marks that a tokenizer puts before, between and after passage and claim, and the types of all five pieces."""

    before: Ids
    between: Ids
    after: Ids
    types: tuple[int, int, int, int, int]

    @classmethod
    def of(cls, tokenizer: Any) -> Frame:
        """As the tokenizer shows it on a pair of its own."""
        [shown] = tokenizer(["a"], ["a"]).encodings
        sides, ids, types = list(shown.sequence_ids), np.array(shown.ids, np.int64), shown.type_ids
        (first, end), (second, last) = ((sides.index(side), len(sides) - sides[::-1].index(side)) for side in (0, 1))
        # a mark has the type of the text that it stands beside: the first one's up to the end of the marks between
        return cls(
            ids[:first], ids[end:second], ids[last:], (types[0], types[first], types[end], types[second], types[-1])
        )

    @property
    def size(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def ids(self, passage: Ids, claim: Ids) -> Ids:
        """The whole input."""
        return np.concatenate((self.before, passage, self.between, claim, self.after))

    def token_types(self, passage: Ids, claim: Ids) -> Ids:
        """The type of each token of `ids`."""
        pieces = (self.before, passage, self.between, claim, self.after)
        return np.repeat(np.array(self.types), [len(piece) for piece in pieces])
