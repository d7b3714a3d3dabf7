"""What is evaluated, read from builds and from published files, good and bad."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdarx_core.generation.topics import find_topics
from fdarx_core.labels import find_sources, parse_document, read_document
from fdarx_core.records import NO_ANSWER, Label, Passage, QuestionAnswer, content_id
from fdarx_core.storage import Location, RunDirectory, StorageError
from fdarx_core.storage.benchmark_reader import Benchmark, BenchmarkItem, read_benchmark
from fdarx_core.storage.benchmark_writer import write_benchmark
from tests.conftest import EXAMPLES, _data
from tests.storage.test_benchmark_writer import ABOUT, Rows, build, question, rows

GOOD: dict[str, Any] = {
    "task": "factual",
    "source": "section_selfinst",
    "set_id": "label-a",
    "question": "How much Velorin is taken?",
    "answer": "40 mg",
    "drug_name": "Velorin",
    "question_type": "numeric",
    "context": [{"text": "Take 40 mg daily.", "doc_chunk_index": 3, "section_label": "2.1", "section_code": "42229-5"}],
    "qid": "q1",
    "qfilter_category": "NA",
    "qfilter_relevance": "relevant",
}
LABEL: dict[str, Any] = {
    "set_id": "label-a",
    "drug_name": "Velorin XR",
    "chunks": ["It is a drug.", "Not for children.", "Keep dry.", "Take 40 mg daily."],
}


def write(folder: Path, asked: list[Any], labels: list[Any] | None = None, name: str = "qa.jsonl") -> str:
    for file, lines in ((name, asked), ("labels.jsonl", labels)):
        if lines is not None:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            content = (one if isinstance(one, bytes) else orjson.dumps(one) for one in lines)
            (folder / file).write_bytes(b"".join(line + b"\n" for line in content))
    return str(folder)


def faults(benchmark: Benchmark) -> list[tuple[str, str, str]]:
    return [(one.id, one.reason, one.source) for one in benchmark.rejects]


def only(benchmark: Benchmark) -> BenchmarkItem:
    [one] = benchmark.items()
    return one


def topic_questions(label: Label, passages: list[Passage]) -> Iterator[QuestionAnswer]:
    """Answers of a label in one passage or several; every third is as a summary, with one passage more that does not
    hold the answer."""
    for number, (topic, answer) in enumerate(find_topics(label, passages).answers.items()):
        gold = dict.fromkeys(answer.passages, True)
        if number % 3 == 0:
            gold.setdefault((answer.passages[-1] + 1) % len(passages), False)
        yield question(
            label.set_id,
            "factual",
            1,
            source="section" if number % 3 else "highlights",
            id=content_id(label.set_id, topic.kind, topic.name),
            question=f"What does the label say of {topic.kind}: {topic.name}?",
            answer=answer.text,
            gold_passages=list(gold),
            gold_codes=[passages[index].section_code for index in gold],
            gold_has_answer=list(gold.values()),
        )


def example_rows() -> list[Rows]:
    """The example labels with a question on each topic that they answer, and one of each other type."""
    out: dict[str, Rows] = {}
    for source in find_sources([str(EXAMPLES)]).sources:
        label, passages = parse_document(read_document(source), source.name)
        if not passages:
            continue
        ends = [passages[-1].doc_chunk_index, 0]
        two = question(label.set_id, "multihop", 1, gold_passages=ends, gold_has_answer=[True, True])
        none = question(label.set_id, "refusal", 1, answer=NO_ANSWER)
        codes = [passages[index].section_code for index in two.gold_passages]
        asked = [*topic_questions(label, passages), replace(two, gold_codes=codes), none]
        out[label.set_id] = label, passages, asked
    return [out[set_id] for set_id in sorted(out)]


def finished(folder: Path, data: list[Rows]) -> RunDirectory:
    run = build(folder, data, parts=2)
    write_benchmark(run, about=ABOUT)
    run.finish({})
    return run


def carried(question: QuestionAnswer) -> QuestionAnswer:
    """What the published format has place for."""
    source = "highlights" if question.source == "highlights" else "section_selfinst"
    unasked = replace(question, task="", task_version=0, endpoint="", response_key="", judge="", verdict_keys=[])
    return replace(unasked, source=source, template="", entity="")


def test_what_we_publish_is_read_back(tmp_path: Path) -> None:
    run = finished(tmp_path, example_rows())
    own, published = (read_benchmark(str(place)) for place in (run.root, run.file("benchmark")))
    assert not own.rejects and not published.rejects
    for key in ("name", "labels", "whole_labels", "passages", "questions", "rejected"):
        assert own.about[key] == published.about[key]
    assert own.about["questions"]["factual"] > 20 and own.about["labels"] > 5
    pairs = list(zip(own.items(), published.items(), strict=True))
    for ours, theirs in pairs:
        name = ours.subject.drug_name.casefold()  # the published format has no moieties
        assert theirs.subject == replace(ours.subject, drug=name)
        assert theirs.questions == [carried(one) for one in ours.questions]
        for passage, back in zip(ours.passages, theirs.passages, strict=True):
            titled = replace(passage, section_path=passage.section_title, table_header="")
            assert back == replace(titled, core_code=back.core_code)
            if back.section_code not in ("", "42229-5") or passage.section_number:
                assert back.core_code == passage.core_code
    assert any(False in one.gold_has_answer for ours, _ in pairs for one in ours.questions)
    assert any(passage.section_title == "" or passage.section_number for ours, _ in pairs for passage in ours.passages)


def test_a_run_gives_its_own_rows_in_order_of_set_id(tmp_path: Path) -> None:
    data = rows(5)
    benchmark = read_benchmark(str(finished(tmp_path, data).root))
    found = list(benchmark.items())
    assert [one.subject.set_id for one in found] == [label.set_id for label, _, _ in data]
    assert [one.passages for one in found] == [passages for _, passages, _ in data]
    assert sorted(one.id for one in found[0].questions) == sorted(one.id for one in data[0][2])
    assert benchmark.about["questions"] == {"factual": 15, "multihop": 5, "refusal": 5}
    assert [one.subject for one in benchmark.items()] == [one.subject for one in found]


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    data = rows(2)
    other = [(label, held, [replace(asked[0], answer="9 mg"), *asked[1:]]) for label, held, asked in data]
    runs = [finished(tmp_path / str(number), one) for number, one in enumerate((data, data, other))]
    for place in ("", "benchmark"):
        first, second, third = (read_benchmark(str(run.file(place))).about["digest"] for run in runs)
        assert first == second != third


def test_the_published_questions(tmp_path: Path) -> None:
    file = _data("fdarxbench/qa_toy.jsonl")
    benchmark = read_benchmark(str(file))
    assert benchmark.rejects == []
    assert benchmark.name == "qa_toy"
    assert benchmark.about["questions"] == {"factual": 37, "multihop": 19, "refusal": 3}
    published = {row["qid"]: row for row in map(orjson.loads, file.read_bytes().splitlines())}
    seen = 0
    for one in benchmark.items():
        assert not one.subject.whole
        texts = {passage.doc_chunk_index: passage.text for passage in one.passages}
        for asked in one.questions:
            row = published[asked.id]
            seen += 1
            assert (asked.question, asked.answer, asked.type) == (row["question"], row["answer"], row["task"])
            assert [texts[index] for index in asked.gold_passages] == [entry["text"] for entry in row["context"]]
            assert asked.gold_passages == [entry["doc_chunk_index"] for entry in row["context"]]
            assert asked.gold_codes == [entry["section_code"] for entry in row["context"]]
            assert asked.gold_has_answer == [entry.get("has_answer", True) for entry in row["context"]]
            assert asked.category != "NA" and asked.relevance in ("", "relevant")
    assert seen == 59
    numbers = Counter(bool(passage.section_number) for one in benchmark.items() for passage in one.passages)
    assert numbers[True] > 60
    assert not any("\t" in passage.section_title for one in benchmark.items() for passage in one.passages)


def test_labels_of_mere_texts_in_the_layout_of_the_published_repository(tmp_path: Path) -> None:
    write(tmp_path / "data", [GOOD], name="qa/qa.jsonl")
    write(tmp_path / "data" / "labels", [], [LABEL], name="notes.txt")
    for address in ("data", "data/qa", "data/qa/qa.jsonl"):
        one = only(read_benchmark(str(tmp_path / address)))
        assert one.subject.whole and one.subject.passages == 4
        assert [passage.text for passage in one.passages] == LABEL["chunks"]
        assert (one.passages[3].section_number, one.passages[3].section_code) == ("2.1", "42229-5")
        assert one.questions[0].gold_passages == [3]
        assert one.subject.drug_name == "Velorin XR" and one.questions[0].drug_name == "Velorin"


def test_a_question_takes_id_kind_and_drug_name_where_the_row_has_none(tmp_path: Path) -> None:
    row = {key: GOOD[key] for key in ("task", "set_id", "question", "answer", "context")}
    folder = write(tmp_path, [row, {**row, "question": "And then?"}], [LABEL])
    first, second = only(read_benchmark(folder)).questions
    assert len(first.id) == len(second.id) == 16 and first.id != second.id
    assert first.answer_kind == "factual" and first.drug_name == "Velorin XR" and first.category == ""


def contexts(*entries: Any) -> list[Any]:
    return [{**GOOD, "qid": f"q{at}", "context": [entry]} for at, entry in enumerate(entries)]


def test_contexts_make_the_passages_of_a_label_without_text(tmp_path: Path) -> None:
    entries: list[Any] = [
        {"text": "Take 40 mg.", "doc_chunk_index": 3},
        {"text": "Take  40 mg.\n", "doc_chunk_index": 3},  # the same but for white space
        {"text": "Keep dry.", "doc_chunk_index": 3},  # another text in the same place
        {"text": "Keep dry.", "doc_chunk_index": None},
        {"text": "Keep dry.", "doc_chunk_index": "9"},  # the label says it twice
        {"text": "Unplaced.", "doc_chunk_index": -1},
        "Bare.",
    ]
    one = only(read_benchmark(write(tmp_path, contexts(*entries))))
    assert not one.subject.whole
    texts = {passage.doc_chunk_index: passage.text for passage in one.passages}
    assert texts[3] == "Take 40 mg." and texts[9] == "Keep dry."
    assert set(texts.values()) == {"Bare.", "Keep dry.", "Take 40 mg.", "Unplaced."}
    assert len(texts) == 5 and min(texts.keys() - {3, 9}) > 9
    for asked, entry in zip(one.questions, entries, strict=True):
        text = entry if isinstance(entry, str) else entry["text"]
        [gold] = asked.gold_passages
        assert texts[gold].split() == text.split()


def test_contexts_are_found_in_the_label_by_place_and_by_text(tmp_path: Path) -> None:
    entries = [
        {"doc_chunk_index": 3},
        {"text": "Take 40 mg daily.", "doc_chunk_index": 0},
        {"text": "Take 40 mg daily. Repeat.", "doc_chunk_index": 3},
        {"text": "Take 40 mg daily."},
    ]
    benchmark = read_benchmark(write(tmp_path, contexts(*entries), [LABEL]))
    assert [asked.gold_passages for asked in only(benchmark).questions] == [[3]] * 4
    assert benchmark.rejects == []


BAD_ROWS: list[tuple[Any, str]] = [
    (b"{ not json", "not_json"),
    (b'"\xff"', "not_utf8"),
    (b"[1, 2]", "not_an_object"),
    ({**GOOD, "qid": "x", "question": " "}, "missing_key"),
    ({**GOOD, "qid": "x", "answer": None}, "missing_key"),
    ({**GOOD, "qid": "x", "set_id": {}}, "missing_key"),
    ({**GOOD, "qid": "x", "task": "riddle"}, "unknown_task"),
    ({**GOOD, "qid": "q1", "question": "Another?"}, "duplicate_id"),
    ({**GOOD, "qid": "x", "context": []}, "no_context"),
    ({**GOOD, "qid": "x", "context": "somewhere"}, "no_context"),
    ({**GOOD, "qid": "x", "context": [{"section_code": "1"}]}, "bad_context"),
    ({**GOOD, "qid": "x", "context": [7]}, "bad_context"),
    ({**GOOD, "qid": "x", "context": [{"text": "Wholly foreign words stand here", "doc_chunk_index": 1}]}, "context_n"),
    ({**GOOD, "qid": "x", "context": [{"doc_chunk_index": 40}]}, "context_not_in_label"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_ROWS)
def test_a_bad_row_is_told_of_and_the_rest_is_read(tmp_path: Path, bad: Any, reason: str) -> None:
    benchmark = read_benchmark(write(tmp_path, [GOOD, b"", bad], [LABEL]))
    [[_, found, source]] = faults(benchmark)
    assert found.startswith(reason) and source == "qa.jsonl:3"
    assert benchmark.rejects[0].stage == "intake" and benchmark.rejects[0].detail
    assert [asked.id for asked in only(benchmark).questions] == ["q1"]
    assert benchmark.about["rejected"] == 1


def test_a_bad_label_is_told_of_and_its_questions_stay(tmp_path: Path) -> None:
    bad: list[Any] = [
        b"{",
        {"set_id": "label-b"},
        {**LABEL, "set_id": "label-b", "chunks": ["a", 7]},
        LABEL,
        {**LABEL, "drug_name": "Again"},
    ]
    benchmark = read_benchmark(write(tmp_path, [GOOD, {**GOOD, "set_id": "label-b", "qid": "q2"}], bad))
    assert faults(benchmark) == [
        ("labels.jsonl:1", "not_json", "labels.jsonl:1"),
        ("label-b", "missing_key", "labels.jsonl:2"),
        ("label-b", "bad_chunk", "labels.jsonl:3"),
        ("label-a", "duplicate_label", "labels.jsonl:5"),
    ]
    first, second = benchmark.items()
    assert (first.subject.whole, first.subject.drug_name) == (True, "Velorin XR")
    assert (second.subject.whole, len(second.questions), len(second.passages)) == (False, 1, 1)


def test_labels_without_questions_and_refusals_without_label(tmp_path: Path) -> None:
    refusal = {**GOOD, "task": "refusal", "set_id": "label-0", "qid": "r", "answer": NO_ANSWER}
    benchmark = read_benchmark(write(tmp_path, [refusal], [LABEL]))
    alone, unasked = benchmark.items()
    assert (alone.subject.whole, alone.passages, alone.questions[0].gold_passages) == (False, [], [])
    assert (unasked.subject.whole, unasked.questions, len(unasked.passages)) == (True, [], 4)


def test_the_order_of_lines_leaves_no_trace(tmp_path: Path) -> None:
    files = finished(tmp_path / "run", rows(4)).file("benchmark")
    turned = {name: (files / f"{name}.jsonl").read_bytes().splitlines()[::-1] for name in ("qa", "labels")}
    other = write(tmp_path / "turned", turned["qa"], turned["labels"])
    assert list(read_benchmark(other).items()) == list(read_benchmark(str(files)).items())


def test_what_is_no_benchmark_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "none").mkdir()
    write(tmp_path / "empty", [b"", b"  "])
    write(tmp_path / "unreadable", [b"{", b"{"])
    RunDirectory.begin(str(tmp_path / "half"), job="build_benchmark", config={}, versions={})
    RunDirectory.begin(str(tmp_path / "other"), job="evaluate", config={}, versions={}).finish({})
    build(tmp_path / "bare", [(one, held, []) for one, held, _ in rows(1)]).finish({})
    said = {
        "missing": "nothing at .*missing; give the run of a build",
        "notes.txt": "notes.txt is not a benchmark; give",
        "none": "neither run.json .* nor qa\\*.jsonl",
        "empty": "qa.jsonl is empty; give",
        "unreadable": "none of 2 rows .* qa.jsonl:1: not_json",
        "half": "unfinished build \\(running\\); finish it",
        "other": "run of evaluate, not of build_benchmark",
        "bare": "build without questions",
    }
    for name, pattern in said.items():
        with pytest.raises(StorageError, match=pattern):
            read_benchmark(str(tmp_path / name))


def test_it_reads_from_s3(tmp_path: Path, bucket: Location) -> None:
    run = finished(tmp_path, rows(3))
    for name in ("qa.jsonl", "labels.jsonl"):
        (bucket / "published" / name).write_bytes(run.file(f"benchmark/{name}").read_bytes())
    near, far = read_benchmark(f"{run.root}/benchmark"), read_benchmark(f"{bucket}/published")
    assert list(near.items()) == list(far.items())
    assert near.about["digest"] == far.about["digest"]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
ENTRY = st.dictionaries(
    st.sampled_from(["text", "doc_chunk_index", "section_label", "section_title", "has_answer"]), ANY, max_size=5
)
INDEXED = st.fixed_dictionaries({"text": st.sampled_from(["a", "b c", "d"]), "doc_chunk_index": st.integers(0, 3)})
CHUNKS = st.lists(INDEXED | ENTRY | ANY, max_size=4)
QUESTION_ROW = st.fixed_dictionaries(
    {"task": st.sampled_from(["factual", "refusal"]), "set_id": st.sampled_from(["a", "b"]), "context": CHUNKS},
    optional={"question": ANY, "answer": ANY, "qid": ANY, "drug_name": ANY, "question_type": ANY},
)
LABEL_ROW = st.fixed_dictionaries({"set_id": st.sampled_from(["a", "b"]) | ANY, "chunks": CHUNKS | ANY})


def as_line(value: Any) -> bytes:
    return json.dumps(value).encode()  # orjson writes no integers of more than 64 bits


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(QUESTION_ROW | ANY, max_size=6).map(lambda found: [*map(as_line, found)]),
    labels=st.lists(LABEL_ROW | ANY, max_size=4).map(lambda found: [*map(as_line, found)]),
    noise=st.lists(st.binary(max_size=12), max_size=2),
)
def test_any_rows_are_read_or_told_of(
    tmp_path: Path, asked: list[bytes], labels: list[bytes], noise: list[bytes]
) -> None:
    lines = [orjson.dumps(GOOD), *asked, *(one.replace(b"\n", b"") for one in noise)]
    benchmark = read_benchmark(write(tmp_path, lines, labels))
    found = [one for examined in benchmark.items() for one in examined.questions]
    told = [one for one in benchmark.rejects if one.source.startswith("qa.jsonl")]
    assert len(found) + len(told) == sum(bool(line.strip(b"\r\n\t \xef\xbb\xbf")) for line in lines)
    for examined in benchmark.items():
        held = {passage.doc_chunk_index for passage in examined.passages}
        assert len(held) == len(examined.passages) == examined.subject.passages
        for one in examined.questions:
            assert set(one.gold_passages) <= held and len(one.gold_codes) == len(one.gold_has_answer)
            assert one.type == "refusal" or one.gold_passages
