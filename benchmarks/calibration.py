"""Whether calibrated accuracies hold the true one as often as they say, where the judge's own errors are known.

    python -m benchmarks.calibration [--repeats 500] [--labels 150] [--answers 5000] [--seed 8]

Answers are right as often as `accuracy` says; a judge finds those right that are so as often as `sensitivity` says, and
those wrong that are so as often as `specificity` says. People see some of them, drawn by chance from all, or (strata)
half from what the judge found right and half from the rest. Intervals are at 95 %: the judge's own over all answers,
people's labels alone, both together. Then active sampling on answers of two types, on one of which the judge errs more
often: a third of the labels by chance and the rest where they tell most, against as many all by chance.
Exits 1 where a corrected interval holds the true accuracy less than 93 or more than 97 times in 100, the judge's own
interval holds it in half of the repeats or more, or the wrong interval is the narrower one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fdarx_core.evaluation.metrics import Codes, Numbers
from fdarx_core.review.active_sampling import AnswerPool, inclusion_probabilities, pareto_sample
from fdarx_core.review.prediction_powered import CalibratedEstimate, LabelingRound, calibrated_share, people_share

LEAST, MOST = 0.93, 0.97


class Judge(NamedTuple):
    """How often answers are right, and how often a judge says so of right ones, and the contrary of wrong ones."""

    accuracy: float
    sensitivity: float
    specificity: float


JUDGES = (
    Judge(0.30, 0.85, 0.90),
    Judge(0.50, 0.75, 0.85),
    Judge(0.50, 0.90, 0.80),
    Judge(0.60, 0.97, 0.80),
    Judge(0.70, 0.90, 0.70),
    Judge(0.85, 0.95, 0.50),
)
LUCKY = Judge(0.85, 0.95, 0.72)
"""Its errors one way and the other cancel on these answers, so its own figure is right; nobody could know."""
TYPES = (
    ((0.65, Judge(0.80, 0.98, 0.95)), (0.35, Judge(0.55, 0.85, 0.60))),
    ((0.65, Judge(0.80, 0.95, 0.97)), (0.35, Judge(0.60, 0.70, 0.90))),
    ((0.70, Judge(0.80, 0.99, 0.97)), (0.30, Judge(0.50, 0.80, 0.60))),
)
"""Shares of the answers, and the judge on each: one that is too lenient on the second type, too strict, both."""


@dataclass(slots=True)
class Tally:
    """Of one way to an interval: in which share of repeats it held the truth, and its mean width."""

    held: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, truth: float, low: float, high: float) -> None:
        self.held.append(low <= truth <= high)
        self.widths.append(high - low)

    @property
    def holds(self) -> float:
        return float(np.mean(self.held))

    @property
    def width(self) -> float:
        return float(np.mean(self.widths))

    @property
    def holds_well(self) -> bool:
        return LEAST <= self.holds <= MOST

    def __str__(self) -> str:
        return f"{self.holds:9.3f}{self.width:8.3f}"


@dataclass(frozen=True, slots=True)
class World:
    """Answers by what people would say of them, by the judge's verdict, and by type."""

    people: Numbers
    judge: Numbers
    kind: Codes

    @classmethod
    def of(cls, dice: np.random.Generator, answers: int, parts: tuple[tuple[float, Judge], ...]) -> World:
        kind = np.searchsorted(np.cumsum([share for share, _ in parts])[:-1], dice.random(answers))
        rates = np.array([judge for _, judge in parts])[kind]
        people = dice.random(answers) < rates[:, 0]
        judge = dice.random(answers) < np.where(people, rates[:, 1], 1 - rates[:, 2])
        return cls(people.astype(np.float64), judge.astype(np.float64), kind.astype(np.int64))

    def seen(self, rows: Codes, chance: Numbers) -> LabelingRound:
        return LabelingRound(rows, self.people[rows], chance[rows])


Draw = Callable[[np.random.Generator, World, int], list[LabelingRound]]


def by_chance(dice: np.random.Generator, world: World, labels: int) -> list[LabelingRound]:
    """All with the same chance."""
    rows = len(world.people)
    return [world.seen(dice.choice(rows, labels, replace=False), np.full(rows, labels / rows))]


def in_strata(dice: np.random.Generator, world: World, labels: int) -> list[LabelingRound]:
    """As many of what the judge found right as of the rest."""
    found: list[Codes] = []
    chance = np.zeros(len(world.judge))
    for verdict in (0.0, 1.0):
        stratum = np.flatnonzero(world.judge == verdict)
        found.append(dice.choice(stratum, labels // 2, replace=False))
        chance[stratum] = labels // 2 / len(stratum)
    return [world.seen(np.concatenate(found), chance)]


def actively(dice: np.random.Generator, world: World, labels: int) -> list[LabelingRound]:
    """A third by chance, then the rest where what people said of these makes it seem to tell most."""
    rounds, more = by_chance(dice, world, labels // 3), labels - labels // 3
    verdict = world.judge.astype(np.int64)
    chance = inclusion_probabilities(
        AnswerPool(np.zeros_like(verdict), verdict + 2 * world.kind, verdict), rounds, more
    )
    return [*rounds, world.seen(pareto_sample(chance, dice.random(len(chance)), more), chance)]


def main(arguments: list[str]) -> int:
    """Print the tables; 1 where they don't show what they must."""
    parser = argparse.ArgumentParser(description="how often calibrated accuracies hold the true one, and their widths")
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--labels", type=int, default=150, help="that people give in each repeat")
    parser.add_argument("--answers", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=8)
    chosen = parser.parse_args(arguments)
    dice = np.random.default_rng(chosen.seed)
    print(
        f"{chosen.repeats} repeats, {chosen.labels} labels of {chosen.answers:,}; share that held the truth, mean width"
    )
    return int(not all([corrects(dice, chosen), active_is_narrower(dice, chosen)]))


def corrects(dice: np.random.Generator, chosen: argparse.Namespace) -> bool:
    """Prints the first table."""
    print(f"\n{'accuracy sensitivity specificity  sample':46}{'judge alone':>17}{'people alone':>17}{'both':>17}")
    good = True
    for judge in (*JUDGES, LUCKY):
        raw, found = repeated(dice, chosen, {"by chance": by_chance, "strata": in_strata}, ((1.0, judge),))
        good &= raw.holds < 0.5 or judge is LUCKY
        for name, (people, both) in found.items():
            print(f"{judge[0]:8.2f}{judge[1]:12.2f}{judge[2]:12.2f}  {name:12}{raw}{people}{both}")
            good &= both.holds_well and both.width < people.width
    return good


def active_is_narrower(dice: np.random.Generator, chosen: argparse.Namespace) -> bool:
    """Prints the second table."""
    print(f"\n{'two types of questions, the judge is':46}{'both, by chance':>17}{'both, active':>17}")
    good = True
    for name, parts in zip(("too lenient", "too strict", "both"), TYPES, strict=True):
        _, found = repeated(dice, chosen, {"by chance": by_chance, "active": actively}, parts)
        chance, active = (both for _, both in found.values())
        print(f"{f'{name} on the second':46}{chance}{active}")
        good &= active.holds_well and chance.holds_well and active.width < chance.width
    return good


def repeated(
    dice: np.random.Generator,
    chosen: argparse.Namespace,
    draws: Mapping[str, Draw],
    parts: tuple[tuple[float, Judge], ...],
) -> tuple[Tally, dict[str, tuple[Tally, Tally]]]:
    """The judge alone, then people alone and both by way of drawing."""
    raw, found = Tally(), {name: (Tally(), Tally()) for name in draws}
    for _ in range(chosen.repeats):
        world = World.of(dice, chosen.answers, parts)
        truth, mean = float(world.people.mean()), float(world.judge.mean())
        reach = 1.96 * (mean * (1 - mean) / chosen.answers) ** 0.5
        raw.add(truth, mean - reach, mean + reach)
        for name, draw in draws.items():
            rounds = draw(dice, world, chosen.labels)
            people, both = found[name]
            people.add(truth, *bounds(people_share(chosen.answers, rounds)))
            both.add(truth, *bounds(calibrated_share(world.judge, rounds)))
    return raw, found


def bounds(found: CalibratedEstimate) -> tuple[float, float]:
    """Of an estimate that has an interval. Raises ValueError for one without."""
    if found.low is None or found.high is None:
        raise ValueError(f"no interval: {found.by} ({found.labels}); give more --labels")
    return found.low, found.high


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
