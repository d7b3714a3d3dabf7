"""The rules judge alike in every process, whatever the order of its sets."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import REPOSITORY

JUDGE = """
from fdarx_core.factuality.entailment.inference import Pair
from fdarx_core.factuality.entailment.rules import RulesEntailment
from fdarx_core.filters.text import sentences
from fdarx_core.labels import parse_label
from tests.conftest import EXAMPLES
_, passages = parse_label(sorted(EXAMPLES.glob("*.xml"))[0].read_bytes())
texts = [passage.text for passage in passages[:12]]
claims = [sentence for text in texts for sentence in sentences(text)]
print(RulesEntailment().judge([Pair(premise, claim) for premise in texts for claim in claims]))
"""


def test_equal_under_any_hash_seed() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", JUDGE],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
