"""Ray's server of a model, with adapters of a folder on a disk or on S3. Imports Ray's LLM modules, and so vLLM.

Ray's own loader takes object storage alone, and keeps all adapters of one name in one place of a machine, whichever
model they are for. With it, requests that come together each load the adapter that they ask for, and some then fail.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import HTTPException
from ray.serve.llm import LLMConfig, LoraConfig
from ray.serve.llm.deployment import LLMServer

from fdarx_core.storage import Location, StorageError
from serving.adapters import AdapterError, fetch_adapter


class AdapterFolder(LoraConfig):
    """`folder` holds the adapters, of ranks up to `rank`. Ray's own path stays empty: it would look there by itself."""

    folder: str
    rank: int


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    """An adapter that the engine has, by the names that Ray gives what its loaders return."""

    model_id: str
    local_path: str


class AdapterServer(LLMServer):
    """As Ray's; its `lora_config` is an AdapterFolder, from which FolderLoader loads."""

    async def __init__(self, llm_config: LLMConfig) -> None:  # type: ignore[misc]  # Ray awaits it, as its own
        held: Any = llm_config.lora_config
        self.copies = TemporaryDirectory(prefix="fdarx-adapters-")
        loader: Any = partial(FolderLoader, self, held)
        await super().__init__(llm_config, model_downloader=loader)

    async def __del__(self) -> None:
        """Ray Serve awaits it when the replica goes, and then kills the process."""
        self.copies.cleanup()
        await super().__del__()


class FolderLoader:
    """Ray Serve calls it for one adapter at a time, and for those alone that are not loaded."""

    def __init__(self, server: AdapterServer, held: AdapterFolder, **_limits_of_downloads: Any) -> None:
        self._server, self._held = server, held

    async def load_model_from_config(self, lora_model_id: str, llm_config: LLMConfig) -> LoadedAdapter:
        """Raises HTTPException, whose detail reaches whoever asked."""
        base, _, name = lora_model_id.partition(":")
        try:
            adapter = LoadedAdapter(lora_model_id, str(await asyncio.to_thread(self._read, name)))
            engine: Any = self._server.engine
            await engine.resolve_lora(adapter)
        except AdapterError as error:
            raise HTTPException(error.status, f"{base}: {error.reason}") from None
        except StorageError as error:
            raise HTTPException(503, f"{base}: adapter {name}: {error}") from None
        except ValueError as error:  # what vLLM says of weights that are not for this model
            raise HTTPException(400, f"{base}: adapter {name}: {error}") from None
        return adapter

    def _read(self, name: str) -> Path:
        return fetch_adapter(Location(self._held.folder), name, self._held.rank, Path(self._server.copies.name))
