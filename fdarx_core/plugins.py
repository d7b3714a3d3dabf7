"""Components by name: the built-in ones, and those that installed packages register as entry points.

A package adds a component in its `pyproject.toml`, without a change in FDARx:

    [project.entry-points."fdarx.retrievers"]
    my_retriever = "my_package.module:factory"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

ItemT = TypeVar("ItemT")


class PluginError(ValueError):
    """An installed package registers a component that cannot be used; the message names the package."""


def load_plugins(group: str, noun: str, *kinds: Any, taken: Iterable[str] = ()) -> dict[str, Any]:
    """Import all components of an entry point group; return them by name, in the order of the names.

    Args:
        group: the entry point group.
        noun: what an entry point must name, such as "function".
        kinds: the types of such components.
        taken: the names of the built-in components.

    Raises:
        PluginError: two components have the same name, or a component cannot be imported or is of another type.
    """
    found = {name: _load(entry) for name, entry in sorted(_entry_points(group).items())}
    for name, component in found.items():
        if not isinstance(component, kinds):
            raise PluginError(f"entry point {name!r} of {group} is a {type(component).__name__}; name a {noun}")
        if name in taken:
            raise PluginError(f"entry point {name!r} of {group}: {name!r} exists already; rename it")
    return found


def plugin_packages(*groups: str) -> dict[str, dict[str, str]]:
    """Return the package and version behind each component of these groups, for what identifies a run; imports none.

    Groups without components are left out.
    """
    found = {group: {name: _package(entry) for name, entry in sorted(_entry_points(group).items())} for group in groups}
    return {group: packages for group, packages in found.items() if packages}


class Registry(Generic[ItemT]):
    """The components of one kind: `builtin` ones, and the entry points of the group `fdarx.KINDs`, spaces as `_`.

    A component is imported when it is used: a broken package fails only those who ask for its component.
    """

    def __init__(self, kind: str, builtin: Mapping[str, ItemT]) -> None:
        self.kind = kind
        self.group = f"fdarx.{kind.replace(' ', '_')}s"
        self.builtin = dict(builtin)

    def __contains__(self, name: str) -> bool:
        return name in self.builtin or name in _entry_points(self.group)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names: the built-in ones in their order, then those of packages, sorted."""
        return iter([*self.builtin, *sorted(_entry_points(self.group).keys() - self.builtin.keys())])

    def __getitem__(self, name: str) -> ItemT:
        """Return the component of that name.

        Raises ValueError for an unknown name, PluginError for a component that cannot be imported.
        """
        if name in self.builtin:
            return self.builtin[name]
        entry = _entry_points(self.group).get(name)
        if entry is None:
            raise ValueError(f"there is no {self.kind} {name!r}; known are {', '.join(self)}")
        return cast(ItemT, _load(entry))


def _entry_points(group: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise PluginError(
                f"{_package(other)} and {_package(entry)} both have an entry point {entry.name!r} in {group}; "
                "uninstall one of them"
            )
    return found


def _load(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # a foreign package may raise anything
        raise PluginError(
            f"{_package(entry)} has an entry point {entry.name!r} in {entry.group}, {entry.value}, that cannot be "
            f"imported ({type(error).__name__}: {error}); update or uninstall the package"
        ) from error


def _package(entry: EntryPoint) -> str:
    return f"package {entry.dist.name} {entry.dist.version}" if entry.dist else "an installed package"
