"""A tiny chat model that TRL trains: what is counted, that packing mixes nothing, each method and objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.tuning.answerer_training import (
    ADAPTER_FILES,
    TuningSpec,
    answered_tokens,
    load_model,
    load_tokenizer,
    prompt_tokens,
    train_answerer,
    without_long_pairs,
)
from fdarx_core.tuning.evaluation import BASE, TUNED, answer_loss, answer_test_part, generate_answers
from fdarx_core.tuning.pairs import TrainingPair, closed_book_messages, read_pairs, split_pairs
from fdarx_core.tuning.trainer import loss_curve
from tests.tuning.made_pairs import chat_model, pairs_file

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("peft")

pytestmark = pytest.mark.models

Parts = Mapping[str, Sequence[TrainingPair]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models")
    texts = pairs_file(folder / "pairs.jsonl").read_text().splitlines()
    return chat_model(folder / "chat", texts, hidden=64)


@pytest.fixture(scope="module")
def tokenizer(model: str) -> Any:
    return load_tokenizer(model)


@pytest.fixture(scope="module")
def parts(model: str) -> Parts:
    pairs = split_pairs(read_pairs(str(Path(model).parent / "pairs.jsonl"))[0], 2)
    return {part: [pair for pair in pairs if pair.part == part] for part in ("train", "validation", "test")}


def spec(model: str, **more: Any) -> TuningSpec:
    return TuningSpec(model=model, **{"rank": 4, "alpha": 8, "rate": 0.01, "epochs": 1, "length": 1024, **more})


def trained(tuning: TuningSpec, parts: Parts, folder: Path) -> Any:
    return train_answerer(tuning, parts, folder / "checkpoints", lambda step, steps, note: None)


def test_the_prompt_is_the_one_that_is_asked_and_the_answer_ends_the_turn(tokenizer: Any, parts: Parts) -> None:
    pair = parts["train"][0]
    tokens, start = answered_tokens(tokenizer, pair.prompt, pair.answer)
    assert tokens[:start] == prompt_tokens(tokenizer, pair.prompt)
    assert tokenizer.decode(tokens[start:]) == f"{pair.answer}<|end|>"
    assert tokenizer.decode(tokens[:start]).endswith(f"Question: {pair.question}<|end|><|turn|>assistant\n")


def test_pairs_that_are_too_long_are_told_of(tokenizer: Any, parts: Parts) -> None:
    known = [*parts["train"][:1], *parts["validation"][:1]]
    longest = max(len(answered_tokens(tokenizer, one.prompt, one.answer)[0]) for one in known)
    long = replace(known[0], id="long", answer="word " * longest, about="T")
    worse = replace(known[0], id="worse", rejected="word " * longest, about="T")
    kept, rejects = without_long_pairs([*known, long, worse, replace(long, part="test")], tokenizer, longest)
    assert [one.id for one in kept] == [known[0].id, known[1].id, "long"]  # the test part is not learnt from
    assert [(one.id, one.reason, one.source) for one in rejects] == [
        (name, "too_long", "T") for name in ("long", "worse")
    ]
    with pytest.raises(ValueError, match="no pair of the train part has at most 16 tokens, see --length"):
        without_long_pairs(known, tokenizer, 16)


def test_a_directory_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="has no tokenizer that transformers can read"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (None, "no chat template"),
        (
            "{{ messages | length }}{% for one in messages %}{{ one.content }}{% endfor %}",
            "changes a prompt once it is answered",
        ),
    ],
)
def test_templates_that_cannot_be_used(model: str, template: str | None, told: str, tmp_path: Path) -> None:
    other = load_tokenizer(model)
    other.chat_template = template
    other.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=told):
        answered_tokens(load_tokenizer(str(tmp_path)), [{"role": "user", "content": "Q"}], "A")


def test_the_packed_loss_is_that_of_the_answers_alone(model: str, tokenizer: Any, parts: Parts, tmp_path: Path) -> None:
    """The first step holds all pairs, packed: its loss is that of the base model, by hand, if no pair sees another."""
    few = {"train": parts["train"][:6], "validation": parts["validation"][:1]}
    curve = loss_curve(trained(spec(model, batch=6), few, tmp_path).state.log_history)
    base, total, count = load_model(spec(model)), 0.0, 0
    for pair in few["train"]:
        tokens, start = answered_tokens(tokenizer, pair.prompt, pair.answer)
        total += answer_loss(base, tokenizer, pair, pair.answer) * (len(tokens) - start)
        count += len(tokens) - start
    assert len(curve) == 1
    assert curve[0].loss == pytest.approx(total / count, rel=1e-4)


def with_worse(parts: Parts) -> Parts:
    return {part: [replace(one, rejected=f"No. {one.question}") for one in pairs] for part, pairs in parts.items()}


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({"target_modules": ("q_proj", "v_proj")}, ADAPTER_FILES),
        ({"method": "qlora"}, ADAPTER_FILES),
        ({"method": "full", "rate": 3e-3}, ("config.json", "model.safetensors")),
        ({"objective": "dpo", "rate": 1e-3}, ADAPTER_FILES),
    ],
    ids=["lora", "qlora", "full", "dpo"],
)
def test_each_method_learns_and_its_result_is_examined(
    model: str, parts: Parts, options: dict[str, Any], files: Sequence[str], tmp_path: Path
) -> None:
    tuning = spec(model, epochs=2, batch=4, max_tokens=4, **options)
    few = with_worse({"train": parts["train"][:24], "validation": parts["validation"][:4], "test": parts["test"][:2]})
    trainer = trained(tuning, few, tmp_path)
    curve = loss_curve(trainer.state.log_history)
    looks = [one.validation_loss for one in curve if one.validation_loss is not None]
    assert looks[-1] < looks[0]
    trainer.save_model(str(tmp_path / "result"))
    assert all((tmp_path / "result" / name).exists() for name in files)
    if tuning.target_modules:
        assert {name.split(".")[-4] for name, one in trainer.model.named_parameters() if one.requires_grad} == {
            *tuning.target_modules
        }
    rows = answer_test_part(tuning, str(tmp_path / "result"), few["test"])
    losses = {name: [row.loss for row in rows if row.model == name] for name in (BASE, TUNED)}
    assert losses[BASE] != losses[TUNED]
    if tuning.objective == "sft":
        assert sum(losses[TUNED]) < sum(losses[BASE])
    else:  # the better answer has become likelier beside the worse one
        gaps = {name: [(row.rejected_loss or 0) - row.loss for row in rows if row.model == name] for name in losses}
        assert sum(gaps[TUNED]) > sum(gaps[BASE])


def test_answers_do_not_depend_on_the_batch(model: str, tokenizer: Any, parts: Parts) -> None:
    base = load_model(spec(model)).eval()
    pairs = [*parts["test"][:3], TrainingPair("s", "Q", "A", "T", messages=closed_book_messages("Q"))]
    together = generate_answers(base, tokenizer, pairs, 6)
    assert together == [generate_answers(base, tokenizer, [pair], 6)[0] for pair in pairs]


def test_a_loss_that_is_not_finite_ends_the_training(model: str, parts: Parts, tmp_path: Path) -> None:
    few = {"train": parts["train"][:8], "validation": parts["validation"][:1]}
    with pytest.raises(ValueError, match="diverged; set a lower --rate"):
        trained(spec(model, batch=2, epochs=4, rate=1e30), few, tmp_path)
