"""Which drugs are similar, by the topics that their labels answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fdarx_core.generation.topics import TopicSurvey, all_topics

_TELLING = ("partner", "risk", "reaction", "indication")
"""The kinds of topics that drugs of one class have in common."""


def similar_drugs(surveys: Sequence[TopicSurvey], most: int) -> Mapping[str, Mapping[str, float]]:
    """Return for each drug the other drugs that are most similar to it, the most similar first, with the similarity.

    It is the cosine of the topics of `_TELLING` kinds that the labels of two drugs answer, weighted by how few drugs
    answer them: 0 where they have none in common, 1 where they have the same.

    Args:
        surveys: the labels.
        most: the most drugs to return for each drug.
    """
    answered: dict[str, set[int]] = defaultdict(set)
    for survey in surveys:
        answered[survey.drug].update(survey.answered)
    telling = {
        drug: {number for number in numbers if all_topics()[number].kind in _TELLING}
        for drug, numbers in answered.items()
    }
    drugs_of: dict[int, list[str]] = defaultdict(list)
    for drug in sorted(telling):
        for number in telling[drug]:
            drugs_of[number].append(drug)
    weights = {number: math.log(1 + len(telling) / len(drugs)) ** 2 for number, drugs in drugs_of.items()}
    norms = {drug: math.sqrt(sum(weights[number] for number in one)) or 1.0 for drug, one in telling.items()}
    found: dict[str, Mapping[str, float]] = {}
    for drug, numbers in telling.items():
        scores: dict[str, float] = defaultdict(float)
        for number in numbers:
            for other in drugs_of[number]:
                if other != drug:
                    scores[other] += weights[number] / norms[other] / norms[drug]
        nearest = sorted(telling.keys() - {drug}, key=lambda other: (-scores[other], other))[:most]
        found[drug] = {other: scores[other] for other in nearest}
    return found
