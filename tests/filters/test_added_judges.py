"""A judge that another package adds, in one file, through the entry point group fdarx.judges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY

MODULE = """
from fdarx_core.filters.judges import Judge, Judging
from fdarx_core.filters.judges import factual_slots
from fdarx_core.filters.tasks import JUDGE_SUPPORT_FACTUAL, Decision

def decide(reply):
    return Decision("" if reply.supported else "not_in_dosage")

JUDGE = Judge("dosage", {"factual": Judging(JUDGE_SUPPORT_FACTUAL, factual_slots, decide)})
"""


def test_a_judge_of_another_package_comes_after_the_built_in_ones(tmp_path: Path) -> None:
    (tmp_path / "dosage_judge.py").write_text(MODULE)
    info = tmp_path / "dosage_judge-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dosage-judge\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fdarx.judges]\ndosage = dosage_judge:JUDGE\n")
    code = """
import sys
from fdarx_core.filters.judges import judges
assert "dosage_judge" not in sys.modules
print([judge.stage for judge in judges()])
"""
    path = os.pathsep.join((str(tmp_path), str(REPOSITORY)))
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert found.stdout.strip() == "['relevance', 'support', 'quality', 'dosage']", found.stderr
