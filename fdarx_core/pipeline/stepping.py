"""What a step is, and the plain way to run steps. They know no Ray: any loop over them comes to the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from fdarx_core.llm import Baseline, ResponseStore, ask
from fdarx_core.records import Request, Response

File = TypeVar("File")
FileIn = TypeVar("FileIn", contravariant=True)
"""What travels through steps: all that is known of one label so far (a Dossier, a Sitting)."""

Asked: TypeAlias = tuple[Request, Response]
Answer = Callable[[Sequence[Request]], list[Response]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a request goes, and what of the endpoint enters its key: `Endpoint` without the means to answer."""

    name: str
    sampling: Mapping[str, Any]


class Working(Protocol[FileIn]):
    """A step that needs nothing but the file."""

    def __call__(self, file: FileIn, /) -> None: ...


@runtime_checkable
class Asking(Protocol[FileIn]):
    """A step in two halves, what to ask and what to make of the answers, with whoever asks in between."""

    @property
    def endpoints(self) -> frozenset[str]:
        """The names of those that it asks."""
        ...

    def requests(self, file: FileIn, /) -> list[Request]: ...

    def take(self, file: FileIn, asked: Sequence[Asked], /) -> None:
        """Each of the requests with its response, in their order."""
        ...


Step: TypeAlias = Working[File] | Asking[File]


@dataclass(frozen=True, slots=True)
class AskBaseline:
    """Answers requests by built-in rules, through the run's response store."""

    rules: Baseline
    store: ResponseStore | None = None

    def __call__(self, requests: Sequence[Request]) -> list[Response]:
        return ask(requests, self.rules, self.store)


def run_steps(steps: Sequence[Step[File]], files: Sequence[File], answer: Answer) -> list[File]:
    """Take files through the steps together; the requests of all go out at once, those of one label in a row."""
    for step in steps:
        if isinstance(step, Asking):
            requests = [step.requests(file) for file in files]
            responses = iter(answer([request for listed in requests for request in listed]))
            for file, listed in zip(files, requests, strict=True):
                step.take(file, [(request, next(responses)) for request in listed])
        else:
            for file in files:
                step(file)
    return list(files)
