"""Who verifies the statements of an answer: the model that wrote it, or an engine of `fdarx_core.verify`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fdarx_core.llm import AskingStopped, EndpointStopped, Unparsable
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.search import RagBackend
from fdarx_core.records import Response
from fdarx_core.verify import AUTO, Verdict, open_engine, verdict_of, verify
from fdarx_core.verify.engine import Judgement, RuleEngine, TextPair, Unjudged, VerificationEngine
from fdarx_core.verify.exact import ENGINE
from fdarx_core.verify.language_model import JUDGE_CLAIM, judge_slots, read_judged


class StatementVerifier:
    """Verifies statements of one answer: by an engine, else by the model that answers, else by exact matching.

    Attributes:
        name: the name of the engine or model.
        responses: the replies of the model, if it was asked.
    """

    def __init__(self, backend: RagBackend, engine: VerificationEngine | None) -> None:
        self._backend = backend
        self._engine = ENGINE if engine is None and backend.answerer == BASELINE else engine
        self.name = backend.answerer if self._engine is None else self._engine.name
        self.responses = list[Response]()

    async def verify(self, pairs: Sequence[TextPair]) -> list[Verdict]:
        """Return a verdict for each pair, in order; undecided where the verifier fails.

        Raises AskingStopped where the model is to be asked later (pending replies of batch files, a budget).

        An engine that runs a model does so in a thread. The model that answers is asked about each statement with all
        that it cites; requests run concurrently.
        """
        if isinstance(self._engine, RuleEngine):
            return verify(pairs, self._engine)
        if self._engine is not None:
            return await asyncio.to_thread(verify, pairs, self._engine)
        try:
            responses = await self._backend.ask("answerer", [(JUDGE_CLAIM, judge_slots([pair])) for pair in pairs])
        except Exception as error:  # the answer is there already: it stays, unverified
            if isinstance(error, AskingStopped) and not isinstance(error, EndpointStopped):
                raise  # a later run asks for the verdict
            return [verdict_of(Unjudged(f"failed_request: {error}"), self.name) for _ in pairs]
        self.responses += responses
        verdicts = list[Verdict]()
        for pair, response in zip(pairs, responses, strict=True):
            judgement: Judgement
            try:
                [judgement] = read_judged(response, [pair])
            except Unparsable as error:
                judgement = Unjudged(f"{error.reason}: {error.detail}")
            verdicts.append(verdict_of(judgement, self.name))
        return verdicts


def named_engine(verifier: str, answerer: str) -> VerificationEngine | None:
    """Return the engine of a verifier's name, as `fdarx.verify` takes it; None for the model that answers.

    `auto` is the answering model, for the baseline an NLI cross-encoder at hand, else exact matching. Raises what
    `open_engine` raises.
    """
    return None if verifier == AUTO and answerer != BASELINE else open_engine(verifier)


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
    found = found or [[] for _ in texts]
    named = [
        [(mention.text, mention.name, *mention.moieties) for mention in mentions if mention.exact] for mentions in found
    ]
    return [[*own, *((drug.name, drug.medicine) for drug in more)] for own, more in zip(named, absent, strict=True)]
