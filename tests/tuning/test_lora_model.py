"""A tiny chat model with an adapter: what is counted, that packing mixes nothing, and that saving loses nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records import content_id
from fdarx_core.tuning.pairs import TrainingPair, read_pairs
from fdarx_core.tuning.training import (
    ChatEncoder,
    LoraModel,
    TuningSpec,
    concatenate_pairs,
    encode_pairs,
    encode_parts,
    generate_answers,
)
from tests.tuning.made_pairs import chat_model, pairs_file

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

pytestmark = pytest.mark.models


def spec(model: str) -> TuningSpec:
    return TuningSpec(model, rank=4, alpha=8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models")
    return chat_model(folder / "chat", pairs_file(folder / "pairs.jsonl").read_text().splitlines())


@pytest.fixture(scope="module")
def encoder(model: str) -> ChatEncoder:
    return ChatEncoder(model)


@pytest.fixture(scope="module")
def pairs(model: str) -> list[TrainingPair]:
    return read_pairs(str(Path(model).parent / "pairs.jsonl"))[0][:5]


@pytest.fixture(scope="module")
def trained(model: str) -> LoraModel:
    """With an adapter that is no longer without effect."""
    tuned = LoraModel(spec(model))
    with torch.no_grad():
        for one in tuned.parameters:
            one.add_(torch.randn_like(one) * 0.1)
    return tuned


def test_the_prompt_is_the_one_that_is_asked_and_the_answer_ends_the_turn(
    encoder: ChatEncoder, pairs: list[TrainingPair]
) -> None:
    one = encoder.encode(pairs[0])
    assert one.tokens[: one.answer_from] == encoder.prompt(pairs[0].question)
    assert encoder.tokenizer.decode(one.tokens[one.answer_from :]) == f"{pairs[0].answer}<|end|>"
    asked = encoder.tokenizer.decode(one.tokens[: one.answer_from])
    assert asked.endswith(f"Question: {pairs[0].question}<|end|><|turn|>assistant\n")


def test_pairs_that_are_too_long_are_told_of(encoder: ChatEncoder, pairs: list[TrainingPair]) -> None:
    longest = len(encoder.encode(pairs[0]).tokens)
    long = TrainingPair("long", "Q", "word " * longest, "T")
    kept, rejects = encode_pairs([pairs[0], long], encoder, longest)
    assert [one.id for one in kept] == [pairs[0].id]
    assert [(one.id, one.reason, one.source) for one in rejects] == [("long", "too_long", "T")]


def test_what_is_learnt_from_is_encoded_by_part(encoder: ChatEncoder, pairs: list[TrainingPair]) -> None:
    parts = ("train", "validation", "test", "train", "validation")
    placed = [replace(one, part=part) for one, part in zip(pairs, parts, strict=True)]
    encoded, rejects = encode_parts(placed, encoder, 1024)
    assert {part: [one.id for one in rows] for part, rows in encoded.items()} == {
        "train": [pairs[0].id, pairs[3].id],
        "validation": [pairs[1].id, pairs[4].id],
    }
    assert not rejects
    with pytest.raises(ValueError, match="no pair of the train part has at most 16 tokens, see --length"):
        encode_parts(placed, encoder, 16)


def test_a_directory_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="has no tokenizer that transformers can read"):
        ChatEncoder(str(tmp_path))


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
def test_templates_that_cannot_be_used(
    model: str, pairs: list[TrainingPair], template: str | None, told: str, tmp_path: Path
) -> None:
    other = ChatEncoder(model).tokenizer
    other.chat_template = template
    other.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=told):
        ChatEncoder(str(tmp_path)).encode(pairs[0])


def test_a_new_adapter_changes_nothing(model: str, encoder: ChatEncoder, pairs: list[TrainingPair]) -> None:
    tuned = LoraModel(spec(model))
    row = concatenate_pairs([encoder.encode(pairs[0])])
    with torch.no_grad():
        after = float(tuned.loss(row))
        with tuned.without_adapter():
            assert float(tuned.loss(row)) == after


def test_the_loss_is_that_of_the_answer(trained: LoraModel, encoder: ChatEncoder, pairs: list[TrainingPair]) -> None:
    one = encoder.encode(pairs[0])
    with torch.no_grad():
        logits = trained.model(input_ids=torch.tensor([one.tokens])).logits[0]
        chances = torch.log_softmax(logits, dim=-1)
        told = [float(chances[at - 1, one.tokens[at]]) for at in range(one.answer_from, len(one.tokens))]
        assert float(trained.loss(concatenate_pairs([one]))) == pytest.approx(-sum(told), rel=1e-5)


def test_packed_pairs_do_not_see_each_other(
    trained: LoraModel, encoder: ChatEncoder, pairs: list[TrainingPair]
) -> None:
    rows = [encoder.encode(pair) for pair in pairs]
    with torch.no_grad():
        alone = [float(trained.loss(concatenate_pairs([row]))) for row in rows]
        assert float(trained.loss(concatenate_pairs(rows))) == pytest.approx(sum(alone), rel=1e-5)
        assert float(trained.loss(concatenate_pairs(rows[::-1]))) == pytest.approx(sum(alone), rel=1e-5)


def gradients(tuned: LoraModel, row: Any) -> Any:
    tuned.model.zero_grad()
    tuned.loss(row).backward()
    return torch.cat([one.grad.flatten() for one in tuned.parameters])


def test_frugal_gradients_are_the_same(
    model: str, trained: LoraModel, encoder: ChatEncoder, pairs: list[TrainingPair]
) -> None:
    frugal = LoraModel(spec(model), gradient_checkpointing=True)
    frugal.restore(trained.weights())
    assert frugal.model.base_model.model.model.gradient_checkpointing
    row = concatenate_pairs([encoder.encode(pair) for pair in pairs])
    torch.testing.assert_close(gradients(frugal, row), gradients(trained, row), rtol=1e-4, atol=1e-5)


def test_a_saved_adapter_is_the_same_adapter(
    model: str, trained: LoraModel, encoder: ChatEncoder, pairs: list[TrainingPair], tmp_path: Path
) -> None:
    for file in trained.save_adapter(str(tmp_path)):
        assert file.exists()
    again = LoraModel(spec(model), adapter=str(tmp_path))
    row = concatenate_pairs([encoder.encode(pairs[0])])
    with torch.no_grad():
        assert float(again.loss(row)) == float(trained.loss(row))


def test_answers_together_are_those_alone(trained: LoraModel, encoder: ChatEncoder, pairs: list[TrainingPair]) -> None:
    questions = [one.question + " please" * at for at, one in enumerate(pairs)]
    together = generate_answers(trained, encoder, questions, 12)
    assert together == [generate_answers(trained, encoder, [one], 12)[0] for one in questions]
    assert len({content_id(one) for one in together}) > 1
