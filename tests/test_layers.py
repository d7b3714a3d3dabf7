"""The layers of the library: rooms import only the rooms below them, and only three of the folders import Ray."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

FILES = sorted(
    file.relative_to(REPOSITORY)
    for top in ("fdarx_core", "serving", "jobs")
    for file in (REPOSITORY / top).rglob("*.py")
)
RAY = {("fdarx_core", "pipeline"), ("serving",), ("jobs",)}


def _name(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {_name(str(file)) for file in FILES}


def imported(file: str) -> set[str]:
    """The names of the modules that a file imports, inside functions too, but not those for type checking alone."""
    tree = ast.parse((REPOSITORY / file).read_text())
    names: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level and node.module, f"{file} has a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES
            names |= inner or {node.module}
        todo += ast.iter_child_nodes(node)
    return names


IMPORTS = {_name(str(file)): imported(str(file)) for file in FILES}


def room(module: str) -> str:
    """The room of a module: the folder of the library, or the folder at the top."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "fdarx_core" else parts[0]


def test_modules_import_each_other_in_no_circle() -> None:
    # `static_order` raises CycleError, which names the circle.
    list(TopologicalSorter({name: (names & MODULES) - {name} for name, names in IMPORTS.items()}).static_order())


def test_rooms_import_each_other_in_no_circle() -> None:
    rooms: dict[str, set[str]] = {}
    for module, names in IMPORTS.items():
        if module != "fdarx_core":  # the public API reaches everything, when it is first used
            below = {room(name) for name in names if name in MODULES and name != "fdarx_core"}
            rooms.setdefault(room(module), set()).update(below - {room(module)})
    list(TopologicalSorter(rooms).static_order())


@pytest.mark.parametrize("file", [file for file in FILES if not {file.parts[:1], file.parts[:2]} & RAY], ids=str)
def test_ray_is_imported_by_pipeline_serving_and_jobs_alone(file: Path) -> None:
    assert not {name for name in IMPORTS[_name(str(file))] if name.split(".")[0] == "ray"}
