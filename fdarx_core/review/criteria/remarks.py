"""Where people decided otherwise than a judge, and what they remarked, in groups of a kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.filters.criteria import GUIDED
from fdarx_core.filters.judges import JUDGES
from fdarx_core.llm import Criteria
from fdarx_core.records.review import ReviewItem
from fdarx_core.review.agreement.votes import Voted, consensus
from fdarx_core.review.tasks import REVIEW_TASKS

CASES_SHOWN = 8
"""Cases of a group that a model is shown: more repeat each other, and it is to find what they share."""


@dataclass(slots=True)
class Group:
    """Items of which the judge said one thing and people another ("": they were divided), or on which they remarked.

    `judge` is the task by whose prompt it was judged, "" where criteria say nothing of what was decided. `criterion` is
    the id of the rule that a remark names, else that the judge's reason names, else "".
    """

    task: str
    judge: str
    judge_said: str
    people_said: str
    criterion: str
    cases: list[Voted] = field(default_factory=list)


def guided_by(item: ReviewItem) -> str:
    """The task whose criteria the judge of this item went by, "" for one that goes by none."""
    stage = REVIEW_TASKS[item.task].stage
    how = next((one.by_type.get(item.type) for one in JUDGES if one.stage == stage), None)
    return how.task.name if how and how.task.name in GUIDED else ""


def _ruled_by(item: ReviewItem) -> str:
    """As `guided_by`, but "" for the topic: the prompt of relevance asks for it, its criteria do not speak of it."""
    return "" if item.task == "category" else guided_by(item)


def groups(voted: Iterable[Voted], criteria: Criteria) -> list[Group]:
    """Rejections and remarks, what criteria bear on first, then the largest groups."""
    ids = [rule.id for rule in criteria.rules]
    found: dict[tuple[str, str, str, str, str], Group] = {}
    for one in voted:
        item, people = one.item, consensus(one.values)
        remarked = any(vote.remark for vote in one.annotations)
        if remarked or (people and item.decision and people != item.decision):
            key = (item.task, _ruled_by(item), item.decision, people, _criterion(one, ids))
            found.setdefault(key, Group(*key)).cases.append(one)
    return sorted(found.values(), key=_rank)


def _rank(group: Group) -> tuple[object, ...]:
    alike = group.people_said == group.judge_said
    names = (group.task, group.judge, group.judge_said, group.people_said, group.criterion)
    return (not group.judge, alike, -len(group.cases), *names)


def _criterion(one: Voted, ids: Sequence[str]) -> str:
    texts = [*(vote.remark for vote in one.annotations), one.item.because]
    return next((name for text in texts for name in ids if _names(text, name)), "")


def _names(text: str, name: str) -> bool:
    """Ids that are plain words count in brackets only, as prompts write them."""
    if "_" in name:
        return re.search(rf"(?<![a-z_]){name}(?![a-z_])", text) is not None
    return re.search(rf"[\[(]([a-z_]+, )*{name}(, [a-z_]+)*[\])]", text) is not None


def proposal_slots(voted: Sequence[Voted], criteria: Criteria) -> dict[str, Any]:
    """The slots of `PROPOSE_CRITERIA`, from what may be learned from; what no criteria bear on is left out."""
    return {
        "rules": [rule.model_dump() for rule in criteria.rules],
        "readers": sorted(GUIDED),
        "standing": _standing(voted),
        "groups": [_shown(group) for group in groups(voted, criteria) if group.judge],
    }


def _standing(voted: Iterable[Voted]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], list[bool]] = {}
    for one in voted:
        judge, people = _ruled_by(one.item), consensus(one.values)
        if judge and people and one.item.decision:
            counts.setdefault((one.item.task, judge), []).append(people == one.item.decision)
    return [
        {"task": task, "judge": judge, "judged": len(same), "agreed": sum(same)}
        for (task, judge), same in sorted(counts.items())
    ]


def _shown(group: Group) -> dict[str, Any]:
    remarked_first = sorted(group.cases, key=lambda one: not remarks(one))
    return {
        "task": group.task,
        "judge": group.judge,
        "judge_said": group.judge_said,
        "people_said": group.people_said,
        "criterion": group.criterion,
        "count": len(group.cases),
        "cases": [
            {
                "question": one.item.question,
                "answer": one.item.answer,
                "because": one.item.because,
                "remarks": remarks(one),
            }
            for one in remarked_first[:CASES_SHOWN]
        ],
    }


def remarks(one: Voted) -> list[str]:
    """What people wrote on an item, each once."""
    return list(dict.fromkeys(" ".join(vote.remark.split()) for vote in one.annotations if vote.remark.strip()))
