"""Adapters of a folder, on a disk and on a real S3 server: found, copied, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import ModelsError
from fdarx_core.storage import Location
from serving.adapters import CONFIG, fetch_adapter
from serving.models import build
from serving.served_model import ServedModel

WEIGHTS = bytes(range(256))


def saved(folder: Location, name: str, config: Any) -> Location:
    """An adapter as PEFT saves it, as far as files go."""
    place = folder / name
    (place / "adapter_model.safetensors").write_bytes(WEIGHTS)
    (place / CONFIG).write_text(config if isinstance(config, str) else json.dumps(config))
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Location:
    place = Location(tmp_path / "tuned")
    saved(place, "adapter", {"r": 16})
    saved(place, "wide", {"r": 64})
    saved(place, "rankless", {"lora_alpha": 32})
    saved(place, "garbled", "{")
    (place / "report" / "page.html").write_text("no adapter")
    return place


def test_one_on_a_disk_is_read_where_it_is(folder: Location, tmp_path: Path) -> None:
    assert fetch_adapter(folder, "adapter", 16, tmp_path / "copies") == tmp_path / "tuned" / "adapter"


@pytest.mark.s3
@pytest.mark.slow
def test_one_on_s3_is_copied_and_read_anew_each_time(bucket: Location, tmp_path: Path) -> None:
    for rank in (8, 16):
        saved(bucket / "runs/tuned", "adapter", {"r": rank})
        found = fetch_adapter(bucket / "runs/tuned", "adapter", 16, tmp_path)
        assert (found, (found / "adapter_model.safetensors").read_bytes()) == (tmp_path / "adapter", WEIGHTS)
        assert json.loads((found / CONFIG).read_text()) == {"r": rank}
    with pytest.raises(LookupError, match=r"no adapter 'other' in s3://.*/runs/tuned; it has adapter$"):
        fetch_adapter(bucket / "runs/tuned", "other", 16, tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("absent", LookupError, r"there is no adapter 'absent' in .*; it has adapter, garbled, rankless, wide"),
        ("report", LookupError, r"there is no adapter 'report'"),
        ("", LookupError, r"there is no adapter ''"),
        ("../tuned/adapter", LookupError, r"there is no adapter '\.\./tuned/adapter'"),
        ("..", LookupError, r"there is no adapter '\.\.'"),
        ("wide", ValueError, r"adapter wide has rank 64; set adapters.rank of the served model to 64"),
        ("rankless", ValueError, r"rankless/adapter_config.json has no LoRA rank; save the adapter with PEFT"),
        ("garbled", ValueError, r"garbled/adapter_config.json has no LoRA rank"),
    ],
)
def test_what_can_not_be_had_is_explained(
    folder: Location, tmp_path: Path, name: str, kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says) as raised:
        fetch_adapter(folder, name, 16, tmp_path / "copies")
    assert "\n" not in str(raised.value)


def test_a_folder_that_holds_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"it has none \(no folder with adapter_config.json\)"):
        fetch_adapter(Location(tmp_path), "adapter", 16, tmp_path)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("nowhere", "adapters.path: .*/nowhere is not a directory on this machine; it must exist"),
        ("tuned/adapter", "adapters.path: .*/tuned/adapter is itself an adapter; give .*/tuned, and ask for adapter"),
    ],
)
def test_a_wrong_folder_is_refused_before_anything_is_deployed(
    folder: Location, tmp_path: Path, place: str, says: str
) -> None:
    told = {"name": "s", "model": "org/small", "context_length": 9, "adapters": {"path": f"{tmp_path}/{place}"}}
    with pytest.raises(ModelsError, match=f"model s: {says}"):
        build(ServedModel.model_validate(told))
