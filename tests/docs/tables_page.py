"""The page docs/tables.md: its tables and columns, from the records.

    python -m tests.docs.tables_page

writes the part of the page below `MARK` anew.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pyarrow as pa

from fdarx_core import records
from fdarx_core.generation.topics import TopicSurvey
from fdarx_core.records import arrow_schema
from fdarx_core.tuning.evaluation import TunedAnswer
from fdarx_core.tuning.pairs import TrainingPair
from fdarx_core.tuning.trainer import LossPoint

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
MARK = "<!-- Below: python -m tests.docs.tables_page -->\n"

TABLES: dict[str, list[tuple[str, str, type]]] = {
    "A build": [
        ("labels", "a label", records.Label),
        ("passages", "a passage of a label", records.Passage),
        ("surveys", "a label, with the topics that it answers", TopicSurvey),
        ("candidates", "a generated question, before the filters", records.QuestionAnswer),
        ("questions", "a question of the benchmark", records.QuestionAnswer),
        ("verdicts", "the verdict of a vote of a judge on a question", records.JudgeVerdict),
        ("rejects", "a rejected row", records.Reject),
        ("stages", "the counts of a stage of a part", records.StageCount),
        ("metrics", "a figure of the artifact audit", records.Figure),
        ("responses/TASK", "the reply to a request", records.Response),
    ],
    "An evaluation": [
        ("subjects", "a label of the evaluation", records.LabelSummary),
        ("passages", "a passage of a label", records.Passage),
        ("questions", "a question", records.QuestionAnswer),
        ("rankings/RETRIEVER", "the ranking of a retriever for a question", records.Ranking),
        ("elsewhere/RETRIEVER", "a ranked passage of a label in another part", records.Passage),
        ("retrieval_scores/RETRIEVER", "the scores of a ranking", records.RetrievalScore),
        ("equivalences", "a question whose gold passages have equivalents", records.Equivalence),
        ("predictions/MODEL", "the reply of a model to a question in a setting", records.Prediction),
        ("grades/MODEL", "the grade of a prediction", records.Grade),
        ("scores/MODEL", "the numbers of a prediction", records.Score),
        ("rejects", "a rejected row", records.Reject),
        ("cells", "the progress of a model in a setting", records.SettingProgress),
        ("metrics", "a figure", records.Figure),
        ("comparisons", "a difference between two models or two settings", records.Difference),
        ("responses/TASK", "the reply to a request", records.Response),
    ],
    "A RAG evaluation": [
        ("questions", "a question", records.RagQuestion),
        ("answers", "the answer of a strategy to a question", records.RagAnswer),
        ("scores", "the scores of an answer", records.RagScore),
        ("title_ranks", "the rank of the right document for a question", records.TitleRank),
        ("rejects", "a rejected row", records.Reject),
        ("figures", "a figure", records.Figure),
        ("differences", "a difference between two strategies", records.Difference),
        ("usage", "the usage of a strategy", records.RagUsage),
        ("responses/TASK", "the reply to a request", records.Response),
    ],
    "A factuality run": [
        ("answers", "an answer to check", records.CheckedAnswer),
        ("claims", "a claim of an answer", records.Claim),
        ("evidence", "a passage that was found for a claim", records.Evidence),
        ("pairs", "the judgement of an engine on a claim and a passage", records.PairVerdict),
        ("verdicts", "the verdict on a claim", records.ClaimVerdict),
        ("flags", "a safety flag of an answer", records.SafetyFlag),
        ("scores", "the scores of an answer", records.FactualityScore),
        ("rejects", "a rejected row", records.Reject),
        ("figures", "a figure", records.Figure),
        ("correlations", "a correlation between two measures", records.Figure),
        ("differences", "a difference between two models", records.Difference),
        ("responses/TASK", "the reply to a request", records.Response),
    ],
    "A fine-tuning": [
        ("pairs", "a training pair", TrainingPair),
        ("answers", "an answer of the tuned model, and of the model before it", TunedAnswer),
        ("curve", "a point of the loss curve", LossPoint),
        ("rejects", "a rejected row", records.Reject),
    ],
}


def rendered() -> str:
    """Return the generated part of the page."""
    lines: list[str] = []
    for job, tables in TABLES.items():
        lines += [f"## {job}", "", "| table | a row is | columns |", "|---|---|---|"]
        lines += [
            f"| `{kind}` | {row} | [{record.__name__}](#{record.__name__.lower()}) |" for kind, row, record in tables
        ]
        lines.append("")
    lines += ["## Columns", ""]
    shown = {record.__name__: record for tables in TABLES.values() for *_, record in tables}
    for name, record in sorted(shown.items()):
        columns = ", ".join(f"`{field.name}` ({_type_name(field.type)})" for field in arrow_schema(record))
        lines += [f"### {name}", "", inspect.getdoc(record) or "", "", f"{columns}.", ""]
    return "\n".join(lines)


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type_name(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "struct of " + ", ".join(field.name for field in kind)
    if pa.types.is_map(kind):
        return "a column for each key" if pa.types.is_string(kind.item_type) else "map of text to number"
    return {"string": "text", "int64": "integer", "double": "number", "bool": "boolean"}[str(kind)]


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text("utf-8").partition(MARK)[0] + MARK + "\n" + rendered(), "utf-8")
