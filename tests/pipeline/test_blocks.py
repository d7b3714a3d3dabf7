"""States of a build as blocks of Ray Data: what is read from a block is what was written into it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.ray_data import from_block, to_block
from tests.conftest import EXAMPLES
from tests.pipeline.test_steps import build, identities


def test_a_block_keeps_all_of_its_states() -> None:
    labels = identities(EXAMPLES)[:3]
    states = [LabelState(labels[0]), *build(labels, GenerationConfig(passages=2, section_pairs=2, twins=1))]
    blocks = [to_block(number, states[number:]) for number in (0, 1)]
    assert list(from_block(blocks[0])) == [(0, states)]
    assert list(from_block(pa.concat_tables(blocks))) == [(0, states), (1, states[1:])]
    assert list(from_block(blocks[0].slice(2))) == [(0, states[2:])]
    with pytest.raises(ValueError, match="no states"):
        to_block(0, [])
