"""What a claim is held against where no evidence is searched for."""

from __future__ import annotations

from fdarx_core.records import CheckedAnswer, Evidence, content_id

SOURCE = "none"


def stand_in(answer: CheckedAnswer) -> Evidence:
    """The question's first reference, else the question itself: evidence for the ablation without retrieval.

    Source: FAS §5.5 ("w/o retrieval"), which leaves open what the claims are then held against.
    """
    reference = next((text for text in answer.references if text.strip()), "")
    text, place = (reference, "reference") if reference else (answer.question, "question")
    return Evidence(content_id(SOURCE, place, text), SOURCE, answer.question, text, place)
