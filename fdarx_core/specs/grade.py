"""The specification of grading a file of questions and answers without a benchmark."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar

from cyclopts import Group, Parameter
from pydantic import Field

from fdarx_core.specs.evaluate import GradingSpec
from fdarx_core.specs.options import BASELINE, HOW, PRESENTATION, Common, Names, check_roles
from fdarx_core.specs.running import OpenedJob

_COLUMNS = Group("Columns of the file, where they do not have their usual names", sort_key=0)
_Column = Annotated[str | None, Parameter(group=_COLUMNS, show=True)]
_QUESTIONS_A_PART = 64


class GradeSpec(GradingSpec):
    """The grades of a file of answers: the options of `fdarx grade`, and of `fdarx_core.grade`."""

    by_content: ClassVar[frozenset[str]] = frozenset({"file"})

    file: Annotated[str, Parameter(parse=False)] = ""
    """file with a question, an answer, and a reference or contexts in each row, see docs/grading.md"""
    out: str = Field(min_length=1)
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    models: Common[Names] = Field([BASELINE])
    """YAML files that list models on servers, of which --judge names one, see docs/models.md"""
    judge: Common[str] = BASELINE
    """model that grades: a name of --models, or baseline (built-in rules, not a language model)"""
    question: _Column = None
    """column of the question (question, user_input, input, query, prompt)"""
    answer: _Column = None
    """column of the answer (answer, response, actual_output, output, prediction, completion)"""
    reference: _Column = None
    """column of the right answer (reference, ground_truth, expected_output, expected and others)"""
    context: _Column = None
    """column of the contexts that the answer rests on, a text or a list (retrieved_contexts, retrieval_context,
    contexts, context, documents, passages)"""
    id: _Column = None
    """column of the question's id (id, qid, question_id; without one, equal questions with equal references are one)"""
    model_name: _Column = None
    """column of the model that answered (model, model_name, provider; without one, the name of the file)"""
    drug: _Column = None
    """column of the drug that the question is about (drug, drug_name), by which intervals are drawn"""

    def open(self) -> OpenedJob:
        """Load the models and read the file.

        Raises ModelsError for the models, StorageError for the file, and ValueError for a threshold.
        """
        from fdarx_core.evaluation.figures import CellKey
        from fdarx_core.evaluation.scoring import GRADE_ANSWER
        from fdarx_core.evaluation.settings import REFERENCE
        from fdarx_core.pipeline.evaluation import Evaluation, check_benchmark, first_ids
        from fdarx_core.pipeline.evaluation_steps import CODE_VERSION, EVALUATION_RULES, EvaluationSetup
        from fdarx_core.storage.graded_files import COLUMNS, read_graded_file
        from fdarx_core.storage.tables import unusable_rows
        from fdarx_core.verify.language_model import JUDGE_CLAIM

        self.bounds()
        self.check_bertscore()
        models = self.loaded_models()
        check_roles({"judge": self.judge}, models)
        named = {name: column for name in COLUMNS if (column := getattr(self, name)) is not None}
        benchmark, answers = read_graded_file(self.file, named)
        if self.limit is not None:
            kept = first_ids({row.question_id for row in answers}, self.limit, self.seed)
            answers = [row for row in answers if row.question_id in kept]
        given = {(row.question_id, CellKey(row.model, row.setting, "")): row for row in answers}
        setup = EvaluationSetup(
            models=models,
            judge=self.judge,
            bertscore=self.bertscore_model,
            bertscore_layers=self.bertscore_layers,
            given=sorted({cell for _, cell in given}, key=lambda cell: (cell.model, cell.setting != REFERENCE)),
        )
        number = benchmark.about["repeats"]
        repeats = [f"rows that repeat a question of the same model: {number:,}, graded as repeats; remove copies"]
        repeats *= number > 0
        options = self.model_dump(mode="json", exclude=HOW | PRESENTATION | {"fail_under", "fail_over"})
        asked = {name: dict(model.request_parameters) for name, model in setup.used.items()}
        return OpenedJob(
            config={**options, "asked": asked},
            make=partial(
                Evaluation,
                clients=self.client_pool(EVALUATION_RULES, setup.used, shared_fate=False),
                spec=setup,
                benchmark=benchmark,
                given=given,
                limit=self.limit,
                labels_per_part=_QUESTIONS_A_PART,
                seed=self.seed,
                resamples=self.resamples,
            ),
            used=setup.used,
            size=len(given) // _QUESTIONS_A_PART,
            code_version=CODE_VERSION,
            prompts=[GRADE_ANSWER.prompt, JUDGE_CLAIM.prompt],
            lines=lambda place: unusable_rows(len(benchmark.rejects), benchmark.rejects, place) + repeats,
            check=lambda run: check_benchmark(run, benchmark.about["digest"], given),
        )
