"""The votes of judges on one question at one stage, and the verdict of their majority."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fdarx_core.records import JudgeVerdict


def majority(votes: Sequence[JudgeVerdict]) -> JudgeVerdict:
    """Return the verdict that follows from the votes on one question at one stage, which are one at least.

    Unscored votes do not count; where fewer than half of the votes are scored, the verdict is unscored. A tie drops the
    question, because a benchmark loses more by a bad question than by a missing one. Reason, detail, evidence, category
    and relevance are those of the first vote with the most frequent reason and category on the winning side; `endpoint`
    names all judges. A single vote is its own verdict.
    """
    sides = {side: [vote for vote in votes if vote.outcome == side] for side in ("kept", "dropped", "unscored")}
    if 2 * len(sides["unscored"]) > len(votes):
        winners = sides["unscored"]
    else:
        winners = max(sides["dropped"], sides["kept"], key=len)
    reasons, categories = Counter(vote.reason for vote in winners), Counter(vote.category for vote in winners)
    first = max(winners, key=lambda vote: (reasons[vote.reason], categories[vote.category]))
    return replace(first, endpoint=", ".join(dict.fromkeys(vote.endpoint for vote in votes)))


def majorities(votes: Iterable[JudgeVerdict]) -> dict[tuple[str, str], JudgeVerdict]:
    """Return the verdict of the majority by (question id, stage), in the order in which these first appear."""
    return {key: majority(group) for key, group in group_votes(votes).items()}


def group_votes(votes: Iterable[JudgeVerdict]) -> dict[tuple[str, str], list[JudgeVerdict]]:
    """Return the votes by (question id, stage), in the order in which these first appear."""
    groups: dict[tuple[str, str], list[JudgeVerdict]] = defaultdict(list)
    for vote in votes:
        groups[vote.question_id, vote.stage].append(vote)
    return groups
