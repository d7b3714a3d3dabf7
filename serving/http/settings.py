"""What whoever runs the service may set about its HTTP side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fdarx_core.rag.strategies import STRATEGIES

MOST_CONTEXTS, MOST_CANDIDATES = 24, 100


def _strategy(name: str) -> str:
    if name not in STRATEGIES:
        raise ValueError(f"there is no strategy {name!r}; there is: {', '.join(STRATEGIES)}")
    return name


class ServiceSettings(BaseModel):
    """Limits, defaults, keys and logs of one replica."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys_file: Path | None = Field(
        None, description="Lines of NAME:SHA-256 of the keys that open /v1; read at start. None: no key is needed."
    )
    requests_per_minute: float | None = Field(
        None,
        gt=0,
        description="Answers, searches and chats of one key, or without keys of one client address, at one replica. "
        "Behind a proxy all addresses are the proxy's: use keys there. None: no limit.",
    )
    burst: int = Field(20, ge=1, description="How many of these may come at once after a rest.")
    in_flight: int = Field(
        128,
        ge=1,
        description="Requests that one replica works on at once. More wait in memory for the same model; fewer are "
        "refused sooner.",
    )
    waiting: int = Field(
        128, ge=0, description="Requests that may wait for one of these places; others get 503 at once."
    )
    wait_s: float = Field(1.0, ge=0, description="Seconds that one waits before it gets 503.")
    deadline_s: float = Field(
        60, gt=0, description="Seconds a request may take, answer included; X-Deadline-Ms may ask for less."
    )
    model_s: float = Field(
        25,
        gt=0,
        description="Seconds that a model may take for a reply, or in a stream for its next piece, before the request "
        "goes on without it, marked degraded. Twice this should fit into the deadline: some strategies ask twice.",
    )
    body_bytes: int = Field(
        1 << 20, ge=1024, description="The longest request body. Chat clients send a whole conversation each time."
    )
    longest_question: int = Field(4000, ge=1, description="Characters.")
    strategy: Annotated[str, AfterValidator(_strategy)] = Field("question", description="Where a request names none.")
    retriever: str = Field(
        "bm25", description="Where a request names none; a corpus without it is searched by its first one."
    )
    postprocess: str = Field("none", description="Where a request names none.")
    k: int = Field(6, ge=1, le=MOST_CONTEXTS, description="Passages shown to the model where a request says nothing.")
    candidates: int = Field(
        24, ge=1, le=MOST_CANDIDATES, description="Passages found before post-processing where a request says nothing."
    )
    log_questions: bool = Field(False, description="Write questions, and what failed in full, into the logs.")
