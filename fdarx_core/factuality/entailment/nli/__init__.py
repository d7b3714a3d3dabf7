"""Entailment by an NLI cross-encoder. Source: FAS §3.2."""

from fdarx_core.factuality.entailment.nli.judging import BATCH, NliEntailment
from fdarx_core.factuality.entailment.nli.labels import OPTION, Classes
from fdarx_core.factuality.entailment.nli.model import check_nli

__all__ = ["BATCH", "OPTION", "Classes", "NliEntailment", "check_nli"]
