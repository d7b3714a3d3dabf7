"""The coverage of calibrated accuracies: how often their intervals contain the true accuracy, in a simulation.

    python -m benchmarks.calibration [--repeats 500] [--labels 150] [--answers 5000] [--seed 8]

Answers are correct with the rate `accuracy`. A judge accepts correct answers with the rate `sensitivity` and rejects
wrong ones with the rate `specificity`. People label a simple random sample, or a stratified sample with one half among
accepted answers. The 95 % intervals are those of the judge alone over all answers, of people's annotations alone, and
of both together. The second table is for active sampling on two types of questions, on one of which the judge errs more
often: a third of the labels is random, the rest is drawn actively; as many random labels are the comparison.
Exits 1 where a calibrated interval contains the true accuracy in less than 93 % or more than 97 % of the repeats, that
of the judge alone contains it in half of the repeats or more, or the interval that should be narrower is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks import run
from fdarx_core.evaluation.metrics import Codes, Numbers
from fdarx_core.review.active_sampling import inclusion_probabilities, pareto_sample
from fdarx_core.review.prediction_powered import CalibratedEstimate, LabelingRound, calibrated_share, people_share

MIN_COVERAGE, MAX_COVERAGE = 0.93, 0.97


JudgeRates = tuple[float, float, float]
"""The share of correct answers, and the shares of these that a judge accepts and of wrong answers it rejects."""
JUDGES: tuple[JudgeRates, ...] = (
    (0.30, 0.85, 0.90),
    (0.50, 0.75, 0.85),
    (0.50, 0.90, 0.80),
    (0.60, 0.97, 0.80),
    (0.70, 0.90, 0.70),
    (0.85, 0.95, 0.50),
)
UNBIASED: JudgeRates = (0.85, 0.95, 0.72)
"""The two kinds of errors of this judge cancel on these answers, so its mean is right by chance."""
TYPES: tuple[tuple[tuple[float, JudgeRates], ...], ...] = (
    ((0.65, (0.80, 0.98, 0.95)), (0.35, (0.55, 0.85, 0.60))),
    ((0.65, (0.80, 0.95, 0.97)), (0.35, (0.60, 0.70, 0.90))),
    ((0.70, (0.80, 0.99, 0.97)), (0.30, (0.50, 0.80, 0.60))),
)
"""Shares of two types, and the judge on each: too lenient on the second type, too strict, and both."""


Method = tuple[float, float]
"""The share of a method's intervals that contain the truth, and their mean width."""


Sizes = tuple[int, int, int]
"""The repeats, and the labels of people and the answers in each."""
SimulatedAnswers = tuple[Numbers, Numbers, Codes]
"""The verdicts of people and of the judge on each answer, and its type of question."""


def simulate(random: np.random.Generator, answers: int, parts: Sequence[tuple[float, JudgeRates]]) -> SimulatedAnswers:
    """Draw answers of types with these shares, and a judge with these rates on each type."""
    type_ = np.searchsorted(np.cumsum([share for share, _ in parts])[:-1], random.random(answers))
    rates = np.array([judge for _, judge in parts])[type_]
    people = random.random(answers) < rates[:, 0]
    judge = random.random(answers) < np.where(people, rates[:, 1], 1 - rates[:, 2])
    return people.astype(np.float64), judge.astype(np.float64), type_.astype(np.int64)


Draw = Callable[[np.random.Generator, SimulatedAnswers, int], list[LabelingRound]]


def draw_at_random(random: np.random.Generator, answers: SimulatedAnswers, labels: int) -> list[LabelingRound]:
    """Draw a simple random sample."""
    people, _, _ = answers
    rows = random.choice(len(people), labels, replace=False)
    return [LabelingRound(rows, people[rows], np.full(labels, labels / len(people)))]


def draw_by_verdict(random: np.random.Generator, answers: SimulatedAnswers, labels: int) -> list[LabelingRound]:
    """Draw one half of the sample among the answers that the judge accepts."""
    people, judge, _ = answers
    found: list[Codes] = []
    chances = np.zeros(len(judge))
    for verdict in (0.0, 1.0):
        stratum = np.flatnonzero(judge == verdict)
        found.append(random.choice(stratum, labels // 2, replace=False))
        chances[stratum] = labels // 2 / len(stratum)
    rows = np.concatenate(found)
    return [LabelingRound(rows, people[rows], chances[rows])]


def draw_actively(random: np.random.Generator, answers: SimulatedAnswers, labels: int) -> list[LabelingRound]:
    """Draw a third at random, and the rest by active sampling."""
    rounds, more = draw_at_random(random, answers, labels // 3), labels - labels // 3
    people, judge, type_ = answers
    verdict = judge.astype(np.int64)
    chances = inclusion_probabilities((np.zeros_like(verdict), verdict + 2 * type_, verdict), rounds, more)
    rows = pareto_sample(chances, random.random(len(chances)), more)
    return [*rounds, LabelingRound(rows, people[rows], chances[rows])]


def main(*, repeats: int = 500, labels: int = 150, answers: int = 5000, seed: int = 8) -> int:
    """Print the tables."""
    random = np.random.default_rng(seed)
    sizes = (repeats, labels, answers)
    counts = f"{repeats} repeats, {labels} labels of {answers:,}"
    print(f"{counts}; share of intervals that contain the truth, mean width")
    return int(not all([check_calibration(random, sizes), check_active(random, sizes)]))


def check_calibration(random: np.random.Generator, sizes: Sizes) -> bool:
    """Print the first table; return whether it shows what it must."""
    print(f"\n{'accuracy sensitivity specificity  sample':46}{'judge alone':>17}{'people alone':>17}{'both':>17}")
    good = True
    for judge in (*JUDGES, UNBIASED):
        alone, *found = repeat(random, sizes, (draw_at_random, draw_by_verdict), ((1.0, judge),))
        good &= alone[0] < 0.5 or judge is UNBIASED
        for name, people, both in zip(("random", "strata"), found[::2], found[1::2], strict=True):
            figures = "".join(map(figures_of, (alone, people, both)))
            print(f"{judge[0]:8.2f}{judge[1]:12.2f}{judge[2]:12.2f}  {name:12}{figures}")
            good &= is_calibrated(both) and both[1] < people[1]
    return good


def figures_of(method: Method) -> str:
    """Return two columns of a table."""
    return f"{method[0]:9.3f}{method[1]:8.3f}"


def is_calibrated(method: Method) -> bool:
    """Return whether the intervals contain the truth as often as they should."""
    return MIN_COVERAGE <= method[0] <= MAX_COVERAGE


def check_active(random: np.random.Generator, sizes: Sizes) -> bool:
    """Print the second table; return whether active sampling gives narrower intervals."""
    print(f"\n{'two types of questions, the judge is':46}{'both, random':>17}{'both, active':>17}")
    good = True
    for name, parts in zip(("too lenient", "too strict", "both"), TYPES, strict=True):
        _, _, at_random, _, active = repeat(random, sizes, (draw_at_random, draw_actively), parts)
        print(f"{f'{name} on the second':46}{figures_of(at_random)}{figures_of(active)}")
        good &= is_calibrated(active) and is_calibrated(at_random) and active[1] < at_random[1]
    return good


def repeat(
    random: np.random.Generator,
    sizes: Sizes,
    draws: Sequence[Draw],
    parts: Sequence[tuple[float, JudgeRates]],
) -> list[Method]:
    """Return the judge alone, then people alone and both for each way to draw labels."""
    repeats: list[list[Method]] = []
    times, labels, size = sizes
    for _ in range(times):
        answers = people, judge, _ = simulate(random, size, parts)
        truth, mean = float(people.mean()), float(judge.mean())
        reach = 1.96 * (mean * (1 - mean) / size) ** 0.5
        intervals = [(mean - reach, mean + reach)]
        for draw in draws:
            rounds = draw(random, answers, labels)
            intervals.append(bounds(people_share(size, rounds)))
            intervals.append(bounds(calibrated_share(judge, rounds)))
        repeats.append([(low <= truth <= high, high - low) for low, high in intervals])
    return [(coverage, width) for coverage, width in np.mean(repeats, axis=0).tolist()]


def bounds(estimate: CalibratedEstimate) -> tuple[float, float]:
    """Return the interval of an estimate. Raises ValueError where it has none."""
    if estimate.low is None or estimate.high is None:
        raise ValueError(f"no interval: {estimate.by} ({estimate.labels}); give more --labels")
    return estimate.low, estimate.high


if __name__ == "__main__":
    run(main)
