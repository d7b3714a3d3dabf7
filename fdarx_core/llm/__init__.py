"""Asking models: what is asked (`Task`), where requests go (`Model`, `HttpEndpoint`, `Baseline`), what was answered.

    Model           asks a model from Python, with plain calls or coroutines
    Task, Reply     a prompt, the reply it expects, and the rules that answer it without a model or raise Undecided;
                    Note, Quote, Name, CutTo: the limits of a reply's texts and lists
    Prompt          a YAML file in prompts/; Criteria: the experts' rules that some prompts include
    ModelConfig     a model and its server, one entry of models.yaml (`load_models`)
    Asker           sends the requests of a run to its endpoints: each key once, within a budget
    HttpEndpoint    a model on a server: limits, retries, structured output, streaming
    BatchEndpoint   a model asked through the batch API of its server; BatchRecords: the batches of a run
    BatchFileEndpoint   a model asked through files of requests, which any program answers
    Baseline        the built-in rules as an endpoint
    check_models    what models can do on their servers, and what to write in the models file
    ResponseStore   responses by their requests' keys; `ledger` sums up what they cost

What needs an HTTP client is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fdarx_core.llm.asker import Asker as Asker
from fdarx_core.llm.asker import BudgetReached as BudgetReached
from fdarx_core.llm.attempts import AsyncEndpoint as AsyncEndpoint
from fdarx_core.llm.attempts import Counters as Counters
from fdarx_core.llm.baseline import Baseline as Baseline
from fdarx_core.llm.baseline import ask as ask
from fdarx_core.llm.baseline import response_to as response_to
from fdarx_core.llm.failures import TRANSIENT as TRANSIENT
from fdarx_core.llm.failures import AskingStopped as AskingStopped
from fdarx_core.llm.failures import EndpointStopped as EndpointStopped
from fdarx_core.llm.model import Model as Model
from fdarx_core.llm.model_config import ModelConfig as ModelConfig
from fdarx_core.llm.model_config import ModelsError as ModelsError
from fdarx_core.llm.model_config import Prices as Prices
from fdarx_core.llm.model_config import load_models as load_models
from fdarx_core.llm.prompts import Criteria as Criteria
from fdarx_core.llm.prompts import Prompt as Prompt
from fdarx_core.llm.prompts import PromptError as PromptError
from fdarx_core.llm.reply import CutTo as CutTo
from fdarx_core.llm.reply import Name as Name
from fdarx_core.llm.reply import Note as Note
from fdarx_core.llm.reply import Quote as Quote
from fdarx_core.llm.reply import Reply as Reply
from fdarx_core.llm.response_store import ResponseStore as ResponseStore
from fdarx_core.llm.response_store import ledger as ledger
from fdarx_core.llm.task import Task as Task
from fdarx_core.llm.task import Undecided as Undecided
from fdarx_core.llm.task import Unparsable as Unparsable
from fdarx_core.llm.task import find_task as find_task
from fdarx_core.llm.task import request_key as request_key
from fdarx_core.llm.task import source_digest as source_digest

if TYPE_CHECKING:
    from fdarx_core.llm.batch_client import BatchRecord as BatchRecord
    from fdarx_core.llm.batch_client import BatchRecords as BatchRecords
    from fdarx_core.llm.batch_endpoint import BatchEndpoint as BatchEndpoint
    from fdarx_core.llm.batch_files import BatchFileEndpoint as BatchFileEndpoint
    from fdarx_core.llm.http_endpoint import HttpEndpoint as HttpEndpoint
    from fdarx_core.llm.model_check import check_models as check_models

_LATE = {
    "BatchEndpoint": "batch_endpoint",
    "BatchFileEndpoint": "batch_files",
    "BatchRecord": "batch_client",
    "BatchRecords": "batch_client",
    "HttpEndpoint": "http_endpoint",
    "check_models": "model_check",
}
"""The names that need an HTTP client, with their modules."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
