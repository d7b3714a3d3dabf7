"""Write the example labels, guidelines and questions, which are part of the package, to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from fdarx_core.storage import Location
from jobs.cli import run_as

_EXAMPLES = files("fdarx_core") / "examples"


def example(*, out: str = "examples") -> int:
    """Write example labels of invented drugs, guidelines and questions on them to a folder, to try the other jobs.

    Parameters
    ----------
    out
        The folder, on disk or s3://. Files of the same names in it are replaced.
    """
    place = Location(out)
    place.check_writable()
    names = []
    for name, file in _files(_EXAMPLES):
        (place / name).write_bytes(file.read_bytes())
        names.append(name)
    labels = sum(name.startswith("labels/") for name in names)
    print(f"wrote {labels} labels of invented drugs and {len(names) - labels} other files to {out}")
    print(f"next: fdarx build --labels {place / 'labels'} --out runs/demo")
    return 0


def _files(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield all files below a folder, each with its path in it."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry, f"{above}{entry.name}/")
        else:
            yield above + entry.name, entry


if __name__ == "__main__":
    run_as("example")
