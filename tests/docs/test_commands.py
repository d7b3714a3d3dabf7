"""The commands of the documentation exist, with the options that they are given; the rest of them is in test_wheel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs.cli import parse
from tests.conftest import REPOSITORY
from tests.docs.commands import PAGES, Block, blocks

BLOCKS = [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("block", [block for block in BLOCKS if list(block.jobs())], ids=lambda block: block.place)
def test_jobs_take_the_options(block: Block, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ids.txt").write_text("0be2e371-1f05-48d7-8f2e-f2024f3305f3\n")  # the only file that options are checked with
    for arguments in block.jobs():
        if "--config" in arguments and not block.needs:
            continue  # it is run, with the file that its block writes
        try:
            parse(arguments)
        except SystemExit as error:
            pytest.fail(f"{block.place}: fdarx {' '.join(arguments)}: exit code {error.code}")


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = {(block.place, words[1]) for block in BLOCKS for words in block.commands if words[0] == "make"}
    assert len(named) >= 3 and {name for _, name in named} <= targets, named


def test_every_command_is_read() -> None:
    """A job that stands in a block without a language would be checked by nothing."""
    for page in PAGES:
        fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        unread = [
            text for language, text in fences if language != "sh" and re.search(r"^(fdarx|make) ", text, re.MULTILINE)
        ]
        assert not unread, f"{page.name}: mark this block as ```sh: {unread[0]}"


def test_jobs_of_all_kinds_were_found() -> None:
    called = {arguments[0] for block in BLOCKS for arguments in block.jobs()}
    assert {"build", "evaluate", "index", "serve", "factuality", "fetch", "finetune", "review", "verify"} <= called
