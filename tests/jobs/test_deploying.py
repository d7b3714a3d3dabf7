"""Options of `--deploy`: what is wrong with files is told before anything starts, and runs don't depend on places."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from fdarx_core.llm import ModelsError
from fdarx_core.specs.evaluate import EvaluateSpec
from jobs.evaluate import cpus_for, load_deployed, with_deployed
from tests.jobs.evaluating import models_file


def served_file(folder: Path, name: str, **more: Any) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"name": name, "model": f"some/{name}", "context_length": 8192, **more}))
    return file


def config(*files: Path, **more: Any) -> EvaluateSpec:
    return EvaluateSpec(benchmark="b", out="o", deploy=[str(file) for file in files], **{"plan": True, **more})


def identity(*files: Path, **more: Any) -> dict[str, Any]:
    made, _ = with_deployed(config(*files, **more))
    return made.identity(made.setup({}))


def test_a_run_depends_on_what_changes_answers_alone(tmp_path: Path) -> None:
    before = identity(served_file(tmp_path, "small"))
    machines = {
        "tensor_parallel": 4,
        "replicas": 3,
        "accelerator": "A100",
        "concurrent": 9,
        "ask": {"max_in_flight": 5},
    }
    assert identity(served_file(tmp_path, "small", **machines), gpus=16) == before
    assert identity(served_file(tmp_path, "small", ask={"max_tokens": 5})) != before
    assert identity(served_file(tmp_path, "small", context_length=4096)) != before


def test_deployed_models_are_asked_and_one_may_judge(tmp_path: Path) -> None:
    files = [served_file(tmp_path, name) for name in ("small", "strong")]
    sweep = with_deployed(config(*files, judge="strong"))[0].setup({})
    assert sweep.answerers == ["baseline", "small"] and set(sweep.used) == {"small", "strong"}
    assert set(with_deployed(config(*files, only=["small"]))[0].setup({}).used) == {"small"}


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    small = served_file(tmp_path, "small")
    running = models_file(tmp_path, "http://localhost:1/v1", {"name": "small"})
    with pytest.raises(ModelsError, match="small is also the name of a model in --models"):
        with_deployed(config(small, models=[str(running)]))[0].setup({})
    with pytest.raises(ModelsError, match="another file of --deploy has small too"):
        load_deployed([str(small), str(small)], to_ask=False)


def test_a_directory_without_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    file = served_file(tmp_path, "small", model="./model")
    with pytest.raises(ModelsError, match=r"small\.yaml: model: .*model has no tokenizer"):
        load_deployed([str(file)], to_ask=True)
    assert load_deployed([str(file)], to_ask=False)


def test_a_model_that_its_cards_cannot_hold(tmp_path: Path) -> None:
    size = {"parameters": 70, "layers": 80, "kv_heads": 8, "head_dim": 128}
    file = served_file(tmp_path, "large", card_gib=80, size=size)
    with pytest.raises(ModelsError, match="model large"):
        load_deployed([str(file)], to_ask=False)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
@pytest.mark.parametrize(("device", "says"), [("gpu", r"pip install 'fdarx\[gpu\]'"), ("cpu", "its CPU build")])
def test_an_environment_without_the_engine(tmp_path: Path, device: str, says: str) -> None:
    with pytest.raises(ModelsError, match=says):
        load_deployed([str(served_file(tmp_path, "small", device=device))], to_ask=True)


def test_gpus_without_anything_that_computes_on_them() -> None:
    with pytest.raises(ModelsError, match="--gpus is for --deploy"):
        config(gpus=2).setup({})


def test_models_on_cpus_do_not_take_those_of_the_job(tmp_path: Path) -> None:
    served = load_deployed(
        [str(served_file(tmp_path, name, device="cpu", cpus=cpus)) for name, cpus in (("a", 1), ("b", 3), ("j", 2))],
        to_ask=False,
    )
    assert cpus_for(served, "") == 4  # 3 and a little for HTTP
    assert cpus_for(served, "j") == 6
    assert cpus_for({}, "j") == 0
