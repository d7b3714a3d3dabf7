"""The options of `fdarx serve`."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from fdarx_core.rag.postprocess import POSTPROCESSORS
from jobs.asking_config import load_all
from jobs.roles_config import RolesConfig, check_roles
from serving.config import ServiceConfig
from serving.http.settings import ServiceSettings

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)")


class ServeConfig(ServiceSettings, RolesConfig):
    """Options of `fdarx serve`: its own, then those of its HTTP side."""

    index: list[str] = Field(
        default_factory=list,
        description="[NAME=]INDEX, one or more indexes of `fdarx index`, on disk or s3://, and the names they are "
        "served under (those of their folders); the first is searched where a request names none",
    )
    port: int = Field(8000, ge=1, le=65535, description="port to answer at")
    host: str = Field("127.0.0.1", description="address to answer at; 0.0.0.0 lets other machines in, then set keys")
    replicas: int = Field(
        1,
        ge=1,
        description="processes for each of HTTP, search and models; more use more cores, and memory for indexes",
    )
    poll_s: float = Field(3.0, gt=0, description="seconds between looks for a newer version of an index")
    log: str | None = Field(None, description="file to log requests to, a line of JSON each (Ray's own logs)")
    metrics_port: int | None = Field(None, ge=1, le=65535, description="port for Prometheus (none that is fixed)")
    new_key: str | None = Field(
        None, description="make an API key of this name, add it to --keys-file, print it, and end"
    )

    @model_validator(mode="after")
    def _sensible(self) -> ServeConfig:
        if self.new_key is not None:
            if self.keys_file is None:
                raise ValueError("--new-key wants --keys-file, the file to add it to")
        elif not self.index:
            raise ValueError("--index is missing: give an index of `fdarx index`")
        return self

    def service(self) -> ServiceConfig:
        """What the service is told. Raises ModelsError for a models file or a name, ValueError for any other option."""
        models = load_all(self.models)
        check_roles(self.played, models)
        self._check_defaults()
        return ServiceConfig(
            corpora=_corpora(self.index),
            models=list(models.values()),
            **self.played,
            cosine_model=self.cosine_model,
            reranker_model=self.reranker_model,
            replicas=self.replicas,
            poll_s=self.poll_s,
            log_file=self.log,
            http=ServiceSettings.model_validate(self.model_dump(include=set(ServiceSettings.model_fields))),
        )

    def _check_defaults(self) -> None:
        if self.postprocess not in POSTPROCESSORS:
            raise ValueError(f"--postprocess {self.postprocess}: there are {', '.join(POSTPROCESSORS)}")
        if self.postprocess == "rerank" and self.reranker_model is None:
            raise ValueError("--postprocess rerank wants --reranker-model")


def _corpora(given: list[str]) -> dict[str, str]:
    corpora: dict[str, str] = {}
    for one in given:
        named = _NAMED.fullmatch(one)
        name, place = (named[1], named[2]) if named else (one.rstrip("/").rpartition("/")[2], one)
        if name in corpora:
            raise ValueError(f"--index: two are named {name}; give another name: NAME={place}")
        corpora[name] = place
    return corpora
