"""The types of questions: what each is called and shown as, how it is checked, and how answers to it are graded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Literal

from fdarx_core.plugins import PluginError, load_plugins

RoundTripSetting = Literal["passages", "label", "closed_book", "first", "second"]
"""What a question is answered from in a round trip: its gold passages, the whole label, nothing, or one passage."""


@dataclass(frozen=True)
class QuestionType:
    """A type of questions. `generation.writing.WrittenType` adds how a model writes them, `filters.judges.JudgedType`
    how they are judged.

    Attributes:
        name: the value of `QuestionAnswer.type`, and the name of the configuration of a benchmark.
        title: the name on pages, in tables and in messages.
        abbreviation: the name in the headers of narrow columns.
        color: the color of the type in figures, `#rrggbb`.
        round_trip: the settings in which a question is answered to check it, in order.
        answerable: whether the label has the answer. An answer to such a question is graded by correctness; for other
            questions, a refusal is right and every answer is wrong.
        passages: the gold passages that a question needs at least. More than one: each must be needed.
        source: what its questions are made from, the `source` of `QuestionAnswer`.
    """

    name: str
    title: str
    abbreviation: str
    color: str
    round_trip: tuple[RoundTripSetting, ...]
    answerable: bool = True
    passages: int = 1
    source: str = "section"


FACTUAL = QuestionType("factual", "Factual", "Fact", "#4a80c4", ("passages", "label", "closed_book"))
MULTIHOP = QuestionType(
    "multihop",
    "Multi-hop",
    "MH",
    "#2f9c80",
    ("passages", "label", "closed_book", "first", "second"),
    passages=2,
    source="section_pair",
)
REFUSAL = QuestionType("refusal", "Refusal", "Ref", "#d98b33", ("label",), answerable=False, passages=0, source="twin")

ENTRY_POINTS = "fdarx.question_types"
"""The entry point group by which other packages add types; each entry point has the name of its `QuestionType`."""


class QuestionTypes(Mapping[str, QuestionType]):
    """All types of questions by name, in the order of tables and pages: `builtin`, then those of installed packages.

    The packages are imported when the types are first looked up, which raises PluginError for one that cannot be used.
    """

    def __init__(self, *builtin: QuestionType) -> None:
        self.builtin = {kind.name: kind for kind in builtin}

    @cached_property
    def _types(self) -> dict[str, QuestionType]:
        added = load_plugins(ENTRY_POINTS, "QuestionType", QuestionType, builtin_names=self.builtin)
        for name, kind in added.items():
            if kind.name != name:
                raise PluginError(f"entry point {name!r} of {ENTRY_POINTS} has the name {kind.name!r}; give both one")
        return {**self.builtin, **added}

    def __getitem__(self, name: str) -> QuestionType:
        return self.builtin.get(name) or self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


QUESTION_TYPES = QuestionTypes(FACTUAL, MULTIHOP, REFUSAL)


class TypeNames(Iterable[str]):
    """The names of the types for which `chosen` is true, by default all, and `more` names after them.

    The types are looked up when the names are used.
    """

    def __init__(self, *more: str, chosen: Callable[[QuestionType], bool] = lambda kind: True) -> None:
        self._chosen, self._more = chosen, more

    def __iter__(self) -> Iterator[str]:
        return chain((name for name, kind in QUESTION_TYPES.items() if self._chosen(kind)), self._more)


ANSWERABLE_TYPES = TypeNames(chosen=attrgetter("answerable"))
UNANSWERABLE_TYPES = TypeNames(chosen=lambda kind: not kind.answerable)


def type_title(name: str) -> str:
    """Return the title of a type; its name if no installed package has it."""
    return QUESTION_TYPES[name].title if name in QUESTION_TYPES else name
