"""Evidence at hand: labels of a build, an index, files of texts, and what stands in for none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.evidence.sources import open_evidence, parse_evidence, reference_evidence, with_list_leads
from fdarx_core.factuality.evidence.subjects import ClaimQuery, drug_of
from fdarx_core.records import CheckedAnswer, Chunk, Evidence, Label, Passage, content_id
from fdarx_core.retrieval.index import IndexStore
from fdarx_core.storage import RunDirectory, StorageError, write_records

TEXTS = {
    "a1": ("Zalvorin", ["Zalvorin tablets", "zalvoric acid"], ["Zalvorin may cause headache.", "Store below 25 °C."]),
    "a2": ("Zalvorin XR", ["zalvoric acid"], ["Headache is common with Zalvorin XR.", "Store  below 25 °C."]),
    "b1": ("Mirtolap", [], ["Mirtolap may cause headache and dry mouth.", "Do not take it in pregnancy."]),
}
for drug, _, texts in TEXTS.values():
    texts += [f"Tablets of {drug} are white.", f"Call us about {drug} by day.", f"{drug} comes in bottles."]


def label(set_id: str, drug: str, aliases: list[str]) -> Label:
    lists = "routes dosage_forms ndcs sections highlights substances uniis marketing_categories application_numbers"
    texts = "effective_date document_type document_type_name title labeler boxed_warning"
    blank: dict[str, Any] = dict.fromkeys(texts.split(), "") | {name: [] for name in lists.split()}
    return Label(set_id=set_id, version=1, drug_name=drug, aliases=[drug, *aliases], **blank)


def passages(set_id: str, texts: list[str]) -> list[Passage]:
    return [Passage(set_id, at, at, "", "", "", "", f"Section {at}", text) for at, text in enumerate(texts)]


def build(root: Path, *, finished: bool = True) -> Path:
    """A build's run as far as labels and passages go, each label a part."""
    run = RunDirectory.begin(str(root), job="build_benchmark", config={}, versions={})
    for number, (set_id, (drug, aliases, texts)) in enumerate(TEXTS.items()):
        write_records(run.part("labels", number), [label(set_id, drug, aliases)], Label)
        write_records(run.part("passages", number), passages(set_id, texts), Passage)
    if finished:
        run.finish({"input": {"digest": "d"}})
    run.release()
    return root


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("builds") / "three")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("indexes") / "three"
    chunks = [
        Chunk(content_id(set_id, text), set_id, drug, "labels.zip", f"Section {at}", text, at, -1, set_id, drug)
        for set_id, (drug, _, texts) in TEXTS.items()
        for at, text in enumerate(texts)
    ]
    store = IndexStore(str(place))
    store.commit([store.write_segment(chunks)], inputs={})
    return place


def found(spec: str, query: ClaimQuery, k: int = 5) -> list[Evidence]:
    [evidence] = open_evidence(spec).find([query], k)
    return evidence


def test_a_query_is_kept_to_its_own_label(run: Path) -> None:
    own, *others = found(f"labels:{run}", ClaimQuery("Headache may occur.", "", set_id="b1"))
    assert {one.set_id for one in others} <= {"b1"}
    assert (own.text, own.drug, own.set_id) == (TEXTS["b1"][2][0], "Mirtolap", "b1")
    assert (own.place, own.section, own.source) == ("PASSAGE_0000", "Section 0", "labels")


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        (ClaimQuery("Headache is seen.", "", drug="ZALVORIC acid"), {"a1", "a2"}),
        (ClaimQuery("Headache is seen.", "", drug="Zalvorin XR"), {"a2"}),
        (ClaimQuery("Headache is seen.", "What does Mirtolap do?", set_id="unknown"), {"b1"}),
        (ClaimQuery("Mirtolap gives headache.", "", drug="Unheardofin"), {"b1"}),
        (ClaimQuery("Headache is seen.", "What may happen?"), {"a1", "a2", "b1"}),
    ],
)
def test_without_a_label_of_its_own_names_decide(run: Path, query: ClaimQuery, labels: set[str]) -> None:
    assert {one.set_id for one in found(f"labels:{run}", query)} == labels


def test_all_labels_are_searched_where_all_are_asked_for(run: Path) -> None:
    everywhere = found(f"all-labels:{run}", ClaimQuery("Headache", "", set_id="b1"))
    assert {one.set_id for one in everywhere} == {"a1", "a2", "b1"}
    assert all("headache" in one.text.lower() for one in everywhere)


def test_one_text_of_several_labels_comes_once(run: Path, index: Path) -> None:
    for spec in (f"all-labels:{run}", f"index:{index}"):
        assert [one.set_id for one in found(spec, ClaimQuery("Store below 25 °C.", ""))] == ["a1"]


def test_many_queries_together_find_what_each_finds(run: Path, index: Path) -> None:
    queries = [
        ClaimQuery("Headache", "", set_id="b1"),
        ClaimQuery("storage below 25", ""),
        ClaimQuery("headache", "", drug="Zalvorin"),
        ClaimQuery("Qwxyz.", ""),
        ClaimQuery("Headache", "", set_id="b1"),
    ]
    for spec in (f"labels:{run}", f"index:{index}"):
        source = open_evidence(spec)
        assert source.find(queries, 2) == [source.find([query], 2)[0] for query in queries]
        assert source.find([], 2) == []


def test_a_passage_is_one_row_of_evidence_whoever_finds_it(run: Path) -> None:
    source = open_evidence(f"labels:{run}")
    one, other = source.find([ClaimQuery("headache", "", set_id="b1"), ClaimQuery("dry mouth", "", drug="Mirtolap")])
    assert one[0] == other[0]
    assert open_evidence(f"all-labels:{run}").find([ClaimQuery("dry mouth", "")])[0][0] == one[0]


def test_an_index_is_searched_within_label_or_drug(index: Path) -> None:
    spec = f"index:{index}"
    assert {one.set_id for one in found(spec, ClaimQuery("headache", "", set_id="a2"))} == {"a2"}
    assert {one.set_id for one in found(spec, ClaimQuery("headache", "", drug="mirtolap"))} == {"b1"}
    assert {one.set_id for one in found(spec, ClaimQuery("headache", "Is it Mirtolap?"))} == {"b1"}
    [one] = found(spec, ClaimQuery("dry mouth", "", set_id="elsewhere"))
    assert (one.source, one.title, one.section) == ("index", "Mirtolap", "Section 0")


def write(path: Path, rows: list[Any]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(f'"{value}"' for value in row.values()) for row in rows)]
        path.write_text("\n".join(lines))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_a_file_of_any_texts(tmp_path: Path, suffix: str) -> None:
    rows = [{"id": "7", "title": "Asthma", "year": "2016", "finding": "Salbutamol relieves wheezing."}, {"id": "8"}]
    rows[1] |= {"title": "Nothing", "year": "", "finding": ""}
    source = open_evidence(f"file:{write(tmp_path / f'texts{suffix}', rows)}")
    [[one]] = source.find([ClaimQuery("Wheezing is relieved by salbutamol.", "")])
    assert (one.title, one.text, one.place, one.year) == ("Asthma", "Salbutamol relieves wheezing.", "7", 2016)
    assert [reject.reason for reject in source.rejects] == ["no_text"]


PUBMEDQA = {
    "pmid": "21645374",
    "QUESTION": "Does salt raise pressure?",
    "CONTEXTS": ["Salt is eaten.", "Pressure rose by 5 mmHg."],
    "LABELS": ["BACKGROUND", "RESULTS"],
    "MESHES": ["Sodium Chloride", "Blood Pressure"],
    "YEAR": "2011",
    "final_decision": "yes",
    "LONG_ANSWER": "Salt raises pressure.",
}


def test_rows_of_pubmedqa_are_abstracts(tmp_path: Path) -> None:
    handed_out = {
        "pubid": 21645374,
        "question": PUBMEDQA["QUESTION"],
        "context": {"contexts": PUBMEDQA["CONTEXTS"], "labels": PUBMEDQA["LABELS"], "meshes": ["Sodium Chloride"]},
        "long_answer": PUBMEDQA["LONG_ANSWER"],
    }
    for row in (PUBMEDQA, handed_out):
        [one] = found(f"file:{write(tmp_path / 'rows.jsonl', [row])}", ClaimQuery("Salt", ""))
        assert one.text.split("\n") == ["Salt is eaten.", "Pressure rose by 5 mmHg.", "Salt raises pressure."]
        assert (one.title, one.place) == ("Does salt raise pressure?", "21645374")
        assert one.year == (2011 if row is PUBMEDQA else 0)


def test_bad_rows_are_told_and_cost_no_others(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    fine = json.dumps({"text": "Aspirin thins blood."})
    path.write_text(f'{fine}\nnot json\n["a list"]\n{{"text": 5}}\n{{"text": "one"}}\n{fine}\n')
    source = open_evidence(f"file:{path}")
    assert [reject.reason for reject in source.rejects] == ["not_json", "not_an_object", "no_text", "no_text"]
    assert len(source.find([ClaimQuery("aspirin", "")])[0]) == 1


@given(st.dictionaries(st.text(max_size=12), st.none() | st.text() | st.integers() | st.lists(st.text()), max_size=5))
def test_any_row_is_evidence_or_a_reject(tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any.jsonl", [row, {"text": "Quinoxaline is yellow."}])
    source = open_evidence(f"file:{path}")
    assert [one.text for one in source.find([ClaimQuery("quinoxaline", "")])[0]][-1:] == ["Quinoxaline is yellow."]
    assert len(source.rejects) <= 1


@pytest.mark.parametrize("spec", ["labels", "labels:", "PubMed:", "folder:x", "", "/some/path", "pubmed:x"])
def test_a_spec_that_names_nothing_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="labels:RUN, all-labels:RUN, index:INDEX, file:PATH or pubmed"):
        open_evidence(spec)


def test_pubmed_is_not_at_hand() -> None:
    assert parse_evidence("pubmed") == ("pubmed", "")
    with pytest.raises(ValueError, match="over the network"):
        open_evidence("pubmed")


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("{}\n")
    (tmp_path / "text.txt").write_text("x")
    for spec, said in {
        f"labels:{tmp_path}/none": "is not a run",
        f"index:{tmp_path}/none": "is not an index",
        f"file:{tmp_path}/none.jsonl": "is not there",
        f"file:{tmp_path}/text.txt": "takes a file",
        f"file:{tmp_path}/empty.jsonl": "holds no text",
        f"labels:{build(tmp_path / 'open', finished=False)}": "unfinished",
    }.items():
        with pytest.raises(StorageError, match=said):
            open_evidence(spec)


def test_identity_follows_the_content(tmp_path: Path, run: Path, index: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [{"text": "One text."}])
    before = open_evidence(f"file:{path}").identity
    assert open_evidence(f"file:{path}").identity == before
    write(path, [{"text": "Another text."}])
    assert open_evidence(f"file:{path}").identity != before
    assert open_evidence(f"labels:{run}").identity["digest"] == "d"
    assert open_evidence(f"labels:{run}").identity != open_evidence(f"all-labels:{run}").identity
    assert open_evidence(f"index:{index}").identity["retriever"] == "bm25"


def test_the_reference_stands_in_for_evidence_where_there_is_one() -> None:
    answer = CheckedAnswer("i", "q", "Is salt bad?", "Yes.", "m", references=["  ", "Salt raises pressure.", "No."])
    found = reference_evidence(answer)
    assert found is not None and (found.text, found.source) == ("Salt raises pressure.", "none")
    answer.references = []
    assert reference_evidence(answer) is None


def test_a_claim_is_searched_by_its_own_words_and_its_drug() -> None:
    query = ClaimQuery("It may cause headache.", "Which bottles does Mirtolap come in?", drug="Mirtolap")
    assert query.search_words == "cause headache Mirtolap"
    assert ClaimQuery("Mirtolap is white.", "", drug="MIRTOLAP tablets").search_words == "Mirtolap white tablets"


def test_the_question_of_a_claim_does_not_move_its_passages(run: Path) -> None:
    claim = "Headache may occur."
    plain = found(f"labels:{run}", ClaimQuery(claim, "", set_id="b1"))
    assert found(f"labels:{run}", ClaimQuery(claim, "Which bottles does it come in by day?", set_id="b1")) == plain


@pytest.mark.parametrize(
    ("query", "subject", "drug"),
    [
        (
            ClaimQuery("It is white.", "", "Mirtolap Tablets", "b1"),
            (frozenset({"b1"}), frozenset()),
            "Mirtolap Tablets",
        ),
        (ClaimQuery("Mirtolap is white.", "", "MIRTOLAP"), (frozenset({"b1"}), frozenset({"mirtolap"})), "MIRTOLAP"),
        (
            ClaimQuery("Zalvorin is red.", "", "MIRTOLAP", "b1"),
            (frozenset({"a1"}), frozenset({"zalvorin"})),
            "zalvorin",
        ),
        (ClaimQuery("It is white.", ""), (frozenset(), frozenset()), ""),
    ],
)
def test_the_drug_of_a_claim_has_one_name(
    query: ClaimQuery, subject: tuple[frozenset[str], frozenset[str]], drug: str
) -> None:
    assert drug_of(query, subject) == drug


def in_section(path: str, *texts: str) -> list[Passage]:
    return [Passage("s", at, at, "", "", "", "", path, text) for at, text in enumerate(texts)]


def test_a_passage_that_begins_within_a_list_knows_the_line_that_introduces_it() -> None:
    rows = in_section(
        "4", "Do not take it:\n- in pregnancy", "- with nitrates", "- in anuria\nStore it cold.", "- in bags"
    )
    rows += in_section("5", "- for children")
    assert [lead for _, lead in with_list_leads(rows)] == ["", "Do not take it:", "Do not take it:", "", ""]


def test_evidence_has_the_titles_above_its_text() -> None:
    one = Evidence("e", "labels", "Mirtolap", "- with nitrates", section="4 > 4.1", lead="Do not take it:")
    assert one.heading == "Mirtolap > 4 > 4.1 > Do not take it:"
    assert Evidence("e", "file", "", "A text.").heading == ""
