"""The wordings of questions about topics, and the name of a product in questions."""

from __future__ import annotations

import re

from fdarx_core.generation.library import load_library
from fdarx_core.generation.terminology import Topic, fold
from fdarx_core.records import Label

_LEGAL_FORM = re.compile(
    r"(?:[,\s]+(?:inc|llc|ltd|limited|corp|corporation|co|company|lp|l\.p|plc|gmbh|ag|sa|s\.a|pvt|private|usa|us)\b\.?)+\W*$",
    re.I,
)
_LONGEST_LABELER = 40


def product_name(label: Label) -> str:
    """Return the name of a label's product in questions.

    It is the brand name; a product that is sold under the name of its substance has the name of its labeler too, since
    the labels of such products differ.
    """
    name = label.drug_name.title() if label.drug_name.isupper() and len(label.drug_name) > 5 else label.drug_name
    labeler = short_labeler(label.labeler)
    return name if is_brand(label) or not labeler else f"{name} ({labeler})"


def is_brand(label: Label) -> bool:
    """Return whether a label's product has a name of its own, which is not the name of a substance in it."""
    own = fold(label.drug_name)
    substances = [*label.substances, *(moiety for product in label.products for moiety in product.moieties)]
    return not any((words := fold(one).split()) and f" {words[0]}" in own for one in substances)


def short_labeler(labeler: str) -> str:
    """Return the name of a company without its legal form: "SOLCO HEALTHCARE US, LLC" is Solco Healthcare."""
    name = _LEGAL_FORM.sub("", labeler).strip(" ,.")
    if name.isupper() and len(name) > 4:
        name = name.title()
    if len(name) > _LONGEST_LABELER:
        name = name[:_LONGEST_LABELER].rsplit(" ", 1)[0]
    return name


def topic_wording(topic: Topic, wording: int) -> str:
    """Return a wording of the questions about a topic, with {drug}, {term} and {anchor} in place of names."""
    wordings = load_library("topic_questions")[topic.kind]
    return str((wordings[topic.name] if isinstance(wordings, dict) else wordings)[wording])


def topic_question(topic: Topic, drug: str, wording: int, anchor: str = "") -> str:
    """Return the question about a topic; `anchor` is what a comparison compares it with."""
    return topic_wording(topic, wording).format(drug=drug, term=topic.name, anchor=anchor)
