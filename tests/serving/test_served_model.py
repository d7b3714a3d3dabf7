"""Served models' files: what they may say, what is worked out from them, what is refused before a cluster is asked."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import ModelsError
from serving import memory
from serving.memory import GIB, describe_memory, estimate_memory
from serving.models import app, build
from serving.served_model import Adapters, ModelSize, ServedModel, load_served
from tests.conftest import REPOSITORY

FILES = sorted((REPOSITORY / "serving" / "models").glob("*.yaml"))
PUBLISHED = {  # those of FDARxBench's Table 7
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "mistralai/Ministral-3-14B-Instruct-2512",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
}
LEAST = {"name": "small", "model": "org/small", "context_length": 4096}


def served(**fields: Any) -> ServedModel:
    return ServedModel.model_validate(LEAST | fields)


def written(folder: Path, text: str) -> Path:
    file = folder / "model.yaml"
    file.write_text(text)
    return file


def test_how_it_is_asked_follows_from_how_it_is_served() -> None:
    model = served(replicas=3, concurrent=16, ask={"sampling": {"temperature": 0}, "max_tokens": 200})
    asked = model.client_config("http://head:8000/")
    assert (asked.name, asked.kind, asked.model) == ("small", "openai", "org/small")
    assert (asked.base_url, asked.context_length, asked.max_in_flight) == ("http://head:8000/small/v1", 4096, 48)
    assert (asked.sampling, asked.max_tokens) == ({"temperature": 0}, 200)
    assert served(ask={"max_in_flight": 7}).client_config("http://head:8000").max_in_flight == 7


@pytest.mark.parametrize(
    ("model", "on_the_server"),
    [("org/small", "org/small"), ("gpt2", "gpt2"), ("/models/tiny/", "tiny"), ("s3://bucket/models/tiny", "tiny")],
)
def test_a_place_is_known_by_its_end(model: str, on_the_server: str) -> None:
    assert served(model=model).client_config("http://head:8000").model == on_the_server


def test_a_directory_is_found_beside_its_file(tmp_path: Path) -> None:
    file = written(
        tmp_path, "{name: tiny, model: ./weights/tiny, context_length: 100, adapters: {path: ../runs/tuned}}"
    )
    model = load_served(file)
    assert model.model == str(tmp_path / "weights" / "tiny")
    assert model.adapters and model.adapters.path == str(tmp_path.parent / "runs" / "tuned")
    assert ServedModel.model_validate(model.model_dump()) == model


def test_what_is_no_directory_stays_as_it_is(tmp_path: Path) -> None:
    file = written(tmp_path, "{name: s, model: org/small, context_length: 9, adapters: {path: s3://bucket/tuned}}")
    model = load_served(file)
    assert (model.model, model.adapters) == ("org/small", Adapters(path="s3://bucket/tuned"))


def test_the_size_of_a_directory_is_read_from_it(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576}
    (tmp_path / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(538_000_000)
    fields = "name: smol, model: ., device: cpu, context_length: 8192, cache_gib: 1"
    model = load_served(written(tmp_path, f"{{{fields.replace('.', './')}}}"))
    assert model.size == ModelSize(parameters=0.1345, layers=30, kv_heads=3, head_dim=64, weight_bytes=4, kv_bytes=4)
    assert estimate_memory(model).tokens == 2**30 // (2 * 30 * 3 * 64 * 4) // 16 * 16
    (tmp_path / "config.json").write_text("{}")
    assert load_served(tmp_path / "model.yaml").size is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "a b"}, "name: String should match"),
        ({"name": "baseline"}, "baseline is the name of the built-in rules"),
        ({"context_length": None}, "context_length: it must be a whole number"),
        ({"gpus": 2}, "there is no field gpus; the fields are name, model, device"),
        ({"replicas": 0}, "replicas: at least 1"),
        ({"replicas": {"min": 3, "max": 2, "ongoing": 8}}, "min 3 exceeds max 2"),
        ({"device": "cpu", "accelerator": "A100"}, "cpu takes no accelerator"),
        ({"engine": {"tensor_parallel_size": 2}}, "tensor_parallel_size has a field of its own; use tensor_parallel"),
        ({"engine": {"max_model_len": 2}}, "max_model_len has a field of its own; use context_length"),
        ({"engine": {"trust_remote_code": True}}, "trust_remote_code can't be set: code that comes with a model"),
        ({"adapters": {"path": "runs/tuned"}}, "adapters.path: String should match"),
        ({"adapters": {"path": "gs://bucket/tuned"}}, "adapters.path: String should match"),
        ({"ask": {"base_url": "http://x"}}, "ask: base_url follows from the served model"),
        ({"ask": {"max_token": 5}}, "ask: there is no field max_token; did you mean max_tokens?"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    file = written(tmp_path, yaml.safe_dump(LEAST | changes))
    with pytest.raises(ModelsError) as raised:
        load_served(file)
    message = str(raised.value)
    assert message.startswith(f"{file}: ")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "says"),
    [("- a list", "has no mapping; begin it with 'name: ...'"), ("{", "not YAML: see line 1"), ("", "no mapping")],
)
def test_no_mapping(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ModelsError, match=says):
        load_served(written(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match=r"cannot read .*absent.yaml: .*; give a YAML file that describes one"):
        load_served(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("without", "says"),
    [
        ("config.json", "has no configuration"),
        ("tokenizer.json", r"has no tokenizer \(tokenizer.json, .*\); save the whole model with its tokenizer there"),
        ("model.safetensors", "has no weights"),
        ("", "is not a directory on this machine"),
    ],
)
def test_a_directory_that_lacks_something_is_refused_before_anything_is_deployed(
    tmp_path: Path, without: str, says: str
) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).touch()
    if without:
        (tmp_path / without).unlink()
    else:
        shutil.rmtree(tmp_path)
    with pytest.raises(ModelsError, match=f"model small: model: .*{says}"):
        build(served(model=str(tmp_path)))


def test_arguments_of_a_serve_config() -> None:
    with pytest.raises(ModelsError, match=r"takes one argument, model \(a file or fields\), not \['file'\]"):
        app({"file": "x"})
    with pytest.raises(ModelsError, match="model: context_length: Field required"):
        app({"model": {"name": "small", "model": "org/small"}})


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_remedy_is_told() -> None:
    with pytest.raises(
        ModelsError, match=r"model small: vLLM is not installed here; install it: pip install 'fdarx\[gpu\]'"
    ):
        build(served())


def test_the_five_published_models_are_there() -> None:
    assert {load_served(file).model for file in FILES if file.stem.endswith("-a100")} == PUBLISHED


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_comments_say_what_is_worked_out(file: Path) -> None:
    model = load_served(file)
    comment = "\n".join(f"#   {line}" for line in describe_memory(model))
    assert f"# Memory, by python -m serving.memory:\n{comment}\n" in file.read_text()


def test_the_sums_by_hand() -> None:
    eight, seventy = (
        load_served(REPOSITORY / f"serving/models/{name}-a100.yaml") for name in ("llama-3.1-8b", "llama-3.3-70b")
    )
    small, large = estimate_memory(eight), estimate_memory(seventy)
    assert small.token_bytes == 2 * 32 * 8 * 128 * 2 == 131_072
    assert large.token_bytes == 2 * 80 * 2 * 128 * 2 == 81_920  # two of eight heads a card
    assert small.weights * GIB == pytest.approx(16.06e9)
    assert large.weights * GIB == pytest.approx(70.55e9 * 2 / 4)
    assert small.cache == pytest.approx(79.1 * 0.9 - 16.06e9 / GIB - 3)
    assert small.tokens == int(small.cache * GIB / 131_072) // 16 * 16


@given(cards=st.integers(1, 8), memory_gib=st.floats(10, 200), context=st.integers(1, 100_000))
def test_more_cards_never_hold_less(cards: int, memory_gib: float, context: int) -> None:
    size = {"parameters": 8.03, "layers": 32, "kv_heads": 8, "head_dim": 128}

    def tokens(number: int) -> int:
        try:
            return estimate_memory(
                served(size=size, card_gib=memory_gib, context_length=context, tensor_parallel=number)
            ).tokens
        except ModelsError:
            return 0

    assert 0 <= tokens(cards) <= tokens(cards + 1)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        (
            "llama-3.3-70b-a100",
            {"tensor_parallel": 1},
            "131.4 GiB of weights per GPU, with 3.0 GiB for activations and libraries do not fit into 71.2",
        ),
        (
            "llama-3.3-70b-a100",
            {"tensor_parallel": 2},
            "context_length: the cache of 2.5 GiB per GPU holds 16,272 tokens",
        ),
        ("qwen3-32b-a100", {"tensor_parallel": 1}, "context_length: the cache of 7.2 GiB per GPU holds"),
        ("llama-3.1-8b-a100", {"card_gib": None}, "card_gib: the estimate needs"),
        ("llama-3.1-8b-a100", {"size": None}, "size: the estimate needs"),
        ("llama-3.1-8b-a100", {"cache_gib": 70}, "and 70.0 GiB of cache, do not fit"),
        ("cpu", {"cache_gib": None}, "cache_gib: give the size of the cache"),
    ],
)
def test_what_does_not_fit_is_refused_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, changes: dict[str, Any], says: str
) -> None:
    fields = yaml.safe_load((REPOSITORY / f"serving/models/{name}.yaml").read_text())
    assert memory.main([str(written(tmp_path, yaml.safe_dump(fields | changes)))]) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_what_fits_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert memory.main([str(file) for file in FILES]) == 0
    printed = capsys.readouterr().out
    assert all(f"{load_served(file).name}\n" in printed for file in FILES)
