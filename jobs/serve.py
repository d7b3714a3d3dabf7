"""Cited answers over HTTP on this machine, with a page to ask on; on a cluster: `serve deploy cluster/qa_rag.yaml`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fdarx_core.llm import ModelsError
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.storage import StorageError
from jobs.options import read_options, stop
from jobs.serve_config import ServeConfig
from jobs.serve_session import NotStarted, check_port, serving
from serving.config import ServiceConfig
from serving.corpora import Corpora, Held
from serving.http.keys import Keys, KeysError, add_key


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service until Ctrl-C or SIGTERM; returns its exit code: 0 ended, 2 wrong argument."""
    config = read_options(ServeConfig, arguments, prog="fdarx serve", description=__doc__ or "")
    try:
        if config.new_key is not None:
            return _make_key(config.keys_file or Path(), config.new_key)
        service = config.service()
        _check(service, config.retriever)
        check_port(config.host, config.port)
        with serving(service, config.host, config.port, config.metrics_port) as ended:
            where = f"http://{config.host}:{config.port}"
            print(f"FDARx answers at {where} (its API: {where}/docs); Ctrl-C ends it", file=sys.stderr, flush=True)
            ended.wait()
        return 0
    except (StorageError, ModelsError, ModelMissing, KeysError, NotStarted, ValueError) as error:
        stop(str(error))
    except KeyboardInterrupt:
        return 0


def _make_key(file: Path, name: str) -> int:
    key = add_key(file, name)
    print(
        f"{file} now lets in the key {name}, which is shown only here; send it as `Authorization: Bearer KEY`:",
        file=sys.stderr,
    )
    print(key)
    return 0


def _check(service: ServiceConfig, retriever: str) -> None:
    """All that can be wrong with files is told here, in one line; from within Ray it would be a page."""
    if service.http.keys_file is not None:
        Keys.load(service.http.keys_file)
    if service.reranker_model is not None:
        ModelDirectories(reranker=service.reranker_model).of("reranker")
        check_installed("reranker")
    held = Corpora(service.corpora, service.cosine_model).all()
    for one in held:
        _tell(one)
    offered = {name: None for one in held for name in one.corpus.retrievers}
    if retriever not in offered:
        raise ValueError(f"--retriever {retriever}: the indexes can be searched by {', '.join(offered)}, see above")


def _tell(held: Held) -> None:
    corpus = held.corpus
    counts = f"{corpus.chunks} chunks of {corpus.documents} {corpus.kind}"
    print(f"{corpus.name}: {counts}, version {corpus.version}", file=sys.stderr)
    if held.notice:
        print(f"  {held.notice}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
