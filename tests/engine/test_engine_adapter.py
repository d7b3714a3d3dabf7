"""An adapter that `fdarx finetune` made, on S3, behind Ray Serve as `serving.models` builds it: asked by its own name,
and as the model of hypothetical answers in QA-RAG."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import EndpointStopped, ModelConfig, ResponseStore, load_models
from fdarx_core.rag.questions import read_questions
from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER
from fdarx_core.records import RagAnswer, Request
from fdarx_core.storage import Location
from fdarx_core.tuning.answerer_training import TuningSpec, load_model, load_tokenizer, prompt_tokens
from fdarx_core.tuning.pairs import closed_book_messages
from serving.served_model import load_served
from tests.conftest import REPOSITORY
from tests.engine.conftest import KEY_ENV, Served, Tiny
from tests.engine.serve_models import described
from tests.engine.test_engine import answered
from tests.jobs.evaluating import models_file, rows_of
from tests.serving.service_process import running
from tests.tuning.made_pairs import DRUGS, pairs_file

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
pytest.importorskip("rapidfuzz")

pytestmark = [pytest.mark.engine, pytest.mark.s3, pytest.mark.timeout(1800)]

QUESTION = "How is Veltrapan stored?"
OPTIONS = ("--rate", "0.01", "--epochs", "2", "--max-tokens", "4", "--seed", "2", "--resamples", "100", "--cpus", "1")
GUIDELINES, QUESTIONS = REPOSITORY / "examples" / "guidelines", REPOSITORY / "examples" / "questions.jsonl"
FILES = ("adapter_config.json", "adapter_model.safetensors")


def run(*line: object) -> None:
    told = [sys.executable, "-m", *map(str, line)]
    done = subprocess.run(told, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def adapter(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    pairs = pairs_file(folder / "pairs.jsonl")
    told = ("--questions", pairs, "--model", tiny.model, "--out", folder / "run")
    run("jobs.finetune", *told, *OPTIONS)
    return folder / "run" / "adapter"


@dataclass(frozen=True)
class Adapted:
    """A model behind Ray Serve, how it is asked, and the folder of its adapters."""

    base: ModelConfig
    folder: Location

    def tuned(self, name: str = "adapter") -> ModelConfig:
        """How an adapter is asked, as a models file says it."""
        return self.base.model_copy(update={"name": name, "model": f"{self.base.model}:{name}"})


@pytest.fixture(scope="module")
def adapted(tiny: Tiny, adapter: Path, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Adapted:
    place = served.adapters
    for name in ("adapter", "again", "unfit"):
        for part in FILES:
            (place / name / part).write_bytes((adapter / part).read_bytes())
    (place / "unfit" / FILES[1]).write_bytes((adapter / FILES[1]).read_bytes()[:1000])
    asked = {"max_tokens": 48, "sampling": {"temperature": 0.0, "min_tokens": 12}, "max_tries": 1}
    file = described(tmp_path_factory.mktemp("asked") / "small.yaml", tiny.model, ask=asked, key_env=KEY_ENV)
    return Adapted(load_served(file).client_config(served.up.address), place)


def first_tokens(model: ModelConfig) -> dict[str, float]:
    """The likeliest tokens to begin the reply with, and the logarithms of their chances, as the engine has them."""
    messages = HYPOTHETICAL_ANSWER.request({"question": QUESTION}, endpoint="").messages
    one_token = {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": 5}
    body = json.dumps({"model": model.model, "messages": messages, **one_token}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {model.key()}"}
    asked = urllib.request.Request(f"{model.base_url}/chat/completions", body, headers)
    with urllib.request.urlopen(asked, timeout=120) as reply:
        told: dict[str, Any] = json.load(reply)
    return {one["token"]: one["logprob"] for one in told["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}


def expected(tuned: Any, tokenizer: Any) -> dict[str, float]:
    """As transformers has them."""
    prompt = [{"role": turn.role, "content": turn.content} for turn in closed_book_messages(QUESTION)]
    with torch.no_grad():
        logits = tuned(input_ids=torch.tensor([prompt_tokens(tokenizer, prompt)])).logits[0, -1]
    best = torch.topk(torch.log_softmax(logits.float(), dim=-1), 5)
    return {tokenizer.decode([token]): float(value) for value, token in zip(*best, strict=True)}


def hypothetical(model: ModelConfig, questions: Sequence[str] = (QUESTION,), root: Location | None = None) -> list[str]:
    """What QA-RAG's --hypothesis MODEL would search with; all are asked at once."""
    asked = [request(model, question) for question in questions]
    responses = asyncio.run(answered(model, asked, root=root))
    assert all(response.completion_tokens and response.attempts == 1 for response in responses), responses
    return [response.text for response in responses]


def request(model: ModelConfig, question: str = QUESTION) -> Request:
    return HYPOTHETICAL_ANSWER.request({"question": question}, endpoint=model.name, sampling=model.request_parameters)


def test_it_says_what_it_was_taught_and_the_model_by_itself_what_it_always_said(
    tiny: Tiny, adapter: Path, adapted: Adapted
) -> None:
    tokenizer = load_tokenizer(str(tiny.model))
    tuned = peft.PeftModel.from_pretrained(load_model(TuningSpec(model=str(tiny.model))), str(adapter)).eval()
    assert first_tokens(adapted.tuned()) == pytest.approx(expected(tuned, tokenizer), abs=0.01)
    with tuned.disable_adapter():
        assert first_tokens(adapted.base) == pytest.approx(expected(tuned, tokenizer), abs=0.01)


def test_many_may_be_the_first_to_ask_and_answers_are_kept_apart(adapted: Adapted, tmp_path: Path) -> None:
    questions, store = [f"How is {drug} stored?" for drug in DRUGS], Location(tmp_path)
    taught, by_itself = (hypothetical(model, questions, store) for model in (adapted.tuned("again"), adapted.base))
    assert all(one != other for one, other in zip(by_itself, taught, strict=True))
    for model, said in ((adapted.base, by_itself), (adapted.tuned("again"), taught)):
        keys = [request(model, question).key for question in questions]
        kept = ResponseStore(store).get(keys)
        assert [(kept[key].endpoint, kept[key].text) for key in keys] == [(model.name, text) for text in said]


def test_an_adapter_that_is_not_there_stops_asking_at_once(adapted: Adapted) -> None:
    with pytest.raises(EndpointStopped) as raised:
        hypothetical(adapted.tuned("absent"))
    told = f"404: .*there is no adapter 'absent' in {adapted.folder}; it has adapter, again, unfit"
    assert re.search(told, str(raised.value)), raised.value


def test_weights_that_are_not_for_the_model_are_refused_and_others_go_on(adapted: Adapted) -> None:
    unfit = adapted.tuned("unfit")
    [refused] = asyncio.run(answered(unfit, [request(unfit)]))
    assert refused.reason == "refused_request", refused
    assert "adapter unfit" in refused.text
    assert hypothetical(adapted.tuned()) != hypothetical(adapted.base)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("indexes") / "guidelines"
    small = ("--chunk-size", 400, "--overlap", 50, "--words-only")
    run("jobs.build_index", "--documents", GUIDELINES, "--out", out, *small)
    return out


@pytest.fixture(scope="module")
def models(adapted: Adapted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models file with the adapter under the name `tuned`."""
    model = adapted.tuned()
    sampled = {"max_tokens": model.max_tokens, "sampling": model.sampling}
    fields = {"name": "tuned", "model": model.model, "key_env": KEY_ENV, **sampled}
    return models_file(tmp_path_factory.mktemp("models"), model.base_url, fields)


@pytest.mark.nightly
def test_the_comparison_searches_with_what_it_makes_up(
    adapted: Adapted, index: Path, models: Path, tmp_path: Path
) -> None:
    out, few = tmp_path / "run", ("--sample", 3, "--resamples", 100, "--cpus", 1)
    ways = ("--strategies", "hypothetical_answer,qa_rag", "--postprocess", "none")
    told = ("--index", index, "--questions", QUESTIONS, "--out", out, "--models", models, "--hypothesis", "tuned")
    run("jobs.evaluate_rag", *told, *ways, *few)
    texts = {one.id: one.question for one in read_questions(str(QUESTIONS))[0]}
    answers, tuned = rows_of(out, "answers", RagAnswer), load_models(models)["tuned"]
    asked = {row.question_id: request(tuned, texts[row.question_id]).key for row in answers}
    made_up = ResponseStore(Location(out / "responses")).get(asked.values())
    assert len(answers) == 2 * len(made_up) == 6
    by_itself = hypothetical(adapted.base, [texts[question] for question in asked])
    assert {response.text for response in made_up.values()}.isdisjoint(by_itself)
    for row in answers:
        response, question = made_up[asked[row.question_id]], texts[row.question_id]
        searches = {"hypothetical_answer": [response.text], "qa_rag": [question, response.text]}[row.strategy]
        assert (response.endpoint, row.reason, row.searches) == ("tuned", "", searches)


@pytest.mark.nightly
def test_the_service_searches_with_what_it_makes_up(index: Path, models: Path, tmp_path: Path) -> None:
    body = json.dumps({"question": QUESTION, "strategy": "qa_rag"}).encode()
    told = ("--index", str(index), "--models", str(models), "--hypothesis", "tuned")
    with running(tmp_path, *told) as service:
        asked = urllib.request.Request(f"{service.url}/v1/answers", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=120) as reply:
            answer: dict[str, Any] = json.load(reply)
    tuned = load_models(models)["tuned"]
    assert (answer["degraded"], answer["searches"]) == (None, [QUESTION, *hypothetical(tuned)])
