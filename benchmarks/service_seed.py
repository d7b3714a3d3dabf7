"""A stand-in for how QA-RAG's published code answers: the index is read from disk for every query.

    python -m benchmarks.service_seed --folder FOLDER --llm URL

It is kinder than that code, which starts a process for each question and loads its models there: a server stays up,
its embedding model (MiniLM where installed, else none: then encoding costs nothing) is loaded once, and each request is
a thread. What it does for a question is the same: read the FAISS index and the pickled chunks, encode, search, ask.
Source: the repository that QA-RAG names, `get_context` of its document retriever.
"""

from __future__ import annotations

import json
import pickle
import urllib.request
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from benchmarks import command_line

K = 6
_DIMENSIONS = 384
_INDEX, _CHUNKS = "index.faiss", "chunks.pickle"

Encode = Callable[[str], npt.NDArray[np.float32]]


def write(folder: Path, chunks: Sequence[dict[str, str]]) -> None:
    """The chunks, and an index of random vectors: what is found does not change what finding costs."""
    index = faiss.IndexFlatL2(_DIMENSIONS)
    index.add(np.random.default_rng(0).standard_normal((len(chunks), _DIMENSIONS), np.float32))
    faiss.write_index(index, str(folder / _INDEX))
    (folder / _CHUNKS).write_bytes(pickle.dumps(list(chunks)))


def encoder() -> tuple[str, Encode]:
    """A name, and what encodes a question."""
    try:
        import torch

        from fdarx_core.retrieval import ModelDirectories
        from fdarx_core.retrieval import load_encoder as load
        from fdarx_core.retrieval.models import ModelMissing
    except ImportError:
        return "no encoder", lambda question: np.ones((1, _DIMENSIONS), np.float32)
    torch.set_num_threads(1)  # requests are threads already
    try:
        model = load("cosine", ModelDirectories())
    except ModelMissing:
        return "no encoder", lambda question: np.ones((1, _DIMENSIONS), np.float32)
    return "MiniLM", lambda question: model.encode([question])


class Handler(BaseHTTPRequestHandler):
    """One question a request, in the service's own form."""

    protocol_version = "HTTP/1.1"
    folder: Path
    llm: str
    encode: Encode

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["question"]
        passages = self.found(question)
        reply = json.dumps({"answer": self.asked(question, passages), "passages": passages}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def found(self, question: str) -> list[dict[str, str]]:
        """Reads index and chunks, as for every query."""
        index = faiss.read_index(str(self.folder / _INDEX))
        chunks = pickle.loads((self.folder / _CHUNKS).read_bytes())
        _, [positions] = index.search(type(self).encode(question), K)
        return [chunks[position] for position in positions]

    def asked(self, question: str, passages: Sequence[dict[str, str]]) -> str:
        """What the model says."""
        content = "\n\n".join([question, *(passage["text"] for passage in passages)])
        body = json.dumps({"model": "any", "messages": [{"role": "user", "content": content}]}).encode()
        request = urllib.request.Request(f"{self.llm}/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def main() -> None:
    """Serve until killed; prints the port and the encoder's name."""
    parser = command_line(__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--llm", required=True)
    options = parser.parse_args()
    Handler.folder, Handler.llm = options.folder, options.llm
    name, Handler.encode = encoder()
    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], name, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
