"""The wordings of questions about topics, and the name of a product in questions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fdarx_core.generation.library import load_library
from fdarx_core.generation.terminology import Topic, fold
from fdarx_core.records import Label

_LEGAL_FORM = re.compile(
    r"(?:[,\s]+(?:inc|llc|ltd|limited|corp|corporation|co|company|lp|l\.p|plc|gmbh|ag|sa|s\.a|pvt|private|usa|us)\b\.?)+\W*$",
    re.I,
)
_MAX_LABELER_CHARACTERS = 40
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_COUNTABLE_FORMS = ("tablet", "capsule", "caplet", "lozenge", "granule")


def product_name(label: Label) -> str:
    """Return the name of a label's product in questions.

    It is the brand name. For a product that is sold under the name of its substance, the dosage form and the labeler
    are added, since the labels of such products differ.
    """
    name = label.drug_name
    name = _in_title_case(name) if name.isupper() and len(name) > 5 else name
    labeler, folded = short_labeler(label.labeler), fold(label.drug_name)
    substances = (*label.substances, *(moiety for product in label.products for moiety in product.moieties))
    names_substance = any((words := fold(one).split()) and f" {words[0]}" in folded for one in substances)
    if not names_substance or not labeler:
        return name
    return f"{' '.join(filter(None, (name, _form(label, fold(name)))))} ({labeler})"


def _form(label: Label, name: str) -> str:
    """Return the words of the first dosage form of a label that a folded name lacks: "extended-release tablets"."""
    kind, *details = (label.dosage_forms[0] if label.dosage_forms else "").lower().replace("/ ", "/").split(", ")
    release = next((detail.replace(" ", "-") for detail in details if "release" in detail), "")
    noun = f"{kind}s" if kind in _COUNTABLE_FORMS else kind
    missing = [word for word in (release, noun) if word and fold(word).strip()[:6] not in name]
    return " ".join(missing)


def _in_title_case(text: str) -> str:
    return _WORD.sub(lambda word: word[0] if len(word[0]) < 3 else word[0][:1].upper() + word[0][1:].lower(), text)


def short_labeler(labeler: str) -> str:
    """Return the name of a company without its legal form: "SOLCO HEALTHCARE US, LLC" is Solco Healthcare."""
    name = _LEGAL_FORM.sub("", labeler).strip(" ,.")
    if name.isupper() and len(name) > 4:
        name = _in_title_case(name)
    if len(name) > _MAX_LABELER_CHARACTERS:
        name = name[:_MAX_LABELER_CHARACTERS].rsplit(" ", 1)[0]
    return name


def topic_wordings(topic: Topic) -> Sequence[str]:
    """Return the wordings of the questions about a topic, with {drug} and {term} in place of names."""
    wordings = load_library("topic_questions")[topic.kind]
    found: Sequence[str] = wordings[topic.name] if isinstance(wordings, dict) else wordings
    return found
