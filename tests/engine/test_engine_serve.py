"""Our asking path against vLLM behind Ray Serve, as `serving.models` builds it: one tiny model, one replica."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.llm import EndpointStopped, ModelConfig
from fdarx_core.records import Response
from serving.memory import estimate_memory
from tests.engine.conftest import KEY_ENV, Served, Tiny
from tests.engine.serve_models import described
from tests.engine.test_engine import answered, factual_slots, why_none
from tests.environments import PROJECT

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


def asked(model: ModelConfig, *contexts: str) -> list[Response]:
    """Responses to generate_factual on these contexts, one after the other."""
    requests = [
        GENERATE_FACTUAL.request(
            factual_slots(context), endpoint=model.name, sampling=model.request_parameters | {"seed": number}
        )
        for number, context in enumerate(contexts)
    ]
    return asyncio.run(answered(model, *([request] for request in requests)))


def test_replies_fit_their_schema(served: Served) -> None:
    model = served.model.client_config(served.up.address)
    responses = asked(model, *[f"The starting dosage is {number} mg once daily." for number in range(8)])
    assert {response.finish_reason for response in responses} <= {"stop", "length"}
    reasons = [why_none(response) for response in responses]
    assert set(reasons) <= {"", "truncated_reply"}  # random weights may run on
    assert reasons.count("") >= 5


def test_prompts_that_begin_alike_are_read_from_the_cache(served: Served) -> None:
    """Longer ones than vLLM reads at once by default, answered from a seed, which on a CPU ended the engine."""
    model, name = served.model.client_config(served.up.address).model_copy(update={"max_tokens": 4}), "tiny"
    label = " ".join(f"Section {number}: store at room temperature." for number in range(200))
    before = {counter: served.up.counted(counter, name) for counter in ("prefix_cache_queries", "prefix_cache_hits")}
    first, second = asked(model, label, label + " Protect from light.")
    assert (first.finish_reason, second.finish_reason) == ("length", "length"), first.text + second.text
    assert first.prompt_tokens > 2048
    assert second.cached_tokens > 0.9 * first.prompt_tokens
    asked_tokens = before["prefix_cache_queries"] + first.prompt_tokens + second.prompt_tokens
    assert served.up.await_count("prefix_cache_queries", name, asked_tokens) >= asked_tokens
    hits = served.up.counted("prefix_cache_hits", name) - before["prefix_cache_hits"]
    assert hits >= first.cached_tokens + second.cached_tokens


def test_what_it_does_not_serve_is_refused(served: Served) -> None:
    model = served.model.client_config(served.up.address).model_copy(update={"model": "another"})
    with pytest.raises(EndpointStopped, match=r"404.*another"):
        asked(model, "The starting dosage is 5 mg.")


@pytest.mark.parametrize("key", [None, "", "the-key-of-large"])
@pytest.mark.parametrize("path", ["v1/models", "v1/chat/completions", "docs"])
def test_no_path_is_open_without_the_key(served: Served, key: str | None, path: str) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{served.up.address}/small/{path}", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 401
    assert json.loads(refused.value.read())["error"]["code"] == "invalid_api_key"


def test_its_cache_holds_what_was_worked_out(served: Served) -> None:
    """1/16 GiB, at 2 layers, 2 heads of 32 dimensions for keys and as many for values, 4 bytes each."""
    assert served.up.cached_tokens() == [estimate_memory(served.model).tokens] == [65_536]


def lines_of(tiny: Tiny, files: Sequence[Path], kind: str) -> tuple[list[str], str]:
    """What the building of these files' applications prints of a kind, and its errors."""
    line = [str(tiny.python), "-m", "tests.engine.build_process", *map(str, files)]
    keyed = {**os.environ, KEY_ENV: "a-key"}
    done = subprocess.run(line, cwd=PROJECT, capture_output=True, text=True, timeout=600, env=keyed)
    found = [one.removeprefix(f"{kind}: ") for one in done.stdout.splitlines() if one.startswith(f"{kind}: ")]
    return found, done.stderr


def test_vllm_knows_all_that_is_passed_on(tiny: Tiny, tmp_path: Path) -> None:
    """The shipped files, a model with all that Serve can do, and one whose file has an argument that vLLM has not."""
    scaling = {"min": 1, "max": 3, "ongoing": 8}
    full = described(tmp_path / "full.yaml", tiny.model, replicas=scaling, adapters={"path": "s3://bucket/adapters"})
    wrong = described(tmp_path / "wrong.yaml", tiny.model, engine={"block_sizes": 16})
    shipped = sorted((PROJECT / "serving" / "models").glob("*.yaml"))
    built, errors = lines_of(tiny, [*shipped, full, wrong], "built")
    assert built == [""] * (len(shipped) + 1) + ["model wrong: Unknown engine argument: block_sizes"], errors


def test_the_ingress_has_as_many_replicas_as_the_engine(tiny: Tiny, tmp_path: Path) -> None:
    fixed = described(tmp_path / "fixed.yaml", tiny.model, replicas=3)
    scaled = described(tmp_path / "scaled.yaml", tiny.model, replicas={"min": 2, "max": 5, "ongoing": 8})
    found, errors = lines_of(tiny, [fixed, scaled], "replicas")
    assert found == ["[3, 3]", "[[2, 5, 8.0], [2, 5, 8.0]]"], errors
