"""A models file is right, or an error says which field of which model is wrong and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fdarx_core.llm import ModelConfig, ModelsError, Prices, load_models
from fdarx_core.records import Response

SMALL = """
- name: small
  model: org/small
  base_url: http://localhost:8000/v1/
  sampling: {temperature: 0, seed: 1}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "models.yaml"


def test_what_a_file_says(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRONG_KEY", "k" * 20)
    strong = "- {name: strong, kind: anthropic, model: large, base_url: 'https://api.example', key_env: STRONG_KEY,\n"
    file.write_text(SMALL + strong + "   prices: {input: 3, cached_input: 0.3, output: 15}}\n")
    models = load_models(file)
    assert list(models) == ["small", "strong"]
    assert models["small"].base_url == "http://localhost:8000/v1"
    assert models["small"].key() == ""
    assert models["strong"].key() == "k" * 20
    assert models["small"].request_parameters == {
        "temperature": 0,
        "seed": 1,
        "model": "org/small",
        "max_tokens": 1024,
        "structured": "auto",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no list of models"),
        ("small: {}", "has no list of models"),
        ("- [", "not YAML: see line 1"),
        ("- 7", "model number 1"),
        (SMALL + SMALL, "model small: the name is taken, another model has it"),
        (SMALL.replace("name: small", "name: baseline"), "it stands for the built-in rules"),
        (SMALL + "  max_inflight: 3\n", "model small: there is no field max_inflight; did you mean max_in_flight[?]"),
        (SMALL.replace("base_url", "base_ulr"), "there is no field base_ulr; did you mean base_url[?]$"),
        (SMALL + "  temperature: 0\n", "there is no field temperature; write it under sampling: {temperature: ...}$"),
        (SMALL + "  temprature: 0\n", "there is no field temprature; write it under sampling: {temperature: ...}$"),
        (SMALL + "  api-key: x\n", "no field api-key; write the name of an environment variable with .* into key_env$"),
        (SMALL + "  token: x\n", "there is no field token; write the name of an environment variable"),
        (SMALL + "  max_token: 3\n", "there is no field max_token; did you mean max_tokens[?]$"),
        (
            SMALL.replace("base_url: http://localhost:8000/v1/", "max_tokens: 3"),
            "model small: base_url is missing; give",
        ),
        (SMALL + "  key_env: A\n  key_command: b\n", "model small: key_env and key_command both give the key"),
        (SMALL + "  concurrency: 3\n", "there is no field concurrency; the fields are name, kind, model"),
        (SMALL.replace("http://localhost:8000/v1/", "localhost:8000"), "model small: base_url: .*write it as http"),
        (SMALL.replace("http://", "http://user:pass@"), "base_url: .*may hold no user, password or query"),
        (SMALL + "  max_in_flight: 0\n", "max_in_flight: .*greater than or equal to 1"),
        (SMALL + "  key_env: NO_SUCH_KEY\n", "key_env: environment variable NO_SUCH_KEY is not set"),
        (SMALL + "  key_env: BLANK_KEY\n", "key_env: environment variable BLANK_KEY holds white space"),
    ],
)
def test_what_is_wrong(text: str, message: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLANK_KEY", "two words\n")
    file.write_text(text)
    with pytest.raises(ModelsError, match=message) as error:
        load_models(file)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)
    assert "pass@" not in str(error.value)


def test_a_parameter_of_sampling_that_looks_misspelt_is_a_warning(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(SMALL.replace("temperature: 0", "temprature: 0, repetition_penalty: 1.1, min_tokens: 3"))
    assert load_models(file)["small"].sampling["temprature"] == 0
    says = "the server is sent temprature of sampling; did you mean temperature?"
    assert capsys.readouterr().err == f"warning: {file}: model small: {says}\n"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match=r"none\.yaml: "):
        load_models(tmp_path / "none.yaml")


@pytest.mark.parametrize("field", ["key: {}", "api_key: {}", "key_env: {}", "sampling: [{}"])
def test_a_key_that_was_written_into_the_file_is_not_repeated(field: str, file: Path) -> None:
    file.write_text(
        SMALL.replace("  sampling: {temperature: 0, seed: 1}\n", "") + f"  {field.format('sk-planted-1')}\n"
    )
    with pytest.raises(ModelsError) as error:
        load_models(file)
    assert "sk-planted-1" not in str(error.value)


def test_every_field_says_what_it_is_for() -> None:
    bare = [name for name, field in ModelConfig.model_fields.items() if not field.description]
    assert not bare


def test_cost() -> None:
    response = Response("k", "t", 1, "e", "", prompt_tokens=1000, cached_tokens=400, completion_tokens=10)
    assert Prices(input=3, cached_input=0.3, output=15).cost(response) == pytest.approx(0.00207)
    assert Prices(input=3, output=15).cost(response) == pytest.approx(0.00315)
    response.written_tokens = 500
    assert Prices(input=3, cached_input=0.3, output=15).cost(response) == pytest.approx(0.00207)
    assert Prices(input=3, cached_input=0.3, cache_write=3.75, output=15).cost(response) == pytest.approx(0.002445)
