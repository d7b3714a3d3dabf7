"""The shell commands of the documentation: fenced blocks of README.md and docs/, and the jobs that they call."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>[^>]+) -->\n)?```(?:sh|bash)\n(?P<script>.*?)^```$", re.DOTALL | re.MULTILINE
)
_HEREDOC = re.compile(r"(<<'?(\w+)'?[^\n]*)\n.*?^\2$", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"\w+=")


@dataclass(frozen=True)
class Block:
    """A block of shell commands in a page. `needs` says what a test has not, such as a cluster; "" if it can be run."""

    page: Path
    line: int
    needs: str
    script: str

    @property
    def place(self) -> str:
        """The file and the line, for messages."""
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"

    @cached_property
    def commands(self) -> list[list[str]]:
        """The words of each command, without comments, redirections of input and settings of variables."""
        found: list[list[str]] = []
        for line in _HEREDOC.sub(r"\1", self.script).replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if not set(word) <= set("&|;"):
                    words.append(word)
                    continue
                while words and (words[0] == "export" or _ASSIGNMENT.match(words[0])):
                    del words[0]
                found += [words] if words else []
                words = []
        return found

    def jobs(self) -> Iterator[list[str]]:
        """Yield the arguments of each call of the command line, by its own name, by Python or submitted to Ray."""
        for words in self.commands:
            if words[0] == "fdarx":
                yield words[1:]
            elif words[:3] == ["ray", "job", "submit"]:
                yield _arguments(words[words.index("--") + 1 :])
            elif words[:2] == ["python", "-m"] and words[2].startswith("jobs."):
                yield _arguments(words)


def _arguments(words: list[str]) -> list[str]:
    """Return the arguments of `python -m jobs.cli JOB …` or `python -m jobs.MODULE …`."""
    assert words[:2] == ["python", "-m"], words
    module = words[2].removeprefix("jobs.")
    return words[3:] if module == "cli" else [_names()[module], *words[3:]]


def _names() -> dict[str, str]:
    """Return the names of the jobs on the command line, by their modules."""
    from jobs.cli import _JOBS

    return {target.partition(":")[0].removeprefix("jobs."): name for name, (target, _) in _JOBS.items()}


def blocks(page: Path) -> list[Block]:
    """Return the blocks of shell commands of a page."""
    text = page.read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, match.start("script")), match["needs"] or "", match["script"])
        for match in _BLOCK.finditer(text)
    ]
