"""A whole scoring: answers, the checks of each, then figures, tables and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from fdarx_core.pipeline.factuality.checks import Checks, Holders
from fdarx_core.pipeline.factuality.flagging import make_table
from fdarx_core.pipeline.factuality.holding import holders_of
from fdarx_core.pipeline.factuality.naming import ingredients
from fdarx_core.pipeline.factuality.parts import FactualityParts
from fdarx_core.pipeline.factuality.results import publish
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.pipeline.parted.evaluation import PartedEvaluation
from fdarx_core.pipeline.parted.worker import PartWorker
from fdarx_core.pipeline.running import timed
from fdarx_core.records import CheckedAnswer, Reject
from fdarx_core.storage.benchmark import open_build

Rows = Callable[[], Iterator[CheckedAnswer | Reject]]


@dataclass(slots=True, kw_only=True)
class FactualityEvaluation(PartedEvaluation):
    """A scoring; see `PartedEvaluation`.

    `rows` gives the answers to be checked, and the rows that are none; `told` is what run.json says of them.
    """

    phase: ClassVar[str] = "check"
    worker: ClassVar[type[PartWorker[Any]]] = Checks

    what: Checking
    rows: Rows
    told: dict[str, Any]
    forbidden: int = 0
    synonyms: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def parts(self) -> FactualityParts:
        return FactualityParts(self.run)

    def cut(self) -> range:
        with timed(self.timings, "intake"):
            return self.parts.split(self.rows())

    def prepare(self, numbers: Sequence[int]) -> None:
        """The table of contraindications, and the ingredients of drugs by other names."""
        if self.what.safety:
            with timed(self.timings, "contraindications"):
                self.forbidden = make_table(self.parts, open_build(self.what.safety), self._tell)
        with timed(self.timings, "rxnav"):
            parts = self.parts
            found = ingredients(self.run, self.what, (one for part in numbers for one in parts.answers(part)))
        self.told["rxnav"], self.synonyms = found.notice, found.names

    def holders(self, *, planned: bool) -> Holders:
        return holders_of(self.hired, self.what, self.synonyms, planned=planned)

    def about(self, numbers: Sequence[int]) -> dict[str, Any]:
        return {
            **self.told,
            "parts": len(numbers),
            "method": asdict(self.what.method),
            "safety": self.what.safety,
            "contraindications": self.forbidden,
        }

    def publish(self, numbers: Sequence[int], info: Mapping[str, Any]) -> None:
        publish(self.run, info, seed=self.seed, resamples=self.resamples)

    def _tell(self, done: int, of: int) -> None:
        self.progress("contraindications", done, of, "")
