"""Hooks of MkDocs: pages that are made from the code and from Markdown files outside docs/, and links to the latter.

MkDocs loads this file by its name in mkdocs.yml.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import fdarx_core
from jobs import cli

_REPOSITORY = Path(__file__).parent.parent
_INCLUDED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "fdarx_core/examples/README.md": "example-labels.md",
    "fdarx_core/review/judged/README.md": "judged-candidates.md",
}
"""Pages of the site by the files of the repository that they are."""

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_RETURNED = ("fdarx_core.storage.RunDirectory", "fdarx_core.verify.Verdict")
"""Classes that functions of the public API return."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    pages = {page: (_REPOSITORY / source).read_text("utf-8") for source, page in _INCLUDED.items()}
    pages |= {"command-line.md": cli.reference(), "api.md": _api_page()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links between files of the repository to pages of the site."""
    uri = page.file.src_uri
    source = next((file for file, name in _INCLUDED.items() if name == uri), f"docs/{uri}")
    return _LINK.sub(lambda link: _linked(link, posixpath.dirname(source)), markdown)


def _linked(link: re.Match[str], folder: str) -> str:
    """Return a link of a file in that folder as a link of the site. A file that is no page gets no link."""
    text, target, anchor = link[1], link[2], link[3] or ""
    file = posixpath.normpath(posixpath.join(folder, target))
    if file.startswith("docs/"):
        return f"[{text}]({file.removeprefix('docs/')}{anchor})"
    if file in _INCLUDED:
        return f"[{text}]({_INCLUDED[file]}{anchor})"
    return text if (_REPOSITORY / file).exists() else link[0]  # a strict build reports what does not exist


def _api_page() -> str:
    """Return the page of the public API: each name of `fdarx_core`, and the classes that its functions return."""
    parts = [
        "# Functions and classes",
        "After `import fdarx_core as fdarx`. [The Python API](python.md) shows how they are used together.",
    ]
    paths = {f"fdarx.{name}": f"{module}.{name}" for name, module in sorted(fdarx_core.PUBLIC_NAMES.items())}
    paths |= {path.rpartition(".")[2]: path for path in _RETURNED}
    # mkdocstrings reads the documentation of each object from its docstring
    parts += [f"::: {path}\n    options: {{heading: {title}, toc_label: {title}}}" for title, path in paths.items()]
    return "\n\n".join(parts)
