"""The OpenAPI document against the server, by requests that are made from it."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from serving.http import Overloaded, Unavailable
from tests.serving.http_world import LocalWorld, service

_QUICKLY = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
FAULTS = [None, Unavailable("the index"), Overloaded("the index")]


def takes_anything(operation: Any) -> bool:
    """Whether a request to it can be wrong: any text names a model, which may not be there."""
    parameters = {one["name"] for one in operation.get("parameters", ())} - {"model"}
    return bool(parameters) or "requestBody" in operation


@pytest.mark.service
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_requests_made_from_the_document_get_what_it_promises_and_never_500(mode: str) -> None:
    schemathesis: Any = pytest.importorskip("schemathesis")
    known = importlib.import_module("schemathesis.specs.openapi.checks")
    checks: list[Any] = [
        importlib.import_module("schemathesis.checks").not_a_server_error,
        known.content_type_conformance,
        known.response_schema_conformance,
        known.status_code_conformance,
        *([known.negative_data_rejection] if mode == "negative" else []),
    ]
    statuses: set[int] = set()
    with service(LocalWorld()) as served:
        schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
        for result in schema.get_all_operations():
            operation = result.ok()
            if mode == "negative" and not takes_anything(operation.definition.raw):
                continue

            @_QUICKLY
            @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
            def check(case: Any) -> None:
                response = case.call()
                statuses.add(response.status_code)
                case.validate_response(response, checks=checks)

            check()
    assert statuses >= ({200} if mode == "positive" else {422}), statuses


@pytest.mark.service
def test_whatever_is_asked_while_parts_fail_is_answered_in_the_documents_terms() -> None:
    schemathesis: Any = pytest.importorskip("schemathesis")
    known = importlib.import_module("schemathesis.specs.openapi.checks")
    checks = [known.response_schema_conformance, known.status_code_conformance]
    chance = random.Random(5)
    with service(LocalWorld(), longest_question=50, in_flight=1, waiting=0) as served:
        schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
        for path in ("/v1/answers", "/v1/search", "/v1/chat/completions"):

            @_QUICKLY
            @given(case=schema[path]["POST"].as_strategy())
            def check(case: Any) -> None:
                served.world.search_fault = chance.choice(FAULTS)
                response = case.call()
                assert response.status_code != 500
                case.validate_response(response, checks=checks)

            check()
