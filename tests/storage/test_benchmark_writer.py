from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from fdarx_core.records import NO_ANSWER, Label, Passage, QuestionAnswer, Section, content_id
from fdarx_core.storage import Location, RunDirectory, StorageError, read_table, write_records
from fdarx_core.storage.benchmark_writer import write_benchmark

ABOUT: dict[str, Any] = {
    "config": {"seed": 7, "sample": None, "labels": ["/home/someone/labels.zip"]},
    "versions": {"fdarx": "0.1.0"},
    "stages": [{"stage": "rules", "rows_in": 40, "kept": 35, "rejected": 5, "rows_out": 35}],
    "input": {"digest": "abc"},
    "started": "2026-11-21T10:00:00+00:00",
    "timings": {"build": 12.5},
}
CONFIGS = ("factual", "multihop", "refusal", "labels", "passages")
DEV = "00000001-aaaa"
"""The second label of `rows`, which `SPLIT` puts into the dev split."""
SPLIT: dict[str, Any] = {**ABOUT, "splits": {"dev_labels": [DEV], "dev_drugs": 1, "note": "", "questions": {}}}
FILES = (
    "README.md",
    *(f"{config}/{split}.parquet" for config in CONFIGS for split in ("test", "dev")),
    *("qa.jsonl", "labels.jsonl", "qa_dev.jsonl", "labels_dev.jsonl"),
)
"""The files of a benchmark with rows of each type in both splits."""
PUBLISHED = Path(os.environ.get("FDARX_DATA", "../shared/data")) / "fdarxbench" / "qa_toy.jsonl"
SECTIONS = [
    Section("34068-7", "34068-7", "2", "DOSAGE", "DOSAGE", 0),
    Section("42229-5", "34068-7", "2.1", "Adults", "DOSAGE > Adults", 1),
    Section("34069-5", "34069-5", "", "HOW SUPPLIED", "HOW SUPPLIED", 0),
    Section("42229-5", "34069-5", "", "", "HOW SUPPLIED", 1),
]

Rows = tuple[Label, list[Passage], list[QuestionAnswer]]


def label(set_id: str) -> Label:
    return Label(
        set_id=set_id,
        version=1,
        effective_date="2024-01-01",
        document_type="34391-3",
        document_type_name="",
        title="",
        drug_name="Velorin XR",
        aliases=["Velorin XR"],
        substances=[],
        uniis=[],
        routes=[],
        dosage_forms=[],
        labeler="",
        ndcs=[],
        marketing_categories=[],
        application_numbers=[],
        boxed_warning="",
        sections=SECTIONS,
        highlights=[],
    )


def passages(set_id: str) -> list[Passage]:
    def one(index: int, within: int, section: Section) -> Passage:
        place = (section.code, section.core_code, section.number, section.title, section.path)
        return Passage(set_id, index, within, *place, text=f"Text {index} of {set_id}: 40 mg, 20 °C.")

    return [one(0, 0, SECTIONS[1]), one(1, 1, SECTIONS[1]), one(2, 0, SECTIONS[2]), one(3, 0, SECTIONS[3])]


def question(set_id: str, kind: str, number: int, **fields: Any) -> QuestionAnswer:
    text = f"{kind} question {number} on Velorin XR?"
    row = QuestionAnswer(
        id=content_id(set_id, text),
        type=kind,
        answer_kind=kind,
        source="section",
        category="Dosage & Administration",
        set_id=set_id,
        drug_name="Velorin XR",
        question=text,
        answer="40 mg",
        endpoint="baseline",
    )
    return replace(row, **fields)


def questions(set_id: str) -> list[QuestionAnswer]:
    return [
        question(set_id, "refusal", 1, answer=NO_ANSWER, entity="gout", source="twin", difficulty="table"),
        question(set_id, "factual", 1, gold_passages=[1], answer_kind="numeric", gold_has_answer=[True]),
        question(set_id, "factual", 2, gold_passages=[2], answer_kind="list", category="", gold_has_answer=[True]),
        question(
            set_id, "factual", 3, gold_passages=[0, 1], source="highlights", gold_has_answer=[True, False], endpoint=""
        ),
        question(set_id, "multihop", 1, gold_passages=[3, 0], source="section_pair", gold_has_answer=[True, True]),
    ]


def rows(count: int, copies: int = 1) -> list[Rows]:
    def one(set_id: str) -> Rows:
        more = [question(set_id, "factual", 100 + at, gold_passages=[0]) for at in range(copies - 1)]
        return label(set_id), passages(set_id), questions(set_id) + more

    return [one(f"{at:08d}-aaaa") for at in range(count)]


def build(folder: Path, data: list[Rows], parts: int = 1) -> RunDirectory:
    run = RunDirectory.begin(str(folder), job="build_benchmark", config={}, versions={})
    size = -(-len(data) // parts) or 1
    for number in range(parts):
        held = data[number * size : (number + 1) * size]
        write_records(run.part("labels", number), [one[0] for one in held], Label)
        write_records(run.part("passages", number), [row for one in held for row in one[1]], Passage)
        write_records(run.part("questions", number), [row for one in held for row in one[2]], QuestionAnswer)
    return run


def lines(location: Location) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in location.read_bytes().splitlines()]


def test_counts_and_order(tmp_path: Path) -> None:
    run = build(tmp_path, rows(3))
    assert write_benchmark(run, about=ABOUT) == {"factual": 9, "multihop": 3, "refusal": 3}
    asked = lines(run.file("benchmark/qa.jsonl"))
    order = [(row["set_id"], row["task"], row["qid"]) for row in asked]
    assert order == sorted(order)
    assert len(order) == 15
    assert [row["set_id"] for row in lines(run.file("benchmark/labels.jsonl"))] == sorted({one[0] for one in order})


def test_parts_leave_no_trace(tmp_path: Path) -> None:
    data = rows(13, copies=200)
    whole, cut = build(tmp_path / "whole", data), build(tmp_path / "cut", data, parts=5)
    assert write_benchmark(whole, about=SPLIT) == write_benchmark(cut, about=SPLIT)
    for name in FILES:
        assert whole.file(f"benchmark/{name}").read_bytes() == cut.file(f"benchmark/{name}").read_bytes(), name


def test_questions_in_any_order_make_the_same_files(tmp_path: Path) -> None:
    data = rows(2)
    turned = [(one, held[::-1], asked[::-1]) for one, held, asked in data]
    first, second = build(tmp_path / "first", data), build(tmp_path / "second", turned)
    for run in (first, second):
        write_benchmark(run, about=SPLIT)
    for name in FILES:
        assert first.file(f"benchmark/{name}").read_bytes() == second.file(f"benchmark/{name}").read_bytes(), name


def test_parquet_has_gold_texts(tmp_path: Path) -> None:
    run = build(tmp_path, rows(1))
    write_benchmark(run, about=ABOUT)
    [row] = read_table(run.file("benchmark/multihop/test.parquet")).to_pylist()
    assert row["gold_passages"] == [3, 0]
    assert row["gold_texts"] == ["Text 3 of 00000000-aaaa: 40 mg, 20 °C.", "Text 0 of 00000000-aaaa: 40 mg, 20 °C."]
    assert row["gold_titles"] == ["untitled", "2.1 Adults"]


def test_published_rows(tmp_path: Path) -> None:
    run = build(tmp_path, rows(1))
    write_benchmark(run, about=ABOUT)
    by_kind = {(row["source"], row["question_type"]): row for row in lines(run.file("benchmark/qa.jsonl"))}
    numeric, listed = by_kind["section_selfinst", "numeric"], by_kind["section_selfinst", "list"]
    summary, two = by_kind["highlights", "factual"], by_kind["section_selfinst", "multihop"]
    assert (numeric["references"], numeric["citations"]) == (["2.1 Adults"], ["2.1"])
    assert numeric["context"][0]["doc_id"] == "velorin_xr:2.1:1"
    assert (listed["references"], listed["citations"], listed["qfilter_category"]) == (["HOW SUPPLIED"], [""], "NA")
    assert listed["context"][0]["section_label"] is None
    assert (summary["references"], summary["citations"]) == ("2 DOSAGE", ["2.1"])
    assert [one["has_answer"] for one in summary["context"]] == [True, False]
    assert two["citations"] == [None, "2.1"]
    assert two["context"][0]["doc_id"] == "velorin_xr:None:3"
    refusal = by_kind["section_selfinst", "refusal"]
    assert (refusal["answer"], refusal["references"], refusal["context"]) == (NO_ANSWER, [], [])


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, shape(one)) for key, one in value.items())
    return type(value).__name__


def shapes(published: list[dict[str, Any]]) -> set[Any]:
    """The key order and types of rows, and of each entry of their context, by source and type of question."""
    found = set()
    for row in published:
        kind = (row["source"], row["task"])
        found.add((kind, shape(row)))
        found |= {(kind, shape(one)) for one in row["context"]}
    return found


def test_keys_and_types_are_those_of_the_published_questions(tmp_path: Path) -> None:
    if not PUBLISHED.exists():
        pytest.skip(f"no {PUBLISHED}; set FDARX_DATA")
    run = build(tmp_path, rows(1))
    write_benchmark(run, about=ABOUT)
    ours = shapes(lines(run.file("benchmark/qa.jsonl")))
    assert ours <= shapes([orjson.loads(line) for line in PUBLISHED.read_bytes().splitlines()])


def test_a_label_is_marked_up_passage_by_passage(tmp_path: Path) -> None:
    run = build(tmp_path, rows(1))
    write_benchmark(run, about=ABOUT)
    [row] = lines(run.file("benchmark/labels.jsonl"))
    assert list(row) == ["set_id", "drug_name", "label_raw", "chunks"]
    text = "Text {} of 00000000-aaaa: 40 mg, 20 °C."
    assert row["label_raw"].split("\n") == [
        "2 DOSAGE",
        "2.1 Adults",
        "||PASSAGE_0000||",
        text.format(0),
        "||PASSAGE_0001||",
        text.format(1),
        "HOW SUPPLIED",
        "||PASSAGE_0002||",
        text.format(2),
        "||PASSAGE_0003||",
        text.format(3),
    ]
    keys = ["doc_chunk_index", "section_label", "section_title", "section_code", "section_chunk_index", "text"]
    assert [list(one) for one in row["chunks"]] == [keys] * 4
    assert [one["doc_chunk_index"] for one in row["chunks"]] == [0, 1, 2, 3]


def test_labels_without_questions_stay(tmp_path: Path) -> None:
    data: list[Rows] = [(one, [], []) for one, _, _ in rows(2)]
    run = build(tmp_path, data)
    assert write_benchmark(run, about={}) == {"factual": 0, "multihop": 0, "refusal": 0}
    assert [row["chunks"] for row in lines(run.file("benchmark/labels.jsonl"))] == [[], []]


def test_the_files_of_a_split_have_its_labels(tmp_path: Path) -> None:
    run = build(tmp_path, rows(3))
    assert write_benchmark(run, about=SPLIT) == {"factual": 9, "multihop": 3, "refusal": 3}
    others = {"00000000-aaaa", "00000002-aaaa"}
    for split, wanted, suffix in (("test", others, ""), ("dev", {DEV}, "_dev")):
        for config in CONFIGS:
            table = read_table(run.file(f"benchmark/{config}/{split}.parquet"))
            assert set(table["set_id"].to_pylist()) == wanted, config
        for kind in ("qa", "labels"):
            assert {row["set_id"] for row in lines(run.file(f"benchmark/{kind}{suffix}.jsonl"))} == wanted


def test_labels_have_their_text_and_not_the_path_of_their_file(tmp_path: Path) -> None:
    data = [(replace(one, source="/home/someone/label.xml"), held, asked) for one, held, asked in rows(1)]
    run = build(tmp_path, data)
    write_benchmark(run, about=ABOUT)
    [row] = read_table(run.file("benchmark/labels/test.parquet")).to_pylist()
    assert row["text"] == lines(run.file("benchmark/labels.jsonl"))[0]["label_raw"]
    assert row["sections"][0]["title"] == "DOSAGE"
    assert "source" not in row and "/home/someone" not in str(row)
    assert read_table(run.file("benchmark/passages/test.parquet")).num_rows == 4


@pytest.mark.parametrize("split", ["test", "dev"])
@pytest.mark.parametrize("config", CONFIGS)
def test_every_configuration_and_split_loads_offline(
    tmp_path: Path, config: str, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    run = build(tmp_path / "run", rows(3))
    write_benchmark(run, about=SPLIT)
    loaded = datasets.load_dataset(str(run.file("benchmark")), config, split=split, cache_dir=str(tmp_path / "cache"))
    file = read_table(run.file(f"benchmark/{config}/{split}.parquet"))
    assert loaded.num_rows == file.num_rows > 0
    assert loaded.to_list() == file.to_pylist()


def test_the_card_lists_the_columns_and_rows_of_each_file(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    run = build(tmp_path, rows(3))
    write_benchmark(run, about=SPLIT)
    header = yaml.safe_load(run.file("benchmark/README.md").read_text().split("---\n")[1])
    assert [one["config_name"] for one in header["dataset_info"]] == list(CONFIGS)
    for one in header["dataset_info"]:
        table = read_table(run.file(f"benchmark/{one['config_name']}/test.parquet"))
        assert one["features"] == datasets.Features.from_arrow_schema(table.schema)._to_yaml_list()
        assert one["splits"][0]["num_examples"] == table.num_rows


def test_a_type_without_questions_has_no_file_and_no_configuration(tmp_path: Path) -> None:
    one, held, asked = rows(1)[0]
    run = build(tmp_path / "run", [(one, held, [row for row in asked if row.type != "refusal"])])
    assert write_benchmark(run, about=ABOUT)["refusal"] == 0
    assert not run.file("benchmark/refusal/test.parquet").exists()
    header = yaml.safe_load(run.file("benchmark/README.md").read_text().split("---\n")[1])
    assert [config["config_name"] for config in header["configs"]] == ["factual", "multihop", "labels", "passages"]


def card_of(folder: Path, data: list[Rows]) -> str:
    run = build(folder, data)
    write_benchmark(run, about=ABOUT)
    return run.file("benchmark/README.md").read_text()


def test_the_card_counts_near_misses_and_what_is_known_without_the_label(tmp_path: Path) -> None:
    plain = card_of(tmp_path / "plain", rows(2))
    assert "near misses" not in plain and "known_without_label`)" not in plain
    tagged = rows(2)
    for _, _, asked in tagged:
        asked[0].attribute, asked[1].known_without_label = "rate", True
    card = card_of(tmp_path / "tagged", tagged)
    assert "2 refusal questions are near misses" in card
    assert "were answered rightly in the round trip without any passage" in card


def test_the_card_says_how_it_was_made_and_holds_no_time_or_path(tmp_path: Path) -> None:
    run = build(tmp_path, rows(1))
    write_benchmark(run, about=ABOUT)
    card = run.file("benchmark/README.md").read_text()
    header = yaml.safe_load(card.split("---\n")[1])
    assert [one["config_name"] for one in header["configs"]] == list(CONFIGS)
    assert (header["license"], header["license_name"]) == ("other", "dailymed-spl")
    for said in (
        "| seed | 7 |",
        "fdarx 0.1.0",
        "abc",
        "No language model took part",
        "| rules | 40 | 5 |",
        "@misc{fdarxbench",
    ):
        assert said in card
    for unsaid in ("2026-11", "12.5", "/home", str(tmp_path)):
        assert unsaid not in card


def test_the_card_names_a_model(tmp_path: Path) -> None:
    one, held, asked = rows(1)[0]
    run = build(tmp_path, [(one, held, [replace(row, endpoint="some-model") for row in asked])])
    write_benchmark(run, about=ABOUT)
    card = run.file("benchmark/README.md").read_text()
    assert "some-model" in card
    assert "No language model" not in card


@pytest.mark.parametrize("role", ["generator", "reader", "judge"])
def test_the_card_names_a_model_that_left_no_question(tmp_path: Path, role: str) -> None:
    rules = dict.fromkeys(("generator", "reader", "judge"), "baseline")
    config = {**rules, role: {"name": "strict-model", "max_tokens": 9}}
    run = build(tmp_path, [(rows(1)[0][0], [], [])])
    write_benchmark(run, about={"config": config})
    card = run.file("benchmark/README.md").read_text()
    assert "| asked | baseline, strict-model |" in card
    assert "No language model" not in card


def test_misfits_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    one, held, asked = rows(1)[0]
    other = question("00000000-bbbb", "factual", 1)
    misfits: dict[str, tuple[list[Rows], str]] = {
        "orphan": ([(one, held, [*asked, other])], "00000000-bbbb"),
        "early orphan": ([(one, held, [replace(other, set_id="0"), *asked])], "questions of 0"),
        "order": (rows(2)[::-1], "stands after"),
        "twice": ([*rows(1), *rows(1)], "stands after"),
        "no such passage": ([(one, held[:1], asked)], "passage 1"),
    }
    for name, (data, said) in misfits.items():
        run = build(tmp_path / name, data)
        with pytest.raises(StorageError, match=said):
            write_benchmark(run, about=ABOUT)
        assert run.file("benchmark").is_empty()
