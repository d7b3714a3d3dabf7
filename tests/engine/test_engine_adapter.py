"""An adapter that `fdarx finetune` made, in the engine: as the model of hypothetical answers, by its own name."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER
from fdarx_core.tuning.encoding import ChatEncoder
from fdarx_core.tuning.model import Tuned
from fdarx_core.tuning.recipe import Recipe
from tests.conftest import REPOSITORY
from tests.engine.conftest import Tiny, _or_skip
from tests.engine.server import MODEL, running
from tests.engine.test_engine import answered, config
from tests.tuning.made_pairs import pairs_file

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("rapidfuzz")

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

QUESTION = "How is Veltrapan stored?"
TUNED = "tuned"
OPTIONS = ("--rate", "0.01", "--epochs", "2", "--max-tokens", "4", "--seed", "2", "--resamples", "100", "--cpus", "1")


@pytest.fixture(scope="module")
def adapter(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    told = [
        "--questions",
        str(pairs_file(folder / "pairs.jsonl")),
        "--model",
        str(tiny.model),
        "--out",
        str(folder / "run"),
    ]
    line = [sys.executable, "-m", "jobs.finetune_answerer", *told, *OPTIONS]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder / "run" / "adapter"


def first_tokens(engine: str, model: str) -> dict[str, float]:
    """The likeliest tokens to begin the reply with, and the logarithms of their chances, as the engine has them."""
    messages = HYPOTHETICAL_ANSWER.request({"question": QUESTION}, endpoint="").messages
    body = {
        "model": model,
        "messages": messages,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 5,
    }
    asked = urllib.request.Request(
        f"{engine}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=120) as reply:
        told: dict[str, Any] = json.load(reply)
    return {one["token"]: one["logprob"] for one in told["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}


def expected(tuned: Tuned, encoder: ChatEncoder) -> dict[str, float]:
    """As transformers has them."""
    with torch.no_grad():
        logits = tuned.model(input_ids=torch.tensor([encoder.prompt(QUESTION)])).logits[0, -1]
    best = torch.topk(torch.log_softmax(logits.float(), dim=-1), 5)
    return {encoder.tokenizer.decode([token]): float(value) for value, token in zip(*best, strict=True)}


def test_the_engine_loads_the_adapter_and_says_what_it_was_taught(tiny: Tiny, adapter: Path, tmp_path: Path) -> None:
    more = ["--enable-lora", "--max-lora-rank", "16", "--lora-modules", f"{TUNED}={adapter}"]
    with _or_skip(), running(tiny.python, tiny.model, tmp_path / "engine.log", more=more) as engine:
        base, taught = first_tokens(engine, MODEL), first_tokens(engine, TUNED)
        encoder, tuned = ChatEncoder(str(tiny.model)), Tuned(str(tiny.model), Recipe(), adapter=str(adapter))
        assert taught == pytest.approx(expected(tuned, encoder), abs=0.01)
        with tuned.without_adapter():
            assert base == pytest.approx(expected(tuned, encoder), abs=0.01)
        said = {model: hypothetical(engine, model) for model in (MODEL, TUNED)}
        assert said[MODEL] != said[TUNED]


def hypothetical(engine: str, model: str) -> str:
    """What QA-RAG's --hypothesis MODEL would search with."""
    asked = config(engine, model=model, max_tokens=24, sampling={"temperature": 0.0})
    request = HYPOTHETICAL_ANSWER.request({"question": QUESTION}, endpoint=asked.name, sampling=asked.answers_depend_on)
    [response] = asyncio.run(answered(asked, [request]))
    assert response.completion_tokens
    return response.text
