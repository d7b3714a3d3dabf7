"""docs/tables.md has the columns of the records, and their documentation."""

from __future__ import annotations

from tests.docs.tables_page import MARK, PAGE, rendered


def test_the_page_of_the_tables_has_the_columns_of_the_records() -> None:
    generated = PAGE.read_text("utf-8").partition(MARK)[2].strip()
    assert generated == rendered().strip(), "run python -m tests.docs.tables_page, and commit docs/tables.md"
