"""A loopback model that answers every task of a build as the built-in rules would: plausible, and known beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml

from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import Identity
from fdarx_core.llm.models import ModelConfig, load_models
from fdarx_core.pipeline.dossier import Dossier
from fdarx_core.pipeline.plan import Roles, baseline, build_steps, run_steps
from fdarx_core.records import Request, Response

NAME = "scripted"
KEY_VARIABLE = "FDARX_TEST_KEY"
PLANTED_KEY = "sk-planted-3f9a1c77e2"


def models_file(folder: Path, url: str, **options: Any) -> Path:
    """A models.yaml with one model on the server at `url`."""
    model = {"name": NAME, "model": "tiny", "base_url": url, "key_env": KEY_VARIABLE, "max_in_flight": 16, **options}
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump([model]))
    return file


class Script:
    """What the rules answer to each prompt of a build of these labels, by the prompt's messages."""

    def __init__(self, labels: Sequence[Identity], amounts: Amounts, models: Mapping[str, ModelConfig]) -> None:
        self.texts: dict[bytes, str] = {}
        self.tasks: dict[bytes, str] = {}
        roles = Roles(models, NAME, NAME, NAME)
        run_steps(build_steps(amounts, roles), [Dossier(label) for label in labels], self._record)

    def _record(self, requests: Sequence[Request]) -> list[Response]:
        responses = baseline().answer(requests)
        for request, response in zip(requests, responses, strict=True):
            self.texts[orjson.dumps(request.messages)] = response.text
            self.tasks[orjson.dumps(request.messages)] = request.task
        return responses

    def __call__(self, body: Mapping[str, Any]) -> str:
        """Matches `LoopbackServer.answer`; to a prompt that no faultless build sends, a repair say, it has none."""
        return self.texts.get(orjson.dumps(body["messages"]), "I have nothing to add.")


def read_models(file: Path) -> dict[str, ModelConfig]:
    """The models of a file as the job reads them."""
    return load_models(str(file))
