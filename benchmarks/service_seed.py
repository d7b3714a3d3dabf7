"""A server that answers with the method of QA-RAG's published code: it reads the index from disk for every query.

    python -m benchmarks.service_seed --folder FOLDER --llm URL

The published code starts a process for each question and loads its models there. This server is faster: it stays up,
loads its embedding model once (MiniLM if it is installed; otherwise encoding costs nothing), and handles each request
in a thread. For a question, both read the FAISS index and the pickled chunks, encode, search, and ask the model.
Source: the repository that QA-RAG names, `get_context` of its document retriever.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import requests
import uvicorn
from fastapi import FastAPI

from benchmarks import run

K = 6
_DIMENSIONS = 384
_INDEX, _CHUNKS = "index.faiss", "chunks.pickle"

Encode = Callable[[str], npt.NDArray[np.float32]]


def write(folder: Path, chunks: Sequence[dict[str, str]]) -> None:
    """Write the chunks, and an index of random vectors, since the cost of a search does not depend on its results."""
    index = faiss.IndexFlatL2(_DIMENSIONS)
    index.add(np.random.default_rng(0).standard_normal((len(chunks), _DIMENSIONS), np.float32))
    faiss.write_index(index, str(folder / _INDEX))
    (folder / _CHUNKS).write_bytes(pickle.dumps(list(chunks)))


def encoder() -> tuple[str, Encode]:
    """Return the name of the encoder, and a function that encodes a question."""
    none = "no encoder", lambda question: np.ones((1, _DIMENSIONS), np.float32)
    try:
        import torch

        from fdarx_core.retrieval import ModelDirectories, load_encoder
        from fdarx_core.retrieval.models import ModelMissing
    except ImportError:
        return none
    torch.set_num_threads(1)  # requests are threads already
    try:
        model = load_encoder("cosine", ModelDirectories())
    except ModelMissing:
        return none
    return "MiniLM", lambda question: model.encode([question])


def retrieve(folder: Path, encode: Encode, question: str) -> list[dict[str, str]]:
    """Read index and chunks, and return the chunks found."""
    index = faiss.read_index(str(folder / _INDEX))
    chunks = pickle.loads((folder / _CHUNKS).read_bytes())
    _, [positions] = index.search(encode(question), K)
    return [chunks[position] for position in positions]


def ask(llm: str, question: str, passages: Sequence[dict[str, str]]) -> str:
    """Return the reply of the model."""
    content = "\n\n".join([question, *(passage["text"] for passage in passages)])
    body: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": content}]}
    reply = requests.post(f"{llm}/chat/completions", json=body, timeout=60)
    return str(reply.json()["choices"][0]["message"]["content"])


def main(*, folder: Path, llm: str) -> int:
    """Print the port and the name of the encoder, then serve until killed."""
    app = FastAPI()
    name, encode = encoder()

    @app.post("/")
    def answer(asked: dict[str, str]) -> dict[str, Any]:
        passages = retrieve(folder, encode, asked["question"])
        return {"answer": ask(llm, asked["question"], passages), "passages": passages}

    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        print(listening.getsockname()[1], name, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
    return 0


if __name__ == "__main__":
    run(main)
