"""A whole factuality run: answers, the checks of each, then figures, tables and the report."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

from fdarx_core.evaluation.similarity import open_similarity
from fdarx_core.factuality.drug_names import DrugNameIndex, ingredients_of, unknown_names
from fdarx_core.factuality.evidence import open_evidence, parse_evidence
from fdarx_core.factuality.safety import PARQUET, ContraindicationTable, contraindications_of
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.executor import Stages
from fdarx_core.pipeline.factuality_results import CODE_VERSION, cut_answers, publish, read_states, write_states
from fdarx_core.pipeline.factuality_steps import FactualitySpec, SafetyChecker, factuality_steps
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.pipeline.steps import Part, Resource, Stage
from fdarx_core.records import CheckedAnswer, Contraindication, Label, Passage, Reject
from fdarx_core.storage import RunDirectory, read_records, read_table
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.verify.cross_encoder import CrossEncoder

_CPUS_PER_MODEL = 8
"""CPUs for each model on a cluster without GPUs; more models would take more memory."""
_CPUS_PER_SOURCE = 4
_MOST_SOURCES = 16


@dataclass(slots=True, kw_only=True)
class FactualityEvaluation(PipelineJob):
    """A factuality run; see `PipelineJob`.

    `rows` returns the answers to be scored, and rejects for rows that are none; `input_info` is what run.json says of
    them.
    """

    phase: ClassVar[str] = "check"
    code_version: ClassVar[str] = CODE_VERSION

    spec: FactualitySpec
    rows: Callable[[], Iterator[CheckedAnswer | Reject]]
    input_info: dict[str, Any]
    contraindications: int = 0
    synonyms: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def prepare(self, *, planned: bool) -> None:
        """Cut the answers into parts; but for a plan, also make the table of contraindications, and look up the
        ingredients of drugs that no label has by that name."""
        with self.timed("intake"):
            self.progress("intake", 0, 0, "")
            self.numbers = cut_answers(self.parts, self.rows())
        if planned:
            return
        if self.spec.safety:
            with self.timed("contraindications"):
                self.contraindications = self._contraindications(open_build(self.spec.safety))
        with self.timed("rxnav"):
            self.synonyms, self.input_info["rxnav"] = self._ingredients()

    def stages(self, *, planned: bool) -> Stages:
        steps = factuality_steps(self.spec, planned=planned)
        stage = Stage("check", partial(read_states, self.parts), steps, partial(write_states, self.parts, self.spec))
        return [(stage, [Part(number) for number in self.numbers])]

    def resources(self, *, planned: bool) -> Mapping[str, Resource]:
        """Return the source of evidence and the models. Where there are GPUs, each kind that computes on them has one
        actor per GPU, and all kinds share it equally."""
        spec, gpus, cpus = self.spec, self.executor.gpus, self.executor.cpus
        evidence, _ = parse_evidence(spec.evidence)
        nli = [engine for engine in spec.engines if engine.kind == "nli"]
        kinds = len(nli) + spec.measures_similarity + (evidence == "index")
        share = round(0.99 / kinds, 2) if gpus and kinds else 0.0
        found: dict[str, Resource] = {}
        if not spec.from_pubmed:
            of_index = share if evidence == "index" else 0.0
            size = gpus if of_index else min(_MOST_SOURCES, max(1, cpus // _CPUS_PER_SOURCE))
            source = (spec.evidence, spec.directories, spec.retriever)
            found["evidence"] = Resource(open_evidence, source, size, of_index)
        if planned:
            return found
        if spec.measures_similarity:
            arguments = (spec.bertscore, spec.bertscore_layers, spec.encoder)
            found["similarity"] = Resource(open_similarity, arguments, gpus or 1, share)
        if spec.safety:
            labels = partial(read_labels, open_build(spec.safety))
            found["safety"] = Resource(SafetyChecker, (labels, self.synonyms))
        models = gpus or max(1, cpus // _CPUS_PER_MODEL)
        open_model = {engine.name: partial(CrossEncoder, engine.place, labels=engine.labels) for engine in nli}
        return found | {name: Resource(factory, (), models, share) for name, factory in open_model.items()}

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        about = {
            **self.input_info,
            "parts": len(self.numbers),
            "method": asdict(self.spec.method),
            "safety": self.spec.safety,
            "contraindications": self.contraindications,
        }
        return self.publish_parts(ended, about, partial(publish, self.run, seed=self.seed, resamples=self.resamples))

    def _contraindications(self, build: RunDirectory) -> int:
        """Make the run's table of contraindications, unless it is there; returns the number of its rows."""
        if not self.parts.marked("contraindications", [0]):
            numbers = range(len(build.parts("labels")))
            rows: dict[int, list[Contraindication]] = {}
            self.progress("contraindications", 0, len(numbers), "")
            for number, found in self.executor.map(partial(_contraindications_of_part, build), numbers):
                rows[number] = found
                self.progress("contraindications", len(rows), len(numbers), "")
            ContraindicationTable([row for number in numbers for row in rows[number]]).save(self.run.root)
            self.parts.mark("contraindications", 0)
        return int(read_table(self.run.file(PARQUET), ["id"]).num_rows)

    def _ingredients(self) -> tuple[dict[str, list[str]], str]:
        """Return what RxNav says of drugs by other names, and a notice; nothing where it is not to be asked."""
        if not (self.spec.rxnav and self.spec.safety):
            return {}, ""
        self.progress("rxnav", 0, 1, "")
        build = open_build(self.spec.safety)
        labels = (label for part in build.parts("labels") for label in read_records(part, Label))
        answers = (one for part in self.numbers for one in self.parts.read("answers", part, CheckedAnswer))
        names = unknown_names(answers, DrugNameIndex(labels))
        return asyncio.run(ingredients_of(names, ResponseStore(self.run.file("responses")), self.spec.rxnav))


def read_labels(build: RunDirectory) -> Iterator[tuple[Label, list[Passage]]]:
    """Return the labels of a build with all their passages."""
    for number in range(len(build.parts("labels"))):
        yield from _labels_of_part(build, number)


def _labels_of_part(build: RunDirectory, number: int) -> Iterator[tuple[Label, list[Passage]]]:
    passages: defaultdict[str, list[Passage]] = defaultdict(list)
    for passage in read_records(build.parts("passages")[number], Passage):
        passages[passage.set_id].append(passage)
    for label in read_records(build.parts("labels")[number], Label):
        yield label, passages[label.set_id]


def _contraindications_of_part(build: RunDirectory, number: int) -> tuple[int, list[Contraindication]]:
    labels = _labels_of_part(build, number)
    return number, [row for label, passages in labels for row in contraindications_of(label, passages)]
