"""The judged candidates: that they fit the labels as they are parsed now, and their documentation."""

from __future__ import annotations

import re
from hashlib import sha256

from fdarx_core.filters.judges import judges
from fdarx_core.records import NO_ANSWER
from fdarx_core.review.judged_candidates import PARTS, judged_labels, read_judged
from fdarx_core.text.tokens import contains_entity
from tests.conftest import REPOSITORY

ALL = [one for part in PARTS for one in read_judged(part)]
README = (REPOSITORY / "fdarx_core/review/judged/README.md").read_text()
PASSAGES = "65677118cc145c46"
"""A digest of all passages. Where parsing changes them on purpose, check that the `gold_passages` of each candidate are
still the passages that its `reason` speaks of, and put the new digest here."""


def test_halves_have_no_drug_in_common() -> None:
    tune, test = ({judged_labels()[one.set_id].identity.drug for one in read_judged(part)} for part in PARTS)
    assert len(tune) == 5 and len(test) == 6 and not tune & test
    assert [len(read_judged(part)) for part in PARTS] == [200, 200]


def test_passages_are_those_that_were_read() -> None:
    digest = sha256()
    for set_id, one in sorted(judged_labels().items()):
        digest.update("\n".join([set_id, *(passage.text for passage in one.passages)]).encode())
    assert digest.hexdigest()[:16] == PASSAGES


def test_every_candidate_is_a_question_that_judges_can_read() -> None:
    assert len({one.id for one in ALL}) == len(ALL) == 400
    for one in ALL:
        found = judged_labels()[one.set_id]
        question = one.question_of(found.label, found.passages)
        assert len(one.gold_passages) == {"factual": 1, "multihop": 2, "refusal": 0}[one.type]
        assert all(judge.slots(question, found.label, found.passages) for judge in judges())
        if one.type == "refusal":
            assert one.answer == NO_ANSWER and contains_entity(one.entity, one.question), one.id


def test_failures_are_those_that_the_readme_defines() -> None:
    assert all(one.good == (not one.failure) and one.reason for one in ALL)
    defined = re.findall(r"^\| `(\w+)` \| (?:all|factual|multi-hop|refusal)", README, re.MULTILINE)
    assert {one.failure for one in ALL if not one.good} == set(defined) and len(defined) == 15
    good = {part: sum(one.good for one in read_judged(part)) for part in PARTS}
    assert re.findall(r"^\| `(\w+)` \| 200 \| (\d+)", README, re.MULTILINE) == [
        (part, str(number)) for part, number in good.items()
    ]
