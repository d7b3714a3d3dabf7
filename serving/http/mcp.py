"""The tools of the Model Context Protocol (MCP), by streamable HTTP: what /v1 answers, for agents.

Each request is complete in itself: the server keeps no sessions, so that any replica can serve it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.routing import Route

from fdarx_core.retrieval.index import IndexReader
from fdarx_core.specs.serve import MAX_CONTEXTS, ServiceSettings
from serving.backend import RayServeBackend
from serving.http.answering import AnswerService, select_corpus
from serving.http.labels import ComparisonQuery, SectionQuery, comparison_reply, section_reply
from serving.http.logs import RequestLog, request_log
from serving.http.responses import error_reply, unknown_name_error, validation_error
from serving.http.schemas import (
    MAX_TURNS,
    AnswerReply,
    ComparisonReply,
    HistoryTurn,
    NamesReply,
    PlainText,
    SearchFilter,
    SearchReply,
    SearchRequest,
    SectionReply,
    ShortText,
)

PATH = "/mcp"

_INSTRUCTIONS = (
    "Tools for FDA drug labels and regulatory guidelines. Each result names the drug, labeler, version and effective "
    "date of the label it is from, with its address on DailyMed: quote them. What has `uploaded_by` was uploaded by a "
    "client of this server and is no published label: say so. Not for clinical use: check every answer "
    "against its passages."
)


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class QuestionArguments(_Arguments):
    """A question or search text."""

    question: PlainText = Field(min_length=1, description="In plain words; name the drug that it is about.")
    corpus: ShortText | None = Field(None, description="Name of the corpus; by default the first of the server.")
    filter: SearchFilter | None = Field(None, description="Restricts which passages may be found.")
    k: int | None = Field(None, ge=1, le=MAX_CONTEXTS, description="Number of passages.")
    history: list[HistoryTurn] = Field(
        default_factory=list,
        max_length=MAX_TURNS,
        description="Earlier questions and answers of the conversation, oldest first, if the question refers to them.",
    )


class NamesArguments(_Arguments):
    """Names of drugs or documents."""

    prefix: ShortText = Field("", description="Text that a name of the drug or document begins with; empty: any name.")
    corpus: ShortText | None = Field(None, description="Name of the corpus; by default the first of the server.")
    limit: int = Field(25, ge=1, le=100, description="Maximum number of names.")


class SectionArguments(_Arguments, SectionQuery):
    """A section of a label."""


class ComparisonArguments(_Arguments, ComparisonQuery):
    """A section of two labels."""


@dataclass(frozen=True)
class _Tool:
    """A tool: its models of arguments and result, and the function that returns a result as plain values."""

    title: str
    description: str
    arguments: type[BaseModel]
    result: type[BaseModel]
    call: Callable[[Any, RequestLog], Awaitable[dict[str, Any]]]

    def listed(self, name: str) -> Tool:
        """Return the tool as clients see it."""
        return Tool(
            name=name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.result.model_json_schema(mode="serialization"),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )


def _tools(backend: RayServeBackend, service: AnswerService) -> dict[str, _Tool]:
    def asked(arguments: QuestionArguments) -> SearchRequest:
        return SearchRequest(**dict(arguments))

    async def names(arguments: NamesArguments, log: RequestLog) -> dict[str, Any]:
        log.corpus = select_corpus(arguments.corpus, backend).name
        return {"names": await backend.run_on_index(log.corpus, IndexReader.names, arguments.prefix, arguments.limit)}

    return {
        "search_labels": _Tool(
            "Search drug labels",
            "Find the passages of FDA drug labels (or of another corpus of this server) that are relevant to a "
            "question, best first, without an answer. If the question names drugs, only their labels are searched.",
            QuestionArguments,
            SearchReply,
            lambda arguments, log: service.search(asked(arguments), log),
        ),
        "list_names": _Tool(
            "List the names of drugs",
            "List the drugs that have labels in a corpus (or the titles of its documents), also by other names of a "
            "drug: brand, generic, substance or moiety. Filters take these names.",
            NamesArguments,
            NamesReply,
            names,
        ),
        "get_label_section": _Tool(
            "Get a section of a label",
            "Return the whole text of one section of a drug's label, such as Contraindications, with its subsections. "
            "An exact lookup: if there is no such label or section, the error names those that there are.",
            SectionArguments,
            SectionReply,
            lambda arguments, log: section_reply(backend, arguments, log),
        ),
        "answer_with_citations": _Tool(
            "Answer a question with citations",
            "Answer a question from the passages of labels or guidelines, with citations [n] of the passages. "
            "`refused` means that the passages do not answer it, `withheld` that the model answered and no statement "
            "passed the check against the passages; `degraded` names parts of the service that failed.",
            QuestionArguments,
            AnswerReply,
            lambda arguments, log: service.answer(asked(arguments), log),
        ),
        "compare_labels": _Tool(
            "Compare two labels",
            "Return the same section of two drugs or two labels, and the sentences in which they differ.",
            ComparisonArguments,
            ComparisonReply,
            lambda arguments, log: comparison_reply(backend, arguments, log),
        ),
    }


class McpServer:
    """The MCP server of one application. `run` must be entered while `route` is served."""

    def __init__(self, backend: RayServeBackend, service: AnswerService, settings: ServiceSettings) -> None:
        self._tools = _tools(backend, service)
        self._log_questions = settings.log_questions

        async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
            return ListToolsResult(tools=[tool.listed(name) for name, tool in self._tools.items()])

        server: Server[Any] = Server(
            "fdarx",
            title="FDARx",
            version="1",
            instructions=_INSTRUCTIONS,
            on_list_tools=list_tools,
            on_call_tool=self._call_tool,
        )
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=settings.body_bytes
        )
        self.run = manager.run
        self.route = Route(PATH, manager.asgi_app, methods=["POST"])
        """There is no GET: a server without sessions has nothing to send without being asked."""

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        """Return the result, or an error that says what to do, as the routes under /v1 do."""
        assert isinstance(context.request, Request)
        try:
            result = orjson.dumps(await self._result(params, request_log(context.request.scope)))
        except Exception as error:
            reply = error_reply(error, context.request.scope, log_questions=self._log_questions)
            return CallToolResult(content=[TextContent(type="text", text=reply.message)], is_error=True)
        text = TextContent(type="text", text=result.decode())
        return CallToolResult(content=[text], structured_content=orjson.loads(result))

    async def _result(self, params: CallToolRequestParams, log: RequestLog) -> dict[str, Any]:
        if params.name not in self._tools:
            raise unknown_name_error(params.name, [*self._tools], param="tool")
        tool = self._tools[params.name]
        log.tool = params.name
        try:
            arguments = tool.arguments.model_validate(params.arguments or {})
        except ValidationError as error:
            details = [{**detail, "loc": ("arguments", *detail["loc"])} for detail in error.errors()]
            raise validation_error(details) from None
        return await tool.call(arguments, log)
