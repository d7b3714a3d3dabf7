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


def load_plugins(group: str, expected: str, *types: Any, builtin_names: Iterable[str] = ()) -> dict[str, Any]:
    """Import all components of an entry point group; return them by name, in the order of the names.

    Args:
        group: the entry point group.
        expected: what a component must be, such as "function", for messages.
        types: the types of such components.
        builtin_names: the names of the built-in components, which no entry point may have.

    Raises:
        PluginError: two components have the same name, or a component cannot be imported or is of another type.
    """
    components = {name: _import_component(entry) for name, entry in sorted(_entry_points(group).items())}
    for name, component in components.items():
        if not isinstance(component, types):
            found = type(component).__name__
            raise PluginError(f"entry point {name!r} of {group} has type {found}; it must be a {expected}")
        if name in builtin_names:
            raise PluginError(f"entry point {name!r} of {group}: {name!r} is a built-in name; rename the entry point")
    return components


def plugin_packages(*groups: str) -> dict[str, dict[str, str]]:
    """Return the package and version of each component of these groups, as used in the id of a run.

    Nothing is imported. Groups without components are left out.
    """
    packages_by_group: dict[str, dict[str, str]] = {}
    for group in groups:
        if entries := _entry_points(group):
            packages_by_group[group] = {name: _package_text(entry) for name, entry in sorted(entries.items())}
    return packages_by_group


class Registry(Generic[ItemT]):
    """The components of one kind: `builtin` ones, and those of the group `fdarx.<kind>s`, with `_` for spaces.

    A component is imported when it is used: a broken package is an error only when its component is requested. A
    built-in component hides an entry point of the same name, which `load_plugins` refuses.
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
            raise ValueError(f"there is no {self.kind} {name!r}; choose one of {', '.join(self)}")
        return cast(ItemT, _import_component(entry))


def _entry_points(group: str) -> dict[str, EntryPoint]:
    entries: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        earlier = entries.setdefault(entry.name, entry)
        if earlier.value != entry.value:
            packages = f"{_package_text(earlier)} and {_package_text(entry)}"
            raise PluginError(f"{packages} both have an entry point {entry.name!r} in {group}; uninstall one of them")
    return entries


def _import_component(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # a foreign package may raise anything
        raise PluginError(
            f"{_package_text(entry)} has an entry point {entry.name!r} in {entry.group}, {entry.value}, that cannot be "
            f"imported ({type(error).__name__}: {error}); update or uninstall the package"
        ) from error


def _package_text(entry: EntryPoint) -> str:
    return f"package {entry.dist.name} {entry.dist.version}" if entry.dist else "an installed package"
