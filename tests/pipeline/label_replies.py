"""A stage that keeps the replies to requests on labels, in a module that Ray's workers can import."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.pipeline.steps import Address, Asking, Part
from fdarx_core.records import Request

_REQUESTS = 16


class Label:
    """A label, and the replies to its requests."""

    def __init__(self, name: str) -> None:
        self.name, self.replies = name, [""]


def ask_of(address: Address, label: Label) -> Asking:
    """Ask about a label; the requests equal those of a label of the same name."""
    exchanges = yield label_requests(address, label.name)
    label.replies = [response.text for _, response in exchanges]


def label_requests(address: Address, set_id: str) -> list[Request]:
    """Return sixteen requests about a label, each different."""
    return [_request(address, f"{set_id}-{number}") for number in range(_REQUESTS)]


def _request(address: Address, name: str) -> Request:
    text = f"{name}: the recommended starting dose is 40 mg once daily, taken with food. " * 12
    slots = {
        "drug": name,
        "ingredients": "",
        "forms": "",
        "outline": "",
        "passages": [{"section": "", "table": "", "text": text}],
        "about": "",
        "absent": [],
        "twin": "near_miss",
        "k": 3,
        "prefer": "",
        "written": [],
    }
    return address.request(GENERATE_FACTUAL, slots)


def read(part: Part) -> list[Label]:
    return [Label(name) for name in part.inputs]


def replies_of(number: int, labels: Sequence[Label]) -> list[tuple[str, list[str]]]:
    return [(label.name, label.replies) for label in labels]
