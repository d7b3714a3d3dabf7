"""What a build lost, as sentences for the terminal and the page: unusable replies, missing verdicts, main reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.filters.round_trip import STAGE as ROUND_TRIP
from fdarx_core.generation.candidates import STAGE as GENERATE
from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.page_engine import plural
from fdarx_core.storage.dataset_card import BASELINE, model_names

TOO_MANY = 0.1
"""The share of unusable replies from which a stage, or a model, is named."""
MOST = 0.5
"""The share of rejected questions from which a stage is named."""
RULES = "rules"
_MAIN_REASONS = 2
_STRONGER = "Take a stronger model."


def why_rejected(stage: str, reason: str) -> str:
    """Return what a reason of a stage means, "" for a reason that says it itself."""
    if meaning := PAGE_WORDS["reject_reasons"].get(f"{stage}/{reason}"):
        return meaning
    beginnings = PAGE_WORDS["reason_beginnings"]
    general = next((meaning for start, meaning in beginnings.items() if reason.startswith(f"{start}_")), "")
    return general or (PAGE_WORDS["unusable_replies"].get(reason, "") if stage == GENERATE else "")


def meaning_of(reason: str) -> str:
    """Return what a reason of unusable replies means and what to do; one that has no entry is a failed request."""
    known = reason if reason in PAGE_WORDS["unusable_replies"] else "failed_request"
    return f"{PAGE_WORDS['unusable_replies'][known]} {PAGE_WORDS['unusable_remedies'].get(known, _STRONGER)}"


def unusable_lines(info: Mapping[str, Any]) -> list[str]:
    """Return sentences for each stage of a build, as run.json has it, at which many replies were unusable."""
    return [
        f"{_who(one['stage'], info)}: {one['unusable']:,} of {one['replies']:,} replies at the stage {one['stage']} "
        f"were unusable, most as {one['reason']}. {meaning_of(one['reason'])}"
        for one in info.get("replies", [])
        if one["unusable"] > TOO_MANY * one["replies"]
    ]


def heavy_loss_lines(info: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each stage that rejects most of the questions that a model wrote, judged or read.

    A model that is too weak for its task often replies in the right form, so that nothing is unusable.
    """
    by_model = {row["stage"] for row in info.get("replies", [])} - {GENERATE}
    if model_names(info.get("config", {}).get("generator", BASELINE)) != BASELINE:
        by_model.add(RULES)
    lines: list[str] = []
    for one in info.get("stages", []):
        stage, rejected, rows = one["stage"], one["rejected"], one["rows_in"]
        if stage not in by_model or rejected <= MOST * rows:
            continue
        reasons = (reason for reason in info.get("reject_reasons", []) if reason["stage"] == stage)
        most = next((f", most as {reason['reason']}" for reason in reasons), "")
        task = "does not follow the prompt" if stage == RULES else "cannot judge them"
        lines.append(
            f"{_who(stage, info)}: {rejected:,} of {rows:,} questions were rejected at the stage {stage}{most}. "
            f"Read some of the rejects: either the questions are bad, or this model {task}."
        )
    return lines


def missing_lines(info: Mapping[str, Any]) -> list[str]:
    """Return sentences on questions without a verdict, and on labels of which the reader saw a part."""
    lines: list[str] = []
    if lacking := info.get("questions_without_verdict"):
        total = sum(info["questions"].values())
        lines.append(
            f"{lacking:,} of {total:,} questions were kept although a verdict of at least one stage is missing; their "
            "column unscored names the stages, and --strict drops them."
        )
    if cut := info.get("labels_read_in_part"):
        longer = "label is" if cut == 1 else "labels are"
        lines.append(f"{cut:,} {longer} longer than the context of the reader, who was shown the most important parts.")
    return lines


def main_reasons(info: Mapping[str, Any]) -> list[str]:
    """Return the most frequent reasons for which rows were rejected after the selection of labels, in words."""
    return [
        f"{plural(one['rows'], 'row')} at {one['stage']} as {one['reason']}. "
        f"{why_rejected(one['stage'], one['reason'])}".strip()
        for one in info.get("reject_reasons", [])[:_MAIN_REASONS]
    ]


def _who(stage: str, info: Mapping[str, Any]) -> str:
    """Return the role whose model replies at a stage, with the name of the model."""
    role = {GENERATE: "generator", RULES: "generator", ROUND_TRIP: "reader"}.get(stage, "judge")
    names = model_names(info.get("config", {}).get(role, ""))
    return f"{'writer' if role == 'generator' else role} {names}".strip()
