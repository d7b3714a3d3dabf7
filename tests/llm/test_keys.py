"""Requests are the same where, and only where, everything asked is the same."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import request_key, source_digest
from fdarx_core.records import Request

REQUEST = Request(
    key="",
    task="t",
    task_version=1,
    endpoint="e",
    slots={"a": "x", "b": 2},
    messages=[{"role": "user", "content": "x 2"}],
    schema={"type": "object", "properties": {"p": {"type": "string"}, "q": {"type": "string"}}},
    sampling={"temperature": 0.0, "max_tokens": 100},
)
OTHER: dict[str, Any] = {
    "task": "u",
    "task_version": 2,
    "endpoint": "f",
    "slots": {"a": "x", "b": 3},
    "messages": [{"role": "system", "content": "x 2"}],
    "schema": {"type": "array"},
    "sampling": {"temperature": 0.5, "max_tokens": 100},
}


@pytest.mark.parametrize("field", [field.name for field in fields(Request) if field.name != "key"])
def test_each_field_changes_the_key(field: str) -> None:
    assert request_key(replace(REQUEST, **{field: OTHER[field]})) != request_key(REQUEST)


def test_the_key_itself_does_not() -> None:
    assert request_key(replace(REQUEST, key="0")) == request_key(REQUEST)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(slots=st.dictionaries(st.text("abcd", min_size=1), JSON), seed=st.integers())
def test_order_of_keys_does_not_change_it(slots: dict[str, Any], seed: int) -> None:
    pairs = list(slots.items())
    random.Random(seed).shuffle(pairs)
    assert request_key(replace(REQUEST, slots=dict(pairs))) == request_key(replace(REQUEST, slots=slots))


@given(one=st.dictionaries(st.text("ab"), JSON), two=st.dictionaries(st.text("ab"), JSON))
def test_other_slots_other_key(one: dict[str, Any], two: dict[str, Any]) -> None:
    same = request_key(replace(REQUEST, slots=one)) == request_key(replace(REQUEST, slots=two))
    assert same == (repr_sorted(one) == repr_sorted(two))


def repr_sorted(value: Any) -> str:
    """A value's text, where True and 1 differ as they do in JSON, and the order of keys does not count."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{repr_sorted(value[key])}" for key in sorted(value)) + "}"
    return "[" + ",".join(map(repr_sorted, value)) + "]" if isinstance(value, list) else repr(value)


def test_rules_digest_follows_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_rules_package"
    package.mkdir()
    (package / "__init__.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = source_digest("some_rules_package")
    (package / "notes.txt").write_text("not a rule")
    assert source_digest("some_rules_package") == before
    (package / "words.yaml").write_text("- dose\n")
    assert source_digest("some_rules_package") != before
