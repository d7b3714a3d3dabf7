"""More labels than the examples: each several times, under set ids and in words of its own."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from tests.conftest import EXAMPLES

_WORDS = ("said", "usual", "whole", "given", "present", "former", "latter", "other")


def write_labels(folder: Path, times: int) -> Path:
    """At most eight times each."""
    folder.mkdir()
    for file in sorted(EXAMPLES.glob("*.xml")):
        text = file.read_text(encoding="utf-8").replace(" the ", " the {word} ")
        for word in _WORDS[:times]:
            set_id = str(uuid5(NAMESPACE_URL, file.name + word))
            copy = re.sub(r'(?<=<setId root=")[^"]*', set_id, text).replace("{word}", word)
            (folder / f"{file.stem}_{word}.xml").write_text(copy, encoding="utf-8")
    return folder
