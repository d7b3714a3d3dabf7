"""What a run's judges went by, what a model proposes instead, and how both fare on items held out."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.filters.criteria import KEPT_AS, judges_by, read_criteria
from fdarx_core.llm import Criteria, HttpEndpoint, ResponseStore, Unparsable
from fdarx_core.review.agreement.votes import Voted, consensus
from fdarx_core.review.criteria.asking import ask_once
from fdarx_core.review.criteria.changes import PROPOSED, BadProposal
from fdarx_core.review.criteria.measuring import Judged
from fdarx_core.review.criteria.propose_criteria import PROPOSE_CRITERIA, Change
from fdarx_core.review.criteria.rejudging import Bench, find_cases
from fdarx_core.review.criteria.remarks import guided_by, proposal_slots
from fdarx_core.storage import RunDirectory


def criteria_of(run: RunDirectory) -> Criteria:
    """Those that a build's judges went by: the file it was given, else the project's own. Raises PromptError."""
    given = "criteria" in run.info()["config"]
    return read_criteria(str(run.file(KEPT_AS))) if given else Criteria.load()


def propose(learned: Sequence[Voted], criteria: Criteria, endpoint: HttpEndpoint, store: ResponseStore) -> list[Change]:
    """The changes that a model proposes, none where it finds nothing general. Raises BadProposal, which says why the
    reply is of no use, and what ends asking."""
    slots = proposal_slots(learned, criteria)
    if not slots["groups"]:
        raise BadProposal(
            "nothing to propose from: no rejection or remark, outside what is held out, bears on criteria"
        )
    request = PROPOSE_CRITERIA.request(slots, endpoint=endpoint.name, sampling=endpoint.sampling)
    [response], _ = ask_once([request], endpoint, store)
    try:
        return PROPOSE_CRITERIA.parse(response).changes
    except Unparsable as error:
        raise BadProposal(f"the reply of {endpoint.name} is of no use, {error.reason}: {error.detail}") from error


def measurable(voted: Sequence[Voted]) -> list[Voted]:
    """Items whose judge goes by criteria and on which people agree, by majority."""
    return [one for one in voted if guided_by(one.item) and consensus(one.values)]


def judge_twice(
    run: RunDirectory,
    held: Sequence[Voted],
    criteria: tuple[Criteria, Criteria],
    endpoint: HttpEndpoint,
    store: ResponseStore,
) -> tuple[list[Judged], int]:
    """Each of the items judged by the old and by the new criteria, and how many requests went out to the model.

    What the run or an earlier trial asked is read back; a prompt that the change leaves alone is asked once for both.
    """
    cases = find_cases(run, [one.item for one in held])
    benches = [Bench(judges_by(one, PROPOSED), endpoint) for one in criteria]
    sittings = [(bench, one.item, cases[one.item.subject]) for bench in benches for one in held]
    requests = [bench.request(item, case) for bench, item, case in sittings]
    answers, sent = ask_once(requests, endpoint, store, ResponseStore(run.file("responses")))
    said = [
        bench.said(item, case, request, answer)
        for (bench, item, case), request, answer in zip(sittings, requests, answers, strict=True)
    ]
    pairs = zip(held, said[: len(held)], said[len(held) :], strict=True)
    judged = [Judged(one.item, consensus(one.values), old, new, why) for one, (old, _), (new, why) in pairs]
    return judged, sent
