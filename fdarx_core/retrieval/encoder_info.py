"""Which embedding model made an index's vectors, told apart from others without loading it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

_WEIGHTS = {".safetensors", ".bin", ".pt", ".onnx", ".msgpack", ".h5"}
_HEAD = 1 << 20
"""Bytes of a weights file that are read at each end: its header and, nearly always, numbers that training moved."""


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """An embedding model as an index knows it.

    `instruction` stands in front of every question, "" where the model has none; `normalised`: vectors have length 1.
    """

    name: str
    fingerprint: str
    dimensions: int
    instruction: str = ""
    normalised: bool = True

    def makes_vectors_of(self, other: EncoderInfo) -> bool:
        """Whether the vectors of both can be compared; the instruction may differ, questions alone carry it."""
        mine = (self.fingerprint, self.dimensions, self.normalised)
        return mine == (other.fingerprint, other.dimensions, other.normalised)


def fingerprint(directory: str) -> str:
    """16 hexadecimal digits: of the text files' content, and of each weights file its size and first and last MiB.

    So it costs milliseconds on any size of model; weights changed only in the middle of a file would pass unseen.
    """
    root = Path(directory)
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(path for path in root.rglob("*") if path.is_file() and _counts(path.relative_to(root))):
        digest.update(f"{file.relative_to(root).as_posix()}\0{file.stat().st_size}\0".encode())
        digest.update(_ends(file) if file.suffix in _WEIGHTS else file.read_bytes())
    return digest.hexdigest()


def _counts(path: Path) -> bool:
    """A card or a download's marks change nothing about the vectors."""
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and (path.suffix in _WEIGHTS or path.suffix in {".json", ".txt", ".model"})


def _ends(file: Path) -> bytes:
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
        stream.seek(max(0, file.stat().st_size - _HEAD))
        return head + stream.read(_HEAD)
