"""A build's run directory made up from a seed, with the proportions of a real one, for tests of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from fdarx_core.labels.loinc import SECTION_NAMES, TOPICS
from fdarx_core.records import Label, Passage, QuestionAnswer, Reject, StageCount, content_id
from fdarx_core.storage import RunDirectory, write_records

WORDS = "patients receiving dose of mg daily should be monitored for < 5 % bleeding & rash".split()  # noqa: SIM905
DRUGS = ("Abacorin", "Benzolex", "Cardivane", "Dolomerin", "Exafenac", "Fluvorine")
CODES = [code for code in SECTION_NAMES if code != "43683-2"]
KINDS = (("factual", "section", 0.6), ("multihop", "section_pair", 0.15), ("refusal", "twin", 0.25))
ONE, TWO = ("direct", "several", "table"), ("bridge", "comparison", "computation")
DIFFICULTIES = {"factual": ONE, "multihop": TWO, "refusal": ONE + TWO}
RULES = (
    "overlap_with_context_below_minimum",
    "drug_name_absent",
    "answer_too_long",
    "artificial_conjunction",
    "question_too_long",
    "missing_field",
    "malformed",
)
DUPLICATES = ("near_duplicate_question", "exact_duplicate")
ROUND_TRIP = ("incomplete_gold", "unscored_undecided", "unanswerable", "twice")
READ = ("not_xml", "truncated", "entity_declaration", "wrong_root")
SELECT = ("not_human_prescription", "route_excluded", "not_in_sample")
LABEL_STAGES = (("read", READ, 0.01), ("identify", ("older_version",), 0.01), ("select", SELECT, 0.22))


class SyntheticRun:
    """Rows are made label by label and written part by part; the stage counts are kept as they are made."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        config = {"labels": ["labels.zip"], "sample": 300, "seed": seed, "min_overlap": 0.1}
        versions = {"fdarx": "0.1.0", "python": "3.11.9", "ray": "2.60.0", "pyarrow": "26.0.1"}
        self.run = RunDirectory.begin(str(root), job="build_benchmark", config=config, versions=versions)
        self.random = Random(seed)
        names = (
            "read",
            "identify",
            "select",
            "passages",
            "contexts",
            "generate",
            "rules",
            "duplicates",
            "round_trip",
            "twins",
        )
        self.stages = {name: StageCount(name) for name in names}
        self.rows: dict[type, list[Any]] = {}
        self.questions: list[QuestionAnswer] = []
        self.kinds: Counter[str] = Counter()

    def write_part(self, number: int, labels: int) -> None:
        self.rows = {kind: [] for kind in (Label, Passage, QuestionAnswer, Reject)}
        self.questions = []
        for at in range(labels):
            self.add_label(f"set-{number:03d}-{at:05d}")
        folders = (("labels", Label), ("passages", Passage), ("candidates", QuestionAnswer), ("rejects", Reject))
        for folder, record in folders:
            self._write(folder, number, self.rows[record], record)
        self._write("questions", number, self.questions, QuestionAnswer)

    def finish(self) -> RunDirectory:
        self.run.finish(self.summary())
        return self.run

    def summary(self) -> dict[str, Any]:
        return {
            "input": {"digest": content_id("synthetic"), "files": self.stages["read"].rows_in, "ignored": 0},
            "stages": [asdict(stage) for stage in self.stages.values()],
            "questions": dict(self.kinds),
            "timings": {"start": 4.9, "flow": 61.2, "benchmark": 3.4},
        }

    def add_label(self, set_id: str) -> None:
        for stage, reasons, share in (
            ("read", READ, 0.01),
            ("identify", ("older_version",), 0.01),
            ("select", SELECT, 0.22),
        ):
            if self._lost(stage, f"file-{set_id}.xml", set_id, reasons, share):
                return
        self.rows[Label].append(make_label(set_id, self.random.choice(DRUGS)))
        passages = self._make_passages(set_id)
        self._keep("passages", len(passages))
        contexts = len(passages) // 4
        self._keep("contexts", contexts)
        for context in range(contexts):
            if not self._lost("generate", content_id(set_id, str(context)), set_id, ("unparsable_response",), 0.01):
                self._ask(set_id, passages, context)

    def _ask(self, set_id: str, passages: list[Passage], context: int) -> None:
        number = self.random.randint(1, 4)
        self.stages["generate"].rows_out += number - 1
        for at in range(number):
            candidate = self._candidate(set_id, passages, f"{context}-{at}")
            self.rows[QuestionAnswer].append(candidate)
            share = 0.12 if candidate.type == "multihop" else 0.05
            if self._lost("rules", candidate.id, set_id, RULES, share):
                continue
            if self._lost("duplicates", candidate.id, set_id, DUPLICATES, 0.04):
                continue
            if self._lost("round_trip", candidate.id, set_id, ROUND_TRIP, 0.1):
                continue
            share = 0.05 if candidate.type == "refusal" else 0.0
            if not self._lost("twins", candidate.id, set_id, ("twin_rejected",), share):
                self.questions.append(candidate)
                self.kinds[candidate.type] += 1

    def _candidate(self, set_id: str, passages: list[Passage], name: str) -> QuestionAnswer:
        kind, source, _ = self.random.choices(KINDS, [share for _, _, share in KINDS])[0]
        number = {"factual": 1, "multihop": 2, "refusal": 0}[kind]
        gold = sorted(self.random.sample(passages, number), key=lambda passage: passage.doc_chunk_index)
        drug, by_rules = self.rows[Label][-1].drug_name, self.random.random() < 0.4
        return QuestionAnswer(
            content_id(set_id, name),
            kind,
            kind,
            source,
            self.random.choice(TOPICS),
            set_id,
            drug,
            f"What does the label of {drug} say on {self._words(4)}?",
            self._words(18) + ".",
            [passage.doc_chunk_index for passage in gold],
            [passage.section_code for passage in gold],
            [True] * number,
            template="What is the {term} of {drug}?" if by_rules else "",
            entity="myasthenia gravis" if kind == "refusal" else "",
            twin=content_id(set_id, "twin of", name) if kind == "refusal" else "",
            difficulty=self.random.choice(DIFFICULTIES[kind]),
            endpoint="baseline" if by_rules else "small",
        )

    def _make_passages(self, set_id: str) -> list[Passage]:
        count = max(8, int(self.random.gauss(110, 35)))
        codes = sorted(self.random.sample(CODES, 30), key=CODES.index)
        passages = []
        for at in range(count):
            code = codes[at * len(codes) // count]
            title = SECTION_NAMES[code]
            text = self._words(max(5, int(self.random.lognormvariate(4.3, 0.6))))
            passages.append(Passage(set_id, at, 0, "42229-5", code, "", title, f"{title.upper()} > Part {at}", text))
        self.rows[Passage] += passages
        return passages

    def _lost(self, stage: str, row_id: str, set_id: str, reasons: Iterable[str], share: float) -> bool:
        lost = self.random.random() < share
        if not lost:
            self._keep(stage, 1)
            return False
        self.stages[stage].rows_in += 1
        self.stages[stage].rejected += 1
        known = list(reasons)
        reason = self.random.choices(known, [2.0**-at for at in range(len(known))])[0]
        self.rows[Reject].append(
            Reject(row_id, stage, reason, f"what was wrong: {self._words(6)}", set_id, "labels.zip")
        )
        return True

    def _keep(self, stage: str, made: int) -> None:
        count = self.stages[stage]
        count.rows_in, count.kept, count.rows_out = count.rows_in + 1, count.kept + 1, count.rows_out + made

    def _words(self, number: int) -> str:
        return " ".join(self.random.choices(WORDS, k=number))

    def _write(self, folder: str, number: int, rows: list[Any], record: type) -> None:
        write_records(self.run.part(folder, number), rows, record)


def make_label(set_id: str, drug: str) -> Label:
    """A label with nothing but its names."""
    name: list[str] = [drug]
    return Label(
        set_id, 1, "2024-05-01", "34391-3", "HUMAN PRESCRIPTION DRUG LABEL", drug, drug, name, name,
        [], ["ORAL"], ["TABLET"], "Invented Labs", [], ["NDA"], [], "", [], [],
    )  # fmt: skip


def make_run(root: Path, labels: int = 300, parts: int = 6, seed: int = 0) -> RunDirectory:
    """A finished run read from `labels` files in `parts` parts."""
    made = SyntheticRun(root, seed)
    for number in range(parts):
        made.write_part(number, labels // parts)
    return made.finish()
