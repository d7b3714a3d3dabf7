"""States of a build as Arrow blocks: what is read from a block is what was written into it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.ray_data import from_block, to_block
from fdarx_core.records import QuestionAnswer, arrow_schema
from tests.conftest import EXAMPLES
from tests.pipeline.test_steps import build, identities


@pytest.fixture(scope="module")
def states() -> list[LabelState]:
    labels = identities(EXAMPLES)[:3]
    return [LabelState(labels[0]), *build(labels, GenerationConfig(passages=2, section_pairs=2, twins=1))]


def test_a_block_keeps_all_of_its_states(states: list[LabelState]) -> None:
    blocks = [to_block(number, states[number:], LabelState) for number in (0, 1)]
    assert list(from_block(blocks[0], LabelState)) == [(0, states)]
    assert list(from_block(pa.concat_tables(blocks), LabelState)) == [(0, states), (1, states[1:])]
    assert list(from_block(blocks[0].slice(2), LabelState)) == [(0, states[2:])]


def test_columns_have_the_schemas_of_the_records(states: list[LabelState]) -> None:
    block = to_block(7, states, LabelState)
    assert block["part"].to_pylist() == [7] * len(states)
    assert list(block.schema.field("questions").type.value_type) == list(arrow_schema(QuestionAnswer))


def test_states_of_any_class_are_pickled(states: list[LabelState]) -> None:
    assert list(from_block(to_block(2, ["a", ("b", 3)], None), None)) == [(2, ["a", ("b", 3)])]
    with pytest.raises(ValueError, match="no states"):
        to_block(0, [], None)
