"""Builds the applications of served models without a cluster: `python -m tests.engine.build_process FILE…`, by the
engine's interpreter; prints a line for each, `built: ` and what is wrong with it."""

from __future__ import annotations

import sys

from fdarx_core.llm import ModelsError
from serving.models import build
from serving.served_model import load_served

for file in sys.argv[1:]:
    try:
        build(load_served(file))
        fault = ""
    except ModelsError as error:
        fault = str(error)
    print(f"built: {fault}")
