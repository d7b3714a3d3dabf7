"""A job's configuration as one pydantic model: it makes the command line, reads YAML, and goes into run.json."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from fdarx_core.storage import Location, StorageError

WRONG_ARGUMENT = 2
"""The exit code of everything that is wrong before work starts."""


class JobConfig(BaseModel):
    """The base of all jobs' options. A field's description is its help text; unknown options are refused."""

    model_config = ConfigDict(extra="forbid")


Config = TypeVar("Config", bound=JobConfig)


def stop(message: str) -> NoReturn:
    """End the job with one clear line and exit code 2."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(WRONG_ARGUMENT)


def read_options(model: type[Config], arguments: Sequence[str] | None, *, prog: str, description: str) -> Config:
    """Options from the command line over those of `--config FILE` (YAML) over the defaults.

    A wrong option ends the program with one line and exit code 2.
    """
    parser = _parser(model, prog, description)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    config_file = given.pop("config", None)
    values = {**(_read_yaml(config_file) if config_file else {}), **given}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        stop(_first_problem(error, prog))


def _parser(model: type[JobConfig], prog: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=description, allow_abbrev=False)
    for name, field in _own_first(model):
        multiple = get_origin(_bare(field.annotation)) in (list, tuple)
        if _bare(field.annotation) is bool:
            parser.add_argument(_flag(name), dest=name, action="store_true", default=None, help=_help(field))
            continue
        parser.add_argument(
            _flag(name),
            dest=name,
            nargs="+" if multiple else None,
            metavar=_metavar(field, name),
            help=_help(field).replace("%", "%%"),
        )
    parser.add_argument("--config", metavar="FILE", help="YAML file with any of these options; the command line wins")
    return parser


def _own_first(model: type[JobConfig]) -> list[tuple[str, FieldInfo]]:
    """A job's own options, then those that it shares with others."""
    own = model.__annotations__
    return sorted(model.model_fields.items(), key=lambda item: item[0] not in own)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _bare(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        return next(arg for arg in get_args(annotation) if arg is not type(None))
    return annotation


def _metavar(field: FieldInfo, name: str) -> str:
    if _bare(field.annotation) in (int, float):
        return "N"
    one = name.removesuffix("s") if get_origin(_bare(field.annotation)) in (list, tuple) else name
    return one.replace("_", "-").upper()


def _help(field: FieldInfo) -> str:
    text = field.description or ""
    if field.is_required():
        return f"{text} (required)"
    default = field.get_default(call_default_factory=True)
    shown = " ".join(map(str, default)) if isinstance(default, (list, tuple)) else default
    return text if default in (None, [], (), False) else f"{text} (default: {shown})"


def _read_yaml(path: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(Location(path).read_text())
    except StorageError as error:
        stop(f"--config: {error}")
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        stop(f"--config {path} is no YAML: {error}")
    if not isinstance(values, dict):
        stop(f"--config {path} must hold options as `name: value` lines")
    return {str(name).replace("-", "_"): value for name, value in values.items()}


def _first_problem(error: ValidationError, prog: str) -> str:
    problem = error.errors()[0]
    option = _flag(str(problem["loc"][0])) if problem["loc"] else "options"
    given = "" if problem["type"] == "missing" else f" (given: {problem['input']!r})"
    says = problem["msg"].removeprefix("Value error, ")  # pydantic's word for what our own checks say
    return f"{option}: {says}{given}; see `{prog} --help`"
