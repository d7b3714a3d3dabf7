"""Entailment by real model classes of random weights, made here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.verify import Inference, Judgement, TextPair, Unjudged
from fdarx_core.verify.cross_encoder import BatchRunner, CrossEncoder
from tests.retrieval import tiny_rerankers
from tests.verify import tiny_nli

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="not installed: pip install 'fdarx[models]'")

pytestmark = pytest.mark.models

TOLERANCE = 1e-5
CLAIMS = tiny_rerankers.passages(12, 2, seed=1)
SHORT = tiny_rerankers.passages(12, 4, seed=2)
LONG = " ".join(tiny_rerankers.passages(8, 12, seed=3))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of models this small only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=tiny_nli.KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_nli.cross_encoder(request.param, tmp_path_factory.mktemp("models") / request.param)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_nli.cross_encoder("bert", tmp_path_factory.mktemp("models") / "acme-nli")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The token ids of each input that the model reads, without padding."""
    rows: list[Any] = []
    run = BatchRunner._run

    def watched(self: BatchRunner, inputs: Any) -> Any:
        rows.extend(list(one["input_ids"]) for one in inputs)
        return run(self, inputs)

    monkeypatch.setattr(BatchRunner, "_run", watched)
    yield rows


def numbers(judgement: Judgement) -> list[float]:
    assert isinstance(judgement, Inference), judgement
    return [judgement.entailment, judgement.neutral, judgement.contradiction]


def assert_same(found: list[Judgement], expected: list[Judgement]) -> None:
    assert [(one.start, one.end) for one in found] == [(one.start, one.end) for one in expected]  # type: ignore[union-attr]
    for one, other in zip(found, expected, strict=True):
        assert numbers(one) == pytest.approx(numbers(other), abs=TOLERANCE)


def plainly(model: str, premise: str, claim: str) -> list[float]:
    """As transformers' own documentation has it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model)
    with torch.no_grad():
        found: list[float] = network(**tokenizer(premise, claim, return_tensors="pt")).logits.softmax(-1)[0].tolist()
    return found


def test_equal_to_transformers_own(model: str) -> None:
    found = CrossEncoder(model, device="cpu").infer(
        [TextPair(*texts) for texts in zip(SHORT[:4], CLAIMS, strict=False)]
    )
    expected = [plainly(model, *texts) for texts in zip(SHORT[:4], CLAIMS, strict=False)]
    assert len({round(row[0], 3) for row in expected}) > 1
    for one, row in zip(found, expected, strict=True):
        assert numbers(one) == pytest.approx(row, abs=TOLERANCE)


@pytest.mark.parametrize("batch", [1, 16])
def test_together_as_one_by_one(model: str, batch: int) -> None:
    judge = CrossEncoder(model, batch=batch, device="cpu").infer
    pairs = [TextPair(premise, claim) for premise in (*SHORT[:3], LONG) for claim in CLAIMS[:3]]
    assert_same(judge(pairs), [judge([pair])[0] for pair in pairs])


def test_order_repeats_and_the_drugs_name_change_nothing(bert: str) -> None:
    judge = CrossEncoder(bert, device="cpu").infer
    pairs = [TextPair(premise, claim, "x") for premise, claim in zip(SHORT, CLAIMS, strict=True)]
    once = judge(pairs)
    assert_same(judge([*reversed(pairs), *pairs]), [*reversed(once), *once])
    assert_same(judge([TextPair(one.premise, one.hypothesis) for one in pairs]), once)
    assert judge([]) == []


def test_no_claim_is_ever_cut(bert: str, read: list[Any]) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    claims = [*CLAIMS, " ".join(tiny_rerankers.passages(4, 6, seed=5))]
    whole = [tokenizer(claim, add_special_tokens=False)["input_ids"] for claim in claims]
    assert max(map(len, whole)) > 150
    found = CrossEncoder(bert, device="cpu").infer([TextPair(LONG, claim) for claim in claims])
    assert all(isinstance(one, Inference) for one in found)
    assert len(read) > 2 * len(claims)
    assert max(map(len, read)) <= tiny_nli.LONGEST
    for ids in read:
        at = ids.index(tokenizer.sep_token_id)
        assert ids[at + 1 : -1] in whole


def test_the_window_kept_says_most(bert: str, read: list[Any]) -> None:
    entailment = CrossEncoder(bert, device="cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    [kept] = entailment.infer([TextPair(LONG, CLAIMS[0])])
    assert isinstance(kept, Inference) and 0 < kept.end - kept.start < len(LONG)
    alone = entailment.infer([TextPair(LONG[kept.start : kept.end], CLAIMS[0])])
    assert numbers(alone[0]) == pytest.approx(numbers(kept), abs=TOLERANCE)
    shown = [tokenizer.decode(ids[1 : ids.index(tokenizer.sep_token_id)]) for ids in read[:-1]]
    every = [numbers(one) for one in entailment.infer([TextPair(text, CLAIMS[0]) for text in shown])]
    assert len(every) > 2
    assert max(kept.entailment, kept.contradiction) == pytest.approx(max(max(e, c) for e, _, c in every), abs=TOLERANCE)


def test_a_claim_is_long_only_beside_a_passage_that_does_not_fit(bert: str) -> None:
    claim = ""
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    for sentence in tiny_rerankers.passages(200, 1, seed=6):
        if len(tokenizer(f"{claim} {sentence}", add_special_tokens=False)["input_ids"]) > 500:
            break
        claim = f"{claim} {sentence}"
    fits, not_fits, far_too_long = CrossEncoder(bert, device="cpu").infer(
        [TextPair("Dose.", claim), TextPair(LONG, claim), TextPair("Dose.", claim * 2)]
    )
    assert isinstance(fits, Inference) or len(tokenizer(claim)["input_ids"]) > 505
    for one in (not_fits, far_too_long):
        assert isinstance(one, Unjudged) and one.reason.startswith("claim_too_long: ") and "reads 512" in one.reason


def test_without_words_there_is_no_judgement(bert: str) -> None:
    pairs = [TextPair(" ", CLAIMS[0]), TextPair(SHORT[0], ""), TextPair(SHORT[0], CLAIMS[0])]
    *empty, judged = CrossEncoder(bert, device="cpu").infer(pairs)
    reasons = [one.reason for one in empty if isinstance(one, Unjudged)]
    assert reasons == ["no_text: the passage has no word", "no_text: the claim has no word"]
    assert isinstance(judged, Inference)


def with_memory_for(monkeypatch: pytest.MonkeyPatch, rows: int) -> list[int]:
    """A model that runs out of memory beyond so many rows; the sizes of the batches it was given."""
    sizes: list[int] = []
    forward = transformers.BertForSequenceClassification.forward

    def limited(self: Any, input_ids: Any, **more: Any) -> Any:
        sizes.append(len(input_ids))
        if len(input_ids) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, input_ids=input_ids, **more)

    monkeypatch.setattr(transformers.BertForSequenceClassification, "forward", limited)
    return sizes


def test_where_memory_is_short_batches_are_halved(bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [TextPair(premise, claim) for premise in SHORT[:6] for claim in CLAIMS[:6]]
    expected = CrossEncoder(bert, device="cpu").infer(pairs)
    sizes = with_memory_for(monkeypatch, 5)
    entailment = CrossEncoder(bert, device="cpu")
    assert_same(entailment.infer(pairs), expected)
    sizes.clear()
    entailment.infer(pairs)
    assert max(sizes) < 16


def test_a_pair_that_no_memory_holds_is_unjudged(bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory_for(monkeypatch, 0)
    found = CrossEncoder(bert, device="cpu").infer([TextPair(SHORT[0], CLAIMS[0]), TextPair(SHORT[1], CLAIMS[1])])
    assert [isinstance(one, Unjudged) and one.reason.split(":")[0] for one in found] == ["out_of_memory"] * 2


def test_outputs_are_read_by_their_names(bert: str, tmp_path: Path) -> None:
    pairs, names = [TextPair(SHORT[0], CLAIMS[0])], ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]
    [plain] = CrossEncoder(bert, device="cpu").infer(pairs)
    [turned] = CrossEncoder(renamed(bert, tmp_path / "turned", names), device="cpu").infer(pairs)
    assert numbers(turned) == pytest.approx(numbers(plain)[::-1], abs=TOLERANCE)
    unnamed = renamed(bert, tmp_path / "unnamed", ["LABEL_0", "LABEL_1", "LABEL_2"])
    [ordered] = CrossEncoder(unnamed, labels=[name.lower() for name in names], device="cpu").infer(pairs)
    assert numbers(ordered) == pytest.approx(numbers(turned), abs=TOLERANCE)


def renamed(model: str, folder: Path, names: list[str]) -> str:
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(number): name for number, name in enumerate(names)}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_two_outputs_never_contradict(tmp_path: Path) -> None:
    model = tiny_nli.cross_encoder("bert", tmp_path / "two", ["entailment", "not_entailment"])
    for one in CrossEncoder(model, device="cpu").infer([TextPair(LONG, claim) for claim in CLAIMS]):
        entailment, neutral, contradiction = numbers(one)
        assert contradiction == 0 and entailment + neutral == pytest.approx(1)


def test_named_by_its_directory(bert: str) -> None:
    assert CrossEncoder(bert + "/", device="cpu").name == "acme-nli"


def test_a_model_may_not_support_a_number_that_the_text_lacks(bert: str) -> None:
    pairs = [TextPair(text, f"{claim} Take 77 mg.") for text in SHORT for claim in CLAIMS]
    supporting = 0
    for order in permutations(tiny_nli.LABELS):
        encoder = CrossEncoder(bert, labels=order, device="cpu")
        for own, checked in zip(encoder.infer(pairs), encoder.judge(pairs), strict=True):
            assert isinstance(own, Inference) and isinstance(checked, Inference)
            if own.entailment > max(own.contradiction, 0.34):
                supporting += 1
                assert checked.entailment < 0.34 and "is not in the text" in checked.reason
            elif own.entailment < 0.33 or own.contradiction > own.entailment:
                assert checked == own
    assert supporting
