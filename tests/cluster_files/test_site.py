"""cluster/site: the overlay replaces every word that differs between clusters."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from typing import Any

import pytest
import yaml

from tests.cluster_files.tree import COMPONENTS, PLACEHOLDER, SITE, Tree, load, read, variables

_VALUES = variables(SITE / "values" / "values.env")
_FOLDERS = sorted(path.parent.name for path in SITE.glob("*/kustomization.yaml") if path.parent.name != "values")


@pytest.fixture(scope="module")
def tree() -> Tree:
    return load(*COMPONENTS)


def test_the_replaced_parts_of_long_texts_are_all_buckets(tree: Tree) -> None:
    """A replacement counts the parts between slashes, so that a longer command moves them."""
    [component] = read(SITE / "values" / "kustomization.yaml")
    [bucket] = [one for one in component["replacements"] if one["source"]["fieldPath"] == "data.BUCKET"]
    parts = defaultdict[tuple[str, str], list[int]](list)
    for target in bucket["targets"]:
        [path] = target["fieldPaths"]
        parts["{kind}/{name}".format(**target["select"]), path.removeprefix("spec.")].append(target["options"]["index"])
    texts = [(name, field) for name, one in tree.documents.items() for field in ("entrypoint", "serveConfigV2")
             if field in one.get("spec", {})]  # fmt: skip
    found = {key: _buckets(tree.documents[key[0]]["spec"][key[1]]) for key in texts}
    assert parts == {key: numbers for key, numbers in found.items() if numbers}


def _buckets(text: str) -> list[int]:
    return [number for number, part in enumerate(text.split("/")) if part == "BUCKET"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", _FOLDERS)
def test_no_word_is_left(folder: str, tmp_path: Any) -> None:
    copy = shutil.copytree(SITE.parent, tmp_path / "cluster")
    if folder == "service":
        file = copy / "site" / folder / "kustomization.yaml"
        file.write_text(file.read_text().replace("# - ", "- "))
    done = subprocess.run(["kubectl", "kustomize", copy / "site" / folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    documents = [one for one in yaml.safe_load_all(done.stdout) if one["metadata"]["name"] != "fdarx-site"]
    assert PLACEHOLDER.search(yaml.safe_dump(documents)) is None
    if folder == "service":
        assert {"Ingress", "NetworkPolicy", "PodDisruptionBudget"} <= {one["kind"] for one in documents}
        assert _VALUES["SERVICE_HOST"] in done.stdout
