"""How a model's reply is understood: its answer, what it cites, and whether it declines."""

from fdarx_core.evaluation.answers.given import citing_settings, read_given
from fdarx_core.evaluation.answers.prediction import predict
from fdarx_core.evaluation.answers.reading import Reading, read_reply

__all__ = ["Reading", "citing_settings", "predict", "read_given", "read_reply"]
