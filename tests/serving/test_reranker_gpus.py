"""What the service asks of Ray for its reranker."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from serving.config import ServiceConfig
from serving.qa_rag import build


def gpus(**fields: Any) -> dict[str, float]:
    """GPUs of each deployment, by its name."""
    ingress = build(ServiceConfig(corpora={"labels": "index"}, reranker_model="/models/bge", **fields))
    bound = [ingress, *ingress._bound_deployment.init_args]
    deployments = [one._bound_deployment for one in bound if hasattr(one, "_bound_deployment")]
    return {one.name: one.ray_actor_options["num_gpus"] for one in deployments}


def test_it_takes_its_share_and_the_others_none() -> None:
    assert gpus(reranker_gpus=0.25) == {"Ingress": 0, "Retriever": 0, "Model": 0, "Reranker": 0.25}
    assert gpus()["Reranker"] == 0


def test_more_than_one_card_is_refused() -> None:
    with pytest.raises(ValidationError, match="reranker_gpus"):
        gpus(reranker_gpus=2)
