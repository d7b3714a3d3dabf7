"""The whole asking path against a real vLLM engine: what it says is random, how it says it is not."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fdarx_core.filters.judges import judge_tasks
from fdarx_core.filters.round_trip import COMPARE_ANSWERS, ROUND_TRIP_ANSWER
from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.generation.writing import writing_tasks
from fdarx_core.llm import Asker, EndpointStopped, HttpEndpoint, ModelConfig, ResponseStore, Task, Unparsable
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location
from tests.conftest import EXAMPLES
from tests.engine.questions import asked_of
from tests.engine.server import CONTEXT, MODEL

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

ALL_TASKS: dict[str, Task[Any]] = {
    **writing_tasks(),
    **judge_tasks(),
    **{task.name: task for task in (ROUND_TRIP_ANSWER, COMPARE_ANSWERS)},
}
MOST = 1024
"""Tokens of a reply."""
LOOP = "whitespace_loop"
"""Why a reply of random weights may be cut: the grammar allows white space between all parts of JSON."""
LABELS = sorted(EXAMPLES.glob("*tablets.xml"))[:2]
DOSE = "The recommended starting dosage of VELTRAPAN in adults is 25 mg orally once daily."


def factual_slots(text: str = DOSE) -> dict[str, Any]:
    """Slots of generate_factual on one passage."""
    return {
        "drug": "Veltrapan",
        "ingredients": "veltrapan",
        "forms": "tablet, oral",
        "outline": "DOSAGE AND ADMINISTRATION > Recommended Dosage (here)",
        "passages": [{"section": "DOSAGE AND ADMINISTRATION > Recommended Dosage", "table": "", "text": text}],
        "about": "",
        "absent": ["gout"],
        "twin": "absent",
        "k": 2,
        "prefer": "",
        "written": [],
    }


@dataclass
class Replies:
    """What was asked about all labels, one after the other, what came of it, and where it is stored."""

    requests: list[Request]
    responses: list[Response]
    queried_tokens: float
    hit_tokens: float
    store: Location


def config(engine: str, **changes: Any) -> ModelConfig:
    """Random weights say the same for ever at temperature 0; at 1 they end."""
    fields = {"max_tokens": MOST, "sampling": {"temperature": 1.0}, "max_in_flight": 8, "model": MODEL} | changes
    return ModelConfig(name="tiny", base_url=f"{engine}/v1", **fields)


async def answered(model: ModelConfig, *batches: Sequence[Request], root: Location | None = None) -> list[Response]:
    """All responses; each batch is asked when the one before it is answered."""
    asker = Asker({model.name: HttpEndpoint(model)}, ResponseStore(root) if root else None)
    try:
        return [response for requests in batches for response in await asker.ask(requests)]
    finally:
        await asker.close()


def said(model: ModelConfig, text: str = DOSE) -> Response:
    """The response to one request of generate_factual."""
    slots = factual_slots(text)
    request = GENERATE_FACTUAL.request(slots, endpoint=model.name, sampling=model.request_parameters)
    return asyncio.run(answered(model, [request]))[0]


def counted(engine: str, name: str) -> float:
    """A counter of the engine's, from its metrics page."""
    with urllib.request.urlopen(f"{engine}/metrics", timeout=30) as page:
        found = re.findall(rf"^vllm:{name}_total{{.*}} (\S+)$", page.read().decode(), re.MULTILINE)
    return sum(map(float, found))


def why_none(response: Response) -> str:
    """The reason why the response holds no reply; "" where it holds one."""
    try:
        ALL_TASKS[response.task].parse(response)
    except Unparsable as error:
        return error.reason
    return ""


@pytest.fixture(scope="module")
def replies(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Replies:
    model, store = config(engine), Location(tmp_path_factory.mktemp("run") / "responses")
    by_label = [asked_of(file, model.name, model.request_parameters) for file in LABELS]
    before = counted(engine, "prefix_cache_queries"), counted(engine, "prefix_cache_hits")
    responses = asyncio.run(answered(model, *by_label, root=store))
    after = counted(engine, "prefix_cache_queries"), counted(engine, "prefix_cache_hits")
    requests = [request for label in by_label for request in label]
    return Replies(requests, responses, after[0] - before[0], after[1] - before[1], store)


def test_replies_that_end_parse_under_the_schema_of_their_task(replies: Replies) -> None:
    reasons: dict[str, list[str]] = defaultdict(list)
    misfits = []
    for response in replies.responses:
        reasons[response.task].append(reason := why_none(response))
        # random weights may run on in a string or in white space; what ends must fit
        if reason not in {"", "truncated_reply"} and response.reason != LOOP:
            misfits.append((reason, response))
    assert not misfits
    # template questions, on which these tasks are asked, have none of two passages
    assert reasons.keys() == ALL_TASKS.keys() - {"judge_support_multihop", "judge_quality_multihop"}
    for task, found in reasons.items():
        assert found.count("") >= 0.8 * len(found), task


def test_usage_and_finish_reason_are_read_and_stored(replies: Replies) -> None:
    kept = ResponseStore(replies.store).get(request.key for request in replies.requests)
    assert [kept[request.key] for request in replies.requests] == replies.responses
    for response in replies.responses:
        ended = "length" if response.completion_tokens == MOST else "stop"
        assert response.finish_reason == ("error" if response.reason == LOOP else ended)
        assert response.prompt_tokens > response.cached_tokens
        assert 0 < response.completion_tokens <= MOST
        assert response.latency_s > 0
    # a server may close an idle connection just as a request is sent; that request is sent again
    assert sum(response.attempts == 1 for response in replies.responses) >= 0.9 * len(replies.responses)


def test_what_is_stored_is_not_asked_again(replies: Replies, engine: str) -> None:
    before = counted(engine, "request_success")
    again = asyncio.run(answered(config(engine), replies.requests, root=replies.store))
    assert again == replies.responses
    assert counted(engine, "request_success") == before


def test_what_prompts_share_is_read_from_the_prefix_cache(replies: Replies) -> None:
    sent = sum(response.prompt_tokens for response in replies.responses)
    reused = sum(response.cached_tokens for response in replies.responses)
    assert (replies.queried_tokens, replies.hit_tokens) == (sent, reused)
    assert reused > 0.5 * sent


def test_a_reply_cut_short_says_so(engine: str) -> None:
    response = said(config(engine, max_tokens=4))
    assert (response.reason, response.finish_reason, response.completion_tokens) == ("", "length", 4)
    assert why_none(response) == "truncated_reply"


def test_a_reply_that_is_no_json_is_asked_to_be_repaired_once(engine: str) -> None:
    response = said(config(engine, structured="text"))
    assert response.attempts == 2
    assert why_none(response) in {"invalid_json", "wrong_shape", "empty_reply"}


def test_a_prompt_beyond_the_context_is_refused_for_that(engine: str) -> None:
    response = said(config(engine), "dose " * CONTEXT)
    assert (response.reason, response.attempts) == ("context_too_long", 1)


def test_an_unknown_model_stops_asking_at_once(engine: str) -> None:
    with pytest.raises(EndpointStopped, match=r"404.*absent"):
        said(config(engine, model="absent"))
