"""Who verifies the statements of an answer: the model that wrote it, or an engine of `fdarx_core.verify`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from fdarx_core.llm import Unparsable
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.search import RagBackend
from fdarx_core.records import Response
from fdarx_core.verify import AUTO, TextPair, Unjudged, Verdict, VerificationEngine, open_engine, verdict_of, verify
from fdarx_core.verify.engine import RuleEngine
from fdarx_core.verify.exact import ENGINE
from fdarx_core.verify.language_model import JUDGE_CLAIM, judge_asked, read_judged


class StatementVerifier(Protocol):
    """Verifies statements of one answer. `responses` are the replies of the model that was asked, if one was."""

    @property
    def name(self) -> str: ...

    @property
    def responses(self) -> Sequence[Response]: ...

    async def verify(self, pairs: Sequence[TextPair]) -> list[Verdict]:
        """Return a verdict for each pair, in order; undecided where the verifier fails."""


class EngineVerifier:
    """An engine of `fdarx_core.verify`; one that runs a model does so in a thread."""

    responses: tuple[Response, ...] = ()

    def __init__(self, engine: VerificationEngine) -> None:
        self._engine, self.name = engine, engine.name

    async def verify(self, pairs: Sequence[TextPair]) -> list[Verdict]:
        if isinstance(self._engine, RuleEngine):
            return verify(pairs, self._engine)
        return await asyncio.to_thread(verify, pairs, self._engine)


class AnswererVerifier:
    """The model that answers, asked about each statement with all that it cites; requests run concurrently."""

    def __init__(self, backend: RagBackend) -> None:
        self._backend, self.name = backend, backend.answerer
        self.responses = list[Response]()

    async def verify(self, pairs: Sequence[TextPair]) -> list[Verdict]:
        try:
            responses = await self._backend.ask("answerer", [(JUDGE_CLAIM, judge_asked([pair])) for pair in pairs])
        except Exception as error:  # the answer is there already: it stays, unverified
            return [verdict_of(Unjudged(f"failed_request: {error}"), self.name) for _ in pairs]
        self.responses += responses
        return [self._verdict(pair, response) for pair, response in zip(pairs, responses, strict=True)]

    def _verdict(self, pair: TextPair, response: Response) -> Verdict:
        try:
            [judgement] = read_judged(response, [pair])
        except Unparsable as error:
            return verdict_of(Unjudged(f"{error.reason}: {error.detail}"), self.name)
        return verdict_of(judgement, self.name)


def named_engine(verifier: str, answerer: str) -> VerificationEngine | None:
    """Return the engine of a verifier's name, as `fdarx.verify` takes it; None for the model that answers.

    `auto` is the answering model, for the baseline an NLI cross-encoder at hand, else exact matching. Raises what
    `open_engine` raises.
    """
    return None if verifier == AUTO and answerer != BASELINE else open_engine(verifier)


def statement_verifier(backend: RagBackend, engine: VerificationEngine | None) -> StatementVerifier:
    """Return the verifier of one answer. Without an engine it is the answering model, or exact matching without one."""
    if engine is None and backend.answerer != BASELINE:
        return AnswererVerifier(backend)
    return EngineVerifier(engine or ENGINE)


async def medicines_in(backend: RagBackend, texts: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return the medicines that each text names exactly, each with its names: as written, and those that labels have.

    Where the index does not answer, there are none.
    """
    try:
        found, absent = await asyncio.gather(
            backend.find_drugs(texts), asyncio.gather(*map(backend.absent_drugs, texts))
        )
    except Exception:  # the answer is there already: it stays, unverified
        return [[] for _ in texts]
    named = [[(one.text, one.name, *one.moieties) for one in mentions if one.exact] for mentions in found]
    return [[*own, *((one.name, one.medicine) for one in more)] for own, more in zip(named, absent, strict=True)]
