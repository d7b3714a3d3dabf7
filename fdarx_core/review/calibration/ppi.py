"""A share as people would find it, from a judge's verdicts on all rows and people's on a few: prediction-powered.

The judge's mean over all rows, plus what people found more or less than it on the rows they saw. How much the judge
counts (`tuning`) is set so that the estimate varies least: a judge that tells nothing counts for nothing, and the
estimate is then the people's own mean. Sources: Angelopoulos et al. 2023, "Prediction-powered inference", Science 382;
Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient prediction-powered inference" (their mean is of the unseen rows
alone, ours of all, which makes our tuning theirs times 1 + seen/unseen, and the same estimate). The interval is for
what people would have found on all these very rows, not on others like them.

Not by the package ppi-python (0.2.3, its last, of December 2024): it knows no finite set and no rounds, it takes a
judge for perfect where people agreed with it on all that they saw, it needs numba, pandas and statsmodels, and it
installs a top-level package named `tests`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fdarx_core.evaluation.aggregates import Numbers
from fdarx_core.review.calibration.rounds import Round, Seen

LEVEL = 0.95
FEWEST = 10
"""Labels below which nothing is corrected."""
BOTH = "judge and people"
PEOPLE = "people alone"
TOO_FEW = "too few labels"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share with its interval, over `rows` rows of which people saw `labels`.

    `by` is "judge and people"; "people alone" where the judge said the same of all that people saw; "too few labels"
    below `FEWEST`, and the figures are None then. `tuning` is how much the judge counted.
    """

    value: float | None
    low: float | None
    high: float | None
    by: str
    labels: int
    rows: int
    tuning: float = 0.0

    @property
    def width(self) -> float:
        """Of the interval, 1 where there is none."""
        return 1.0 if self.low is None or self.high is None else self.high - self.low


def calibrated(judge: Numbers, rounds: Sequence[Round], *, level: float = LEVEL) -> Estimate:
    """The share that people would find; `judge` are its verdicts on all rows, 0 to 1, rounds in the order of drawing.

    The interval takes errors for normal, and two items more for seen, one right and one wrong, so that it has a width
    where people agreed with the judge on all that they saw. Raises ValueError for a row in two rounds and for a chance
    out of range.
    """
    labels = sum(len(one.rows) for one in rounds)
    if labels < FEWEST:
        return Estimate(None, None, None, TOO_FEW, labels, len(judge))
    seen = Seen.of(judge, rounds)
    tuning = seen.tuning()
    value = float(np.clip(seen.estimate(tuning)[0], 0, 1))
    low, high = _interval(seen.with_added(), value, level)
    by = BOTH if seen.judge_differs() else PEOPLE
    return Estimate(value, low, high, by, labels, len(judge), tuning)


def people_alone(rows: int, rounds: Sequence[Round], *, level: float = LEVEL) -> Estimate:
    """The same from people's verdicts only, as if nobody had judged the `rows` rows."""
    return calibrated(np.zeros(rows), rounds, level=level)


def _interval(seen: Seen, value: float, level: float) -> tuple[float, float]:
    """Within 0 to 1, and around the value; a point where all rows were seen."""
    centre, error = seen.estimate(seen.tuning())
    if not error:
        return value, value
    reach = NormalDist().inv_cdf((1 + level) / 2) * error
    return max(0.0, min(centre - reach, value)), min(1.0, max(centre + reach, value))
