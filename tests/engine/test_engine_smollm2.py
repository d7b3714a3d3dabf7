"""A real small model on vLLM's CPU build: its tokenizer, its chat template, replies that ramble, copy and stop.

SmolLM2-135M answers a short question from a passage. It cannot judge, and no build by it passes a question: of a build,
what is tested is that each of its replies is used or has a reason.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from tokenizers import Tokenizer

from fdarx_core.evaluation.predictions import ANSWER_TASKS
from fdarx_core.evaluation.settings import CLOSED_BOOK, ORACLE
from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.llm import ModelConfig
from fdarx_core.records import ClaimVerdict, Prediction, Reject, Response
from fdarx_core.storage import RunDirectory
from jobs.build_benchmark import NO_QUESTIONS
from serving.memory import estimate_memory
from serving.served_model import load_served
from tests.conftest import EXAMPLES, REPOSITORY
from tests.engine.environment import installed
from tests.engine.serve_models import described, serving
from tests.engine.server import running
from tests.engine.small_model import NAME
from tests.engine.test_engine import answered, factual_slots, why_none
from tests.jobs.checking import score
from tests.jobs.evaluating import cells, evaluate, models_file, rows_of
from tests.jobs.in_process import run_job
from tests.serving.service_process import running as service_running

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

DOSE = "The recommended starting dosage of VELTRAPAN in adults is 25 mg orally once daily."
REACTION = "The most common adverse reaction was nausea, in 12 % of patients."
MOST = 96
CACHED_TOKENS = 16_384
"""90 KiB a token: 30 layers, 3 heads of 64 dimensions for keys and as many for values, 4 bytes each."""
PROMPT_AND_REPLY = 3072
"""Tokens to which whole labels are cut: attention makes the reading of a prompt of twice as many take far longer."""
GREEDY = {"max_tokens": MOST, "sampling": {"temperature": 0}, "max_in_flight": 4}


@pytest.fixture(scope="module")
def engine(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a bare engine that serves SmolLM2."""
    log = tmp_path_factory.mktemp("smollm2") / "engine.log"
    with running(installed(), smollm2, log, CACHED_TOKENS, ["--served-model-name", NAME]) as address:
        yield address


def config(engine: str, **changes: Any) -> ModelConfig:
    return ModelConfig.model_validate(
        {"name": "smollm2", "model": NAME, "base_url": f"{engine}/v1", **GREEDY, **changes}
    )


def oracle_answer(model: ModelConfig, question: str, passage: str) -> Response:
    passages = [{"section": "ADVERSE REACTIONS", "text": passage}]
    slots = {"question": question, "drug": "Veltrapan", "passages": passages}
    request = ANSWER_TASKS[ORACLE].request(slots, endpoint=model.name, sampling=model.request_parameters)
    return asyncio.run(answered(model, [request]))[0]


def test_it_answers_from_a_passage_and_stops(engine: str) -> None:
    response = oracle_answer(config(engine), "What was the most common adverse reaction?", REACTION)
    assert response.finish_reason == "stop"
    assert "nausea" in response.text


def test_its_chat_template_makes_the_prompt(engine: str, smollm2: Path) -> None:
    slots = {"question": "How is Veltrapan stored?"}
    model = config(engine, max_tokens=8)
    request = ANSWER_TASKS[CLOSED_BOOK].request(slots, endpoint=model.name, sampling=model.request_parameters)
    [response] = asyncio.run(answered(model, [request]))
    template = jinja2.Template((smollm2 / "chat_template.jinja").read_text())
    prompt = template.render(messages=request.messages, add_generation_prompt=True)
    tokenizer = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    assert response.prompt_tokens == len(tokenizer.encode(prompt, add_special_tokens=False).ids)


def test_structured_replies_are_read_or_have_a_reason(engine: str) -> None:
    model = config(engine, max_tokens=300)
    texts = (DOSE, "Store at 20 to 25 degrees C. Protect from light.", REACTION)
    requests = [
        GENERATE_FACTUAL.request(factual_slots(text), endpoint=model.name, sampling=model.request_parameters)
        for text in texts
    ]
    reasons = [why_none(response) for response in asyncio.run(answered(model, requests))]
    # it runs on until the limit, or repeats the example of the prompt
    assert set(reasons) <= {"", "truncated_reply", "copied_example"}
    assert "" in reasons


@pytest.fixture(scope="module")
def models(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models file with SmolLM2."""
    fields = {"name": "smollm2", **GREEDY, "model": NAME, "context_length": PROMPT_AND_REPLY}
    return models_file(tmp_path_factory.mktemp("models"), f"{engine}/v1", fields)


@pytest.fixture(scope="module")
def evaluation(example_build: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of an evaluation of a label's first questions, in all settings."""
    folder = tmp_path_factory.mktemp("evaluation")
    questions = (example_build / "benchmark" / "qa.jsonl").read_text().splitlines(keepends=True)
    label = json.loads(questions[0])["set_id"]
    asked = [line for line in questions if json.loads(line)["set_id"] == label][:2]
    (folder / "qa.jsonl").write_text("".join(asked))
    (folder / "labels.jsonl").write_bytes((example_build / "benchmark" / "labels.jsonl").read_bytes())
    done = evaluate(folder, folder / "run", "--models", models, "--retrievers", "bm25")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_an_evaluation_in_four_settings(evaluation: Path) -> None:
    predictions = rows_of(evaluation, "predictions/smollm2", Prediction)
    assert {row.setting for row in predictions} == ANSWER_TASKS.keys()
    unusable = sum(row.outcome in ("unparsed", "failed") for row in predictions)
    assert unusable == sum(cell.unparsed + cell.failed for cell in cells(evaluation).values())
    assert unusable < 0.5 * len(predictions)
    assert all((row.reason == "truncated_reply") == (row.completion_tokens == MOST) for row in predictions)
    assert sum(row.completion_tokens < MOST for row in predictions) > 0.5 * len(predictions)


def test_the_factuality_of_its_answers_by_itself(evaluation: Path, example_build: Path, models: Path) -> None:
    """Its verdicts are worth nothing; each claim has one, or a reason why it has none."""
    out, judged = (
        evaluation.parent / "factuality",
        ("--models", models, "--entailment", "smollm2", "--k", 1, "--sample", 1),
    )
    done = score(out, "--predictions", evaluation, "--evidence", f"labels:{example_build}", *judged)
    assert done.returncode == 0, done.stderr
    verdicts = rows_of(out, "verdicts", ClaimVerdict)
    assert verdicts
    assert all(row.verdict != "undecided" or row.reason for row in verdicts)
    assert b"</html>" in RunDirectory.open(str(out)).file("report.html").read_bytes()


def test_a_build_by_it_accounts_for_every_reply(models: Path, tmp_path: Path) -> None:
    label, out = EXAMPLES / "jorvequa-capsules.xml", tmp_path / "run"
    roles = ("--generator", "smollm2", "--reader", "smollm2", "--judge", "smollm2", "--models", models)
    few = ("--passages", 1, "--section-pairs", 0, "--twins", 0, "--transfers", 0)
    line = [sys.executable, "-m", "jobs.cli", "build", "--labels", label, "--out", out, *roles, *few, "--cpus", 1]
    done = subprocess.run(list(map(str, line)), cwd=REPOSITORY, capture_output=True, text=True, timeout=1000)
    assert done.returncode in (0, NO_QUESTIONS), done.stderr
    info = RunDirectory.open(str(out)).info()
    assert info["status"] == "complete"
    assert all(stage["rows_in"] == stage["kept"] + stage["rejected"] for stage in info["stages"]), info["stages"]
    assert all(row.reason for row in rows_of(out, "rejects", Reject))
    assert sum(row["requests"] for row in info["asked"] if row["endpoint"] == "smollm2") > 0


def test_an_answer_over_http(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    line = ["index", "--documents", REPOSITORY / "examples" / "guidelines", "--words-only", "--out", out]
    assert run_job(*map(str, line)).returncode == 0
    body = json.dumps(
        {"question": "How long are tablets stored in a stability study?", "strategy": "question"}
    ).encode()
    options = ("--index", out, "--models", models, "--answerer", "smollm2", "--model-s", 200, "--deadline-s", 300)
    with service_running(tmp_path, *map(str, options)) as service:
        asked = urllib.request.Request(f"{service.url}/v1/answers", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=300) as reply:
            answer: dict[str, Any] = json.load(reply)
    assert (answer["model"], answer["degraded"]) == ("smollm2", None)
    assert answer["answer"] and answer["passages"]


@pytest.mark.nightly
def test_behind_ray_serve_it_is_not_listed_before_it_runs(smollm2: Path, tmp_path: Path) -> None:
    """The dimensions for the estimate of its memory are those of the directory."""
    file = described(
        tmp_path / "smollm2.yaml", smollm2, size=None, cache_gib=1.5, ask=GREEDY, engine={"dtype": "float32"}
    )
    served = load_served(file)
    with serving(installed(), [file], tmp_path) as up:
        model = served.client_config(up.address)
        response = oracle_answer(model, "What was the most common adverse reaction?", REACTION)
        tokens = up.cached_tokens()
    assert "nausea" in response.text
    assert 503 in up.listed
    assert 200 not in up.listed[: up.listed.index(503)]
    assert up.listed == sorted(up.listed, reverse=True), "once ready, it stays listed"
    assert tokens == [estimate_memory(served).tokens]
