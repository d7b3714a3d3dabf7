"""The process that takes parts in hand: limits and the store are shared because they are its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from fdarx_core.llm import Asker, AskingStopped, Baseline, ModelConfig
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.parted.files import PartFiles
from fdarx_core.pipeline.planning import Planned, Tally
from fdarx_core.pipeline.reported import ReportedAsker
from fdarx_core.records import Request, Response

Made = TypeVar("Made")


class What(Protocol):
    """What is evaluated."""

    @property
    def models(self) -> Mapping[str, ModelConfig]: ...

    @property
    def outside(self) -> Outside: ...


class Asks(Protocol):
    """Whoever answers requests: an `Asker`, or `Noting` in its place."""

    async def ask(self, requests: Sequence[Request]) -> list[Response]: ...


@dataclass(frozen=True, slots=True)
class Noting:
    """Asks nobody: the built-in rules answer, and the tally notes what a model would read and write."""

    tally: Tally

    async def ask(self, requests: Sequence[Request]) -> list[Response]:
        return self.tally(requests)


class PartWorker(ABC, Generic[Made]):
    """A Ray actor, of which an evaluation has one. The parts that it has in hand don't wait for each other.

    A subclass is made of parts, what is evaluated, the line's name, and the actors that hold what is heavy.
    """

    def __init__(self, parts: PartFiles, what: What, rules: Baseline, control: str) -> None:
        self._rules, self._models = rules, what.models
        self._asker = ReportedAsker(what.outside, parts.run.file("responses"), rules, control)

    @abstractmethod
    async def make(self, part: int, asker: Asker) -> Made:
        """Ask all that the part needs. Raises AskingStopped."""

    @abstractmethod
    async def keep(self, part: int, made: Made) -> None:
        """Write down what was made of a part; what was asked for it is stored by now."""

    @abstractmethod
    async def note(self, part: int, tally: Tally) -> None:
        """Have the tally answer what the part would ask."""

    async def hold(self, part: int) -> str:
        """Make a part and write it down; returns what ended asking, or ""."""
        asker = self._asker.open()
        try:
            made = await self.make(part, asker)
        except AskingStopped as error:
            return str(error)
        await asker.flush()
        await self.keep(part, made)
        return ""

    async def plan(self, part: int) -> list[Planned]:
        """What a part would ask, without asking."""
        tally = Tally(self._rules, self._models)
        await self.note(part, tally)
        return tally.planned

    async def close(self) -> None:
        """Stop telling the driver how asking goes, and close connections."""
        await self._asker.close()
