"""Ingredients of the drugs that answers call by names which no label has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fdarx_core.factuality.safety.drugs import Drugs
from fdarx_core.factuality.safety.rxnav import Found, ingredients_of, unknown_names
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.records import CheckedAnswer, Label
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.storage.benchmark import open_build


def ingredients(run: RunDirectory, checking: Checking, answers: Iterable[CheckedAnswer]) -> Found:
    """What RxNav says of them; nothing where it is not to be asked."""
    if not (checking.rxnav and checking.safety):
        return Found()
    labels = (label for part in open_build(checking.safety).parts("labels") for label in read_records(part, Label))
    names = unknown_names(answers, Drugs(labels))
    return asyncio.run(ingredients_of(names, ResponseStore(run.file("responses")), checking.rxnav))
