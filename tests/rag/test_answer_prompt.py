"""The prompt for an answer with citations."""

from __future__ import annotations

from typing import Any

from fdarx_core.rag.cited_text import parse_cited_text, read_statements
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS
from fdarx_core.text.refusals import DOCUMENTS_SAY_NOTHING

CONTEXTS: list[dict[str, Any]] = [
    {"n": 1, "title": "Reserve Samples: Guidance for Industry", "section": "", "text": "Keep them for one year."},
    {"n": 2, "title": "Velorin", "section": "CONTRAINDICATIONS", "text": "VELORIN is contraindicated in anuria."},
]


def test_the_examples_decline_as_the_prompt_says() -> None:
    assert DOCUMENTS_SAY_NOTHING in ANSWER_WITH_CITATIONS.prompt.system
    replies = [example.reply for example in ANSWER_WITH_CITATIONS.prompt.examples]
    assert DOCUMENTS_SAY_NOTHING in replies
    for example in ANSWER_WITH_CITATIONS.prompt.examples:
        read = parse_cited_text(str(example.reply), len(example.slots["contexts"]))
        cites = any(one.citations for one in read_statements(read.text, len(example.slots["contexts"])))
        assert read.refused == (not cites) == (example.reply == DOCUMENTS_SAY_NOTHING)


def test_the_question_comes_last_and_contexts_are_numbered() -> None:
    request = ANSWER_WITH_CITATIONS.request(
        {"question": "Why?", "contexts": CONTEXTS, "drug": "", "others": []}, endpoint="m"
    )
    assert [message["role"] for message in request.messages][:3] == ["system", "user", "assistant"]
    shown = request.messages[-1]["content"]
    assert shown.rstrip().endswith("Question: Why?")
    assert '<context number="2" title="Velorin" section="CONTRAINDICATIONS">\n' in shown
    assert '<context number="1" title="Reserve Samples: Guidance for Industry">\n' in shown


def test_one_of_several_drugs_is_answered_for_alone() -> None:
    slots = {"question": "Why?", "contexts": CONTEXTS, "drug": "Velorin", "others": []}
    shown = ANSWER_WITH_CITATIONS.request(slots, endpoint="m").messages[-1]["content"]
    assert shown.rstrip().endswith("Answer for Velorin alone.")
    shown = ANSWER_WITH_CITATIONS.request(slots | {"others": ["Mirapan", "Zolaris"]}, endpoint="m").messages[-1][
        "content"
    ]
    assert shown.rstrip().endswith("Answer for Velorin alone, not for Mirapan or Zolaris.")
