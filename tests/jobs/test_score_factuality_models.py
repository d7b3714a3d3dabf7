"""An NLI model through the job: the same verdicts as one by one, and no claim ever cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fdarx_core.records import CheckedAnswer, Claim, Evidence, PairVerdict
from fdarx_core.verify import Inference, TextPair
from tests.jobs.checking import made_files, score
from tests.jobs.evaluating import rows_of

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = pytest.mark.models


def test_a_run_of_two_engines(tmp_path: Path) -> None:
    from fdarx_core.verify.cross_encoder import CrossEncoder
    from tests.verify import tiny_nli

    directory = tiny_nli.cross_encoder("bert", tmp_path / "tiny-nli")
    out = tmp_path / "run"
    done = score(out, *made_files(tmp_path), "--entailment", directory, "--compare-entailment", "exact")
    assert done.returncode == 0, done.stderr
    pairs = rows_of(out, "pairs", PairVerdict)
    assert {row.engine for row in pairs} == {"tiny-nli", "exact"}
    claims = {row.id: row for row in rows_of(out, "claims", Claim)}
    evidence = {row.id: row.text for row in rows_of(out, "evidence", Evidence)}
    answers = {row.id: row for row in rows_of(out, "answers", CheckedAnswer)}
    mine = [row for row in pairs if row.engine == "tiny-nli" and row.evidence_id]
    assert len(mine) > 50 and all(row.entailment is not None for row in mine)
    model = CrossEncoder(directory)
    for row in mine[::7]:
        whole = claims[row.claim_id].resolved
        told = (row.entailment or 0, row.neutral or 0, row.contradiction or 0)
        # a passage of the drug's own label is compared with the claim without the drug's name in front
        alone = model.judge([TextPair(evidence[row.evidence_id], one) for one in (whole, whole.split(": ", 1)[-1])])
        found = [(one.entailment, one.neutral, one.contradiction) for one in alone if isinstance(one, Inference)]
        assert any(np.allclose(told, one, atol=1e-5) for one in found)
    statements = [row for row in pairs if row.kind == "must_have"]
    assert {row.engine for row in statements} == {"tiny-nli"}
    assert len(statements) == sum(len(one.must_have) for one in answers.values() if one.answer.strip())
