"""The extras of the package that whole jobs need, and what to do where a library of an extra is missing."""

from __future__ import annotations

from importlib.util import find_spec

EXTRA_OF: dict[str, str] = {
    "boto3": "s3",
    "botocore": "s3",
    "nltk": "eval",
    "sacrebleu": "eval",
    "rouge_score": "eval",
    "pypdf": "documents",
    "semantic_text_splitter": "documents",
    "mcp": "serve",
}
"""The extra that installs a module."""


def require(extra: str) -> None:
    """Raise `ModuleNotFoundError` where a module of an extra is not installed. Importing them would take seconds."""
    for module, name in EXTRA_OF.items():
        if name == extra and find_spec(module) is None:
            raise ModuleNotFoundError(missing(module), name=module)


def remedy(error: ModuleNotFoundError) -> str:
    """Return a line that says which extra to install, or "" where the missing module belongs to none."""
    module = (error.name or "").split(".")[0]
    return missing(module) if module in EXTRA_OF else ""


def missing(module: str) -> str:
    """Return a line that says how a module of an extra is installed."""
    return f"{module} is not installed; install it with: pip install 'fdarx[{EXTRA_OF[module]}]'"
