"""Ray's LLM server with adapters from a folder on disk or on S3. Imports Ray's LLM modules, and so vLLM.

Ray's own loader only supports object storage, and keeps all adapters of one name in the same directory of a machine,
even for different models. If requests for an adapter arrive together, each of them loads it, and some fail.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

from fastapi import HTTPException
from ray.serve.llm import LLMConfig, LoraConfig
from ray.serve.llm.deployment import LLMServer

from fdarx_core.storage import Location, StorageError
from serving.adapters import fetch_adapter


class AdapterFolder(LoraConfig):
    """`folder` has the adapters, with ranks up to `rank`. Ray's own path stays empty, since Ray would load from it."""

    folder: str
    rank: int


class AdapterServer(LLMServer):
    """Ray's server of a model, whose `lora_config` is an AdapterFolder. It is its own loader of adapters."""

    async def __init__(self, llm_config: LLMConfig) -> None:  # type: ignore[misc]  # Ray awaits it
        self._folder: Any = llm_config.lora_config
        self._copies = TemporaryDirectory(prefix="fdarx-adapters-")

        def loader(**_download_limits: Any) -> Any:
            return self

        await super().__init__(llm_config, model_downloader=cast(Any, loader))

    async def __del__(self) -> None:
        """Ray Serve awaits this before it stops the replica's process."""
        self._copies.cleanup()
        await super().__del__()

    async def load_model_from_config(self, lora_model_id: str, llm_config: LLMConfig) -> SimpleNamespace:
        """Load an adapter into the engine. Ray Serve calls this for one adapter at a time, if it is not loaded yet.

        Returns the fields that Ray expects. Raises HTTPException, whose detail is sent to the client.
        """
        base, _, name = lora_model_id.partition(":")
        try:
            arguments = Location(self._folder.folder), name, self._folder.rank, Path(self._copies.name)
            path = await asyncio.to_thread(fetch_adapter, *arguments)
        except LookupError as error:
            raise HTTPException(404, f"{base}: {error}") from None
        except StorageError as error:
            raise HTTPException(503, f"{base}: adapter {name}: {error}") from None
        except ValueError as error:
            raise HTTPException(400, f"{base}: {error}") from None
        adapter, engine = SimpleNamespace(model_id=lora_model_id, local_path=str(path)), cast(Any, self.engine)
        try:
            await engine.resolve_lora(adapter)
        except ValueError as error:  # vLLM raises it for weights of another model
            raise HTTPException(400, f"{base}: adapter {name}: {error}") from None
        return adapter
