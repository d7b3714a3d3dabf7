"""Asking a model: what is asked (Task), where it goes (Endpoint), what was answered (ResponseStore)."""

from fdarx_core.llm.ask import ask
from fdarx_core.llm.asker import Asker, BudgetReached
from fdarx_core.llm.endpoints import TRANSIENT, Baseline, Endpoint, response_to
from fdarx_core.llm.exchange import AskingStopped, EndpointStopped
from fdarx_core.llm.http_endpoint import HttpEndpoint
from fdarx_core.llm.keys import request_key, source_digest
from fdarx_core.llm.models import ModelConfig, ModelsError, Prices, load_models
from fdarx_core.llm.prompts import Criteria, Prompt, PromptError
from fdarx_core.llm.server import Server
from fdarx_core.llm.store import ResponseStore
from fdarx_core.llm.streaming import stream
from fdarx_core.llm.task import Reply, Task, Unparsable
from fdarx_core.llm.text_task import TextTask
from fdarx_core.llm.tries import Counters

__all__ = [
    "TRANSIENT",
    "Asker",
    "AskingStopped",
    "Baseline",
    "BudgetReached",
    "Counters",
    "Criteria",
    "Endpoint",
    "EndpointStopped",
    "HttpEndpoint",
    "ModelConfig",
    "ModelsError",
    "Prices",
    "Prompt",
    "PromptError",
    "Reply",
    "ResponseStore",
    "Server",
    "Task",
    "TextTask",
    "Unparsable",
    "ask",
    "load_models",
    "request_key",
    "response_to",
    "source_digest",
    "stream",
]
