"""The page as a reader's browser gets it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from fdarx_core.filters import round_trip
from fdarx_core.records import Label, Passage, QuestionAnswer, Reject, StageCount, to_table
from fdarx_core.report import build_report
from fdarx_core.report.build_page import coverage, length_bars, quantile, topics
from fdarx_core.report.question_figures import ANY_TYPE, BuildCounts
from fdarx_core.report.retention import (
    Dropped,
    SankeyDiagram,
    check_accounts,
    draw_flow,
    label_lines,
    lay_out,
    split_stages,
    why_rejected,
)
from fdarx_core.report.samples import RunPart, SeededSample
from fdarx_core.storage import RunDirectory, read_records, write_records
from tests.report.synthetic_run import SyntheticRun, make_label, make_run

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> & "dose" < 5 mg\''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_run(tmp_path_factory.mktemp("report") / "run", labels=60, parts=3)


@pytest.fixture(scope="module")
def page(run: RunDirectory) -> str:
    return build_report(run)


def parsed(page: str) -> Any:
    return lxml_html.document_fromstring(page)


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_page_is_whole_and_has_its_parts(page: str) -> None:
    tree = parsed(page)
    assert page.lstrip().startswith("<!doctype html>")
    assert tree.get("lang") == "en"
    assert [heading.text_content() for heading in tree.iter("h2")] == [
        "Sample questions", "Retention", "Rejects", "Questions", "Labels and passages", "The run",
    ]  # fmt: skip
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = {link.get("href") for link in tree.iter("a")}
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert {link.partition("#")[0] for link in links} == {"", "questions.html"}


def test_page_loads_nothing(page: str) -> None:
    tree = parsed(page)
    assert [element.tag for element in tree.iter() if element.get("src")] == []
    assert [element.tag for element in tree.iter() if element.get("href") and element.tag != "a"] == []
    assert not list(tree.iter("link", "iframe", "object", "embed"))
    style = next(tree.iter("style")).text_content()
    assert "url(" not in style and "@import" not in style
    assert "default-src 'none'" in page


def test_page_is_small(page: str) -> None:
    assert len(page) < 2**20


def test_headline_equals_the_run(run: RunDirectory, page: str) -> None:
    total = sum(run.info()["questions"].values())
    title = parsed(page).findtext(".//title") or ""
    assert title.startswith(f"{total:,} questions from ")


def test_the_first_words_say_who_wrote_and_who_judged(page: str, run: RunDirectory) -> None:
    said = parsed(page).find_class("result")[0].text_content()
    kinds = run.info()["questions"]
    assert said.startswith(
        f"This build has {kinds['factual']:,} factual, {kinds['multihop']:,} multi-hop and {kinds['refusal']:,} refusal"
    )
    assert said.endswith("It is not recorded who wrote and judged these questions.")


def test_samples_show_gold_passages(page: str, run: RunDirectory) -> None:
    samples = parsed(page).find_class("sample")
    texts = {passage.text for part in run.parts("passages") for passage in read_records(part, Passage)}
    assert len(samples) == 60
    shown = [text.text_content() for sample in samples for text in sample.find_class("text")]
    assert len(shown) == 20 * 1 + 20 * 2
    assert set(shown) <= texts


def test_rejects_have_at_most_three_examples_each(page: str) -> None:
    groups = parsed(page).find_class("reason")
    assert groups
    assert all(1 <= len(group.findall(".//li")) <= 3 for group in groups)


def test_reasons_of_the_round_trip_are_explained(page: str) -> None:
    notes = {
        group.findtext("summary/span").strip(): group.findtext("summary/span/span")
        for group in parsed(page).find_class("reason")
    }  # fmt: skip
    assert "more than the gold answer has" in (notes["incomplete gold"] or "")
    assert "not counted as bad" in (notes["unscored undecided"] or "")
    assert not notes["twice"]
    assert why_rejected("support", "unsupported") == why_rejected("quality", "unanswerable") == ""


def test_every_outcome_of_the_round_trip_has_an_explanation() -> None:
    reasons = {*round_trip._DROPS.values(), "unanswerable", "answer_in_label"}
    assert [reason for reason in reasons if not why_rejected(round_trip.STAGE, reason)] == []


def test_a_sample_links_to_its_twin(page: str, run: RunDirectory) -> None:
    twins = {one.twin for part in run.parts("questions") for one in read_records(part, QuestionAnswer) if one.twin}
    linked = {link.get("href").partition("#")[2] for link in parsed(page).iter("a") if link.text == "its twin"}
    assert len(linked) == 20 and linked <= twins


def test_same_run_gives_the_same_page(page: str, run: RunDirectory) -> None:
    assert build_report(run) == page


def test_text_from_labels_is_escaped(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    made.write_part(0, 12)
    poison(made.run)
    page = build_report(made.finish())
    assert "<img src=x" not in page
    assert "</script><script>alert" not in page
    assert "alert(1)" in without_scripts(page), "the text itself is to be read"
    assert not parsed(page).xpath("//img | //*[@onerror]")


def poison(run: RunDirectory) -> None:
    """Puts markup wherever text of a label, a file name or a model can come to stand."""
    for folder in ("candidates", "questions"):
        rewrite(run, folder, QuestionAnswer, question=HOSTILE, answer=HOSTILE, drug_name=HOSTILE, category=HOSTILE)
    rewrite(run, "passages", Passage, text=HOSTILE, section_path=HOSTILE, core_code=HOSTILE)
    rewrite(run, "rejects", Reject, reason=HOSTILE, detail=HOSTILE, source=HOSTILE, set_id=HOSTILE)


def rewrite(run: RunDirectory, folder: str, record: type, **fields: str) -> None:
    for part in run.parts(folder):
        rows: list[Any] = list(read_records(part, record))
        write_records(part, [replace(row, **fields) for row in rows], record)


def test_page_can_be_made_before_the_run_is_finished(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    made.write_part(0, 12)
    assert "Sample questions" in build_report(made.run, made.summary())


def test_a_run_with_nothing_selected_still_has_a_page(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    page = build_report(made.run, made.summary())
    assert "0 questions from 0 drug labels" in page
    assert "Nothing was rejected." in page


def test_counts_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    made = SyntheticRun(tmp_path / "run")
    made.write_part(0, 12)
    summary = made.summary()
    at = [stage["stage"] for stage in summary["stages"]].index("rules")
    summary["stages"][at] = asdict(StageCount("rules", 10, 10, 0, 10))
    with pytest.raises(ValueError, match="stage rules"):
        build_report(made.run, json.loads(json.dumps(summary)))


USE, DOSE, RISK = "34067-9", "34068-7", "43685-7"


def passage(set_id: str, index: int, code: str, text: str) -> Passage:
    return Passage(set_id, index, 0, "42229-5", code, "", "", "", text)


def question(name: str, kind: str, source: str, category: str, set_id: str, gold: list[int]) -> QuestionAnswer:
    return QuestionAnswer(name, kind, kind, source, category, set_id, "Abacorin", f"{name}?", "Yes.", gold)


def two_labels() -> RunPart:
    """Label a has all three sections and five candidates, of which three stay; label b has one and no question."""
    candidates = [
        question("q1", "factual", "section", "Indications & Usage", "a", [0]),
        question("q2", "factual", "section", "Dosage & Administration", "a", [1, 2]),
        question("q3", "multihop", "section_pair", "Dosage & Administration", "a", [1, 3]),
        question("q4", "factual", "section", "Drug Interactions", "a", [3]),
        question("q5", "refusal", "twin", "Drug Interactions", "a", []),
    ]
    passages = [
        passage("a", 0, USE, "for pain"),
        passage("a", 1, DOSE, "one tablet daily"),
        passage("a", 2, DOSE, "two  tablets\nat most"),
        passage("a", 3, RISK, "may bleed"),
        passage("b", 0, USE, "for fever"),
    ]
    rejects = [
        Reject("bad.xml", "read", "not_xml"),
        Reject("q4", "rules", "answer_too_short"),
        Reject("q5", "duplicates", "near_duplicate"),
    ]
    return {
        "labels": to_table([make_label("a", "Abacorin"), make_label("b", "Benzolex")], Label),
        "passages": to_table(passages, Passage),
        "candidates": to_table(candidates, QuestionAnswer),
        "questions": to_table(candidates[:3], QuestionAnswer),
        "rejects": to_table(rejects, Reject),
    }


def counted(*parts: RunPart) -> BuildCounts:
    counts = BuildCounts()
    for part in parts:
        counts.add(part)
    return counts


def test_counts_equal_a_hand_count() -> None:
    counts = counted(two_labels())
    assert (counts.labels, counts.passages) == (2, 5)
    assert counts.candidates == {"factual": 3, "multihop": 1, "refusal": 1}
    assert counts.questions["factual", "Dosage & Administration"] == 1
    assert counts.questions.total() == 3
    assert counts.passage_words == {2: 3, 3: 1, 4: 1}
    assert counts.questions_per_label == {3: 1, 0: 1}


def test_rejects_carry_the_type_of_their_candidate() -> None:
    assert counted(two_labels()).dropped == {
        ("read", "not_xml", ""): 1,
        ("rules", "answer_too_short", "factual"): 1,
        ("duplicates", "near_duplicate", "refusal"): 1,
    }


def test_coverage_counts_labels_not_questions() -> None:
    counts = counted(two_labels())
    assert counts.sections == {USE: 2, DOSE: 1, RISK: 1}
    assert counts.asked_labels == {
        (USE, "factual"): 1, (DOSE, "factual"): 1, (DOSE, "multihop"): 1, (RISK, "multihop"): 1,
        (USE, ANY_TYPE): 1, (DOSE, ANY_TYPE): 1, (RISK, ANY_TYPE): 1,
    }  # fmt: skip
    name, shares = coverage(counts).rows[0]
    assert name == "Indications and usage"
    assert [(one.value, one.rows) for one in shares if one] == [(0.5, 2), (0.0, 2), (0.5, 2)]


def test_parts_add_up() -> None:
    once, twice = counted(two_labels()), counted(two_labels(), two_labels())
    assert twice.passages == 2 * once.passages
    assert twice.asked_labels == once.asked_labels + once.asked_labels
    assert twice.dropped == once.dropped + once.dropped


def test_topic_bars_hold_every_question() -> None:
    counts = counted(two_labels())
    shown = [mark[-1] for mark in topics(counts).figure.marks if mark[0] == "bar"]
    assert sum(int(hover.split()[-2]) for hover in shown) == counts.questions.total()


@given(st.dictionaries(st.integers(0, 5000), st.integers(1, 50), min_size=1))
def test_histogram_holds_every_row(lengths: dict[int, int]) -> None:
    marks = length_bars("passages", Counter(lengths), "words", "passages").figure.marks
    rows = [int(mark[-1].split()[-2].replace(",", "")) for mark in marks if mark[0] == "bar"]
    assert sum(rows) == sum(lengths.values())
    assert len(rows) <= 32


@given(st.lists(st.integers(0, 100), min_size=1), st.floats(0.01, 1))
def test_quantile_leaves_at_most_its_share_below(values: list[int], share: float) -> None:
    found = quantile(Counter(values), share)
    assert sum(value < found for value in values) < share * len(values) + 1e-9
    assert found in values


@given(st.lists(st.text(), unique=True), st.randoms())
def test_samples_do_not_depend_on_order(ids: list[str], random: st.DataObject) -> None:
    shuffled = list(ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = SeededSample[str](3, seed=1), SeededSample[str](3, seed=1)
    for row_id, other in zip(ids, shuffled, strict=True):
        first.offer("all", row_id, lambda row_id=row_id: row_id)  # type: ignore[misc]
        second.offer("all", other, lambda other=other: other)  # type: ignore[misc]
    assert first.of("all") == second.of("all")
    assert len(first.of("all")) == min(3, len(ids))


STAGES = ("rules", "duplicates")
Case = tuple[list[StageCount], dict[str, int], Dropped]
TYPES = ("factual", "multihop", "refusal")


@st.composite
def accounts(draw: st.DrawFn) -> Case:
    """Stages, by_type and rejects that agree with each other."""
    by_type = {kind: draw(st.integers(0, 5000)) for kind in TYPES}
    left, dropped, stages = dict(by_type), Counter[tuple[str, str, str]](), []
    for stage in STAGES:
        rows_in = sum(left.values())
        for number in range(draw(st.integers(0, 8))):
            for kind in TYPES:
                rows = draw(st.integers(0, left[kind]))
                left[kind] -= rows
                dropped[stage, f"reason_{number}", kind] += rows
        kept = sum(left.values())
        stages.append(StageCount(stage, rows_in, kept, rows_in - kept, kept))
    return stages, by_type, +dropped


@given(accounts())
def test_every_stage_keeps_and_rejects_what_its_counts_say(case: Case) -> None:
    stages, by_type, dropped = case
    check_accounts(stages, dropped)
    flow = draw_flow(stages, by_type, dropped, "Candidates")
    for column, stage in enumerate(stages, start=2):
        rows: Counter[str] = Counter()
        for _, target, moved in flow.links:
            if flow.nodes[target].column == column:
                rows[flow.nodes[target].kind] += moved
        assert (rows["kept"], rows["rejected"]) == (stage.kept, stage.rejected)


@given(accounts())
def test_no_node_gains_or_loses_rows(case: Case) -> None:
    stages, by_type, dropped = case
    flow = draw_flow(stages, by_type, dropped, "Candidates")
    came, went = _through(flow)
    last = max(node.column for node in flow.nodes)
    for at, node in enumerate(flow.nodes):
        assert at == 0 or came[at] == node.rows
        assert node.kind == "rejected" or node.column == last or went[at] == node.rows


@given(accounts())
def test_no_two_labels_of_a_column_lie_over_each_other(case: Case) -> None:
    stages, by_type, dropped = case
    flow = draw_flow(stages, by_type, dropped, "Candidates")
    tops, scale, height = lay_out(flow)
    columns = defaultdict(list)
    for node, top in zip(flow.nodes, tops, strict=True):
        columns[node.column].append((top + node.rows * scale / 2, 8 * len(label_lines(node))))
    for places in columns.values():
        assert all(below - above >= half + other - 1e-6 for (above, half), (below, other) in pairwise(places))
        assert all(0 <= centre <= height + 1e-6 for centre, _ in places)


def test_rare_reasons_share_a_node() -> None:
    dropped: Dropped = Counter({("rules", f"reason_{number}", ""): number for number in range(1, 9)})
    flow = draw_flow([StageCount("rules", 50, 14, 36, 14)], {"": 50}, dropped, "Rows")
    rejected = {node.label: node.rows for node in flow.nodes if node.kind == "rejected"}
    assert rejected == {"reason 8": 8, "reason 7": 7, "reason 6": 6, "reason 5": 5, "other reasons": 10}


def test_flow_is_cut_where_rows_multiply_and_where_questions_begin() -> None:
    stages = [
        StageCount("read", 10, 9, 1, 9),
        StageCount("select", 9, 5, 4, 5),
        StageCount("passages", 5, 5, 0, 90),
        StageCount("generate", 40, 40, 0, 40),
        StageCount("rules", 40, 30, 10, 30),
    ]
    groups, of_questions = split_stages(stages)
    assert [[stage.stage for stage in group] for group in groups] == [["read", "select", "passages"], ["generate"]]
    assert [stage.stage for stage in of_questions] == ["rules"]


def test_counts_that_disagree_with_the_rejects_are_refused() -> None:
    with pytest.raises(ValueError, match=r"stage rules: .* rejects/ holds 2"):
        check_accounts([StageCount("rules", 10, 7, 3, 7)], Counter({("rules", "too_long", "factual"): 2}))


def test_rejects_of_rows_that_never_came_in_are_refused() -> None:
    with pytest.raises(ValueError, match="stage rules"):
        draw_flow([StageCount("rules", 2, 1, 1, 1)], {"factual": 2}, Counter({("rules", "bad", "refusal"): 1}), "Rows")


def _through(flow: SankeyDiagram) -> tuple[Counter[int], Counter[int]]:
    came, went = Counter[int](), Counter[int]()
    for source, target, rows in flow.links:
        came[target] += rows
        went[source] += rows
    return came, went
