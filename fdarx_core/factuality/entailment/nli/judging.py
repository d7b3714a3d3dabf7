"""Entailment by an NLI cross-encoder of transformers. Source: FAS §3.2, §4 (512 tokens, batches of 16)."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.factuality.entailment.inference import Inference, Judgement, Pair, Unjudged
from fdarx_core.factuality.entailment.nli.inputs import Input, Inputs
from fdarx_core.factuality.entailment.nli.labels import Classes
from fdarx_core.factuality.entailment.nli.model import check_nli, load, name_of
from fdarx_core.factuality.entailment.nli.running import Outcome, Runner
from fdarx_core.retrieval import models

BATCH = 16
"""Source: FAS §4."""


class NliEntailment:
    """A model from a local directory, or by its name on the hub; half precision on a GPU.

    Args:
        labels: the classes of the model's outputs in their order, where its configuration does not name them.
        batch: pairs of 512 tokens to judge at once, of shorter ones more, of longer ones fewer; on a CPU 2 at most.
        device: as torch names it; cuda where there is one, else cpu.

    Raises `ModelMissing` for what is no NLI cross-encoder.
    """

    def __init__(
        self, model: str, *, labels: Sequence[str] | None = None, batch: int = BATCH, device: str | None = None
    ) -> None:
        self._classes = check_nli(model, labels)
        self.name = name_of(model)
        loaded = load(model, device or models.device())
        self._inputs = Inputs(loaded.tokenizer, loaded.longest)
        self._runner = Runner(loaded, self._inputs.frame, batch)

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """One a pair, in their order. A passage that does not fit beside the whole claim is read in windows.

        Of several windows the one kept has the highest probability of entailment or of contradiction. `Unjudged` is
        what can't be read (no_text, claim_too_long) or run (out_of_memory, not_finite).
        """
        # pairs that differ in nothing that the model reads are judged once
        distinct = list(dict.fromkeys(Pair(pair.premise, pair.hypothesis) for pair in pairs))
        judged = dict(zip(distinct, self._judged(distinct), strict=True))
        return [judged[Pair(pair.premise, pair.hypothesis)] for pair in pairs]

    def _judged(self, pairs: Sequence[Pair]) -> list[Judgement]:
        readings = self._inputs.of(pairs)
        flat = [one for found in readings if not isinstance(found, Unjudged) for one in found]
        outcomes = iter(zip(flat, self._runner.probabilities(flat), strict=True))
        return [
            found if isinstance(found, Unjudged) else best([next(outcomes) for _ in found], self._classes)
            for found in readings
        ]


def best(outcomes: Sequence[tuple[Input, Outcome]], classes: Classes) -> Judgement:
    """The window that says most, for or against; of equals the first. Any that could not be run leaves all unjudged."""
    for _, outcome in outcomes:
        if isinstance(outcome, Unjudged):
            return outcome
    found = [_inference(one, outcome, classes) for one, outcome in outcomes if not isinstance(outcome, Unjudged)]
    chosen = max(range(len(found)), key=lambda number: max(found[number].entailment, found[number].contradiction))
    return found[chosen]


def _inference(one: Input, row: list[float], classes: Classes) -> Inference:
    contradiction = 0.0 if classes.contradiction is None else row[classes.contradiction]
    return Inference(row[classes.entailment], row[classes.neutral], contradiction, one.window.start, one.window.end)
