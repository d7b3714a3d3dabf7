"""A stage that keeps the replies to requests on labels, in a module that Ray's workers can import."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.asking_ray import label_requests
from fdarx_core.pipeline.steps import Address, Exchange, Part
from fdarx_core.records import Request


class Label:
    """A label, and the replies to its requests."""

    def __init__(self, name: str) -> None:
        self.name, self.replies = name, [""]


def requests_of(address: Address, label: Label) -> list[Request]:
    """Return the requests of a label, which equal those of a label of the same name."""
    return label_requests(address, label.name)


def keep(label: Label, exchanges: Sequence[Exchange]) -> None:
    label.replies = [response.text for _, response in exchanges]


def read(part: Part) -> list[Label]:
    return [Label(name) for name in part.inputs]


def replies_of(number: int, labels: Sequence[Label]) -> list[tuple[str, list[str]]]:
    return [(label.name, label.replies) for label in labels]
