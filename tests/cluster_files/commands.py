"""Commands of manifests and of the guide, read by the command line's own parser."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from fdarx_core.llm import ModelsError
from fdarx_core.specs.options import JobConfig, load_all
from jobs.cli import _JOBS, parse
from serving.served_model import ServedModel, load_served
from tests.cluster_files.tree import Document, Tree, here

_OURS = re.compile(r"^/(opt|etc)/fdarx/")


def faults(tree: Tree) -> Iterator[str]:
    for document in tree.of("RayJob"):
        name = f"RayJob/{document['metadata']['name']}"
        selector = document["spec"].get("clusterSelector", {})
        for cluster in selector.values():
            if f"RayCluster/{cluster}" not in tree.documents:
                yield f"{name}: no RayCluster {cluster}"
        yield from (f"{name}: {fault}" for fault in command_faults(entrypoint(document)))


def entrypoint(job: Document) -> str:
    """The command of a RayJob, with what Kubernetes puts in place of $(NAME) in the arguments of the submitter."""
    [container] = job["spec"]["submitterPodTemplate"]["spec"]["containers"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    return re.sub(r"\$\((\w+)\)", lambda name: values.get(name[1]) or name[0], job["spec"]["entrypoint"])


def command_faults(command: str) -> Iterator[str]:
    """Of `python -m jobs.cli JOB …` or `fdarx JOB …`, as it would run in the image."""
    words = [str(here(word)) if _OURS.match(word) else word for word in shlex.split(command)]
    arguments = words[3:] if words[:3] == ["python", "-m", "jobs.cli"] else words[1:] if words[0] == "fdarx" else []
    if not arguments or arguments[0] not in _JOBS:
        yield f"no job: {command}"
        return
    missing = [word for word in words if word.startswith("/") and word.endswith(".yaml") and not Path(word).is_file()]
    yield from (f"no file {word}" for word in missing)
    yield from (f"no variable {word}" for word in words if "$(" in word)
    try:
        config = parse(arguments).keywords.get("config")
        yield from _names(config) if isinstance(config, JobConfig) else ()
    except SystemExit:
        yield f"options that {arguments[0]} does not take: {command}"
    except ModelsError as error:
        yield str(error)


def _names(config: JobConfig) -> Iterator[str]:
    """Whether the models files say who does what."""
    if hasattr(config, "load_roles") and getattr(config, "models", None):
        config.load_roles()
    judge, files = getattr(config, "judge", "baseline"), getattr(config, "models", None)
    if isinstance(files, list) and judge != "baseline" and judge not in load_all(files):
        yield f"--judge {judge}: no such model in {files}"


def deployed(tree: Tree) -> list[ServedModel]:
    """The models that jobs bring up."""
    words = [word for one in tree.of("RayJob") for word in shlex.split(entrypoint(one))]
    return [load_served(here(word)) for word in words if "/serving/models/" in word and here(word).is_file()]
