"""The actors of a scoring: which are needed, how many, and what of the GPUs each has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fdarx_core.factuality.evidence import EvidenceSpec
from fdarx_core.pipeline.factuality.checks import Holders
from fdarx_core.pipeline.factuality.finding import EvidenceHolder
from fdarx_core.pipeline.factuality.flagging import SafetyHolder
from fdarx_core.pipeline.factuality.judging import NliHolder
from fdarx_core.pipeline.factuality.scoring import SimilarityHolder
from fdarx_core.pipeline.factuality.what import Checking
from fdarx_core.pipeline.parted.pool import Hired, Pool
from fdarx_core.pipeline.sweep.windows import cluster_has

_CPUS_A_MODEL = 8
"""Of a machine without GPUs: a model takes several cores, and more models more memory."""
_CPUS_A_SOURCE = 4
_MOST_SOURCES = 16


def holders_of(hired: Hired, checking: Checking, synonyms: Mapping[str, Sequence[str]], *, planned: bool) -> Holders:
    """The actors; of a plan, the source of evidence alone. `synonyms` are as in `Safety`.

    Where there are GPUs each kind that computes on them has one actor a GPU, and all kinds share it alike.
    """
    spec = EvidenceSpec.parse(checking.evidence)
    nli = [engine for engine in checking.engines if engine.kind == "nli"]
    measured = bool(checking.bertscore or checking.encoder)
    kinds = len(nli) + measured + (spec.kind == "index")
    gpus, cpus = cluster_has("GPU"), cluster_has("CPU")
    share = round(0.99 / kinds, 2) if gpus and kinds else 0
    models = gpus or max(1, cpus // _CPUS_A_MODEL)
    sources = gpus if share and spec.kind == "index" else min(_MOST_SOURCES, max(1, cpus // _CPUS_A_SOURCE))
    of_index = share if spec.kind == "index" else 0
    evidence = Pool() if spec.is_pubmed else hired.pool(EvidenceHolder, (checking,), sources, gpus=of_index)
    if planned:
        return Holders(evidence)
    return Holders(
        evidence,
        hired.pool(SimilarityHolder, (checking,), gpus or 1, gpus=share) if measured else Pool(),
        hired.pool(SafetyHolder, (checking, synonyms)) if checking.safety else Pool(),
        {engine.name: hired.pool(NliHolder, (engine,), models, gpus=share) for engine in nli},
    )
