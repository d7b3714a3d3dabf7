"""cluster/site: the overlay replaces every word that differs between clusters."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from serving.served_model import load_served
from tests.cluster_files import network, nodes, pods
from tests.cluster_files.commands import entrypoint
from tests.cluster_files.tree import GUIDE, PLACEHOLDER, REPOSITORY, SERVE_CONFIG, SITE, Document, Tree, load, read

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
_BUCKET, _LLAMA = "hospital-data", "/opt/fdarx/serving/models/llama-3.1-8b-a100.yaml"
_FOLDERS = sorted(path.parent.name for path in SITE.glob("*/kustomization.yaml") if path.parent.name != "values")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of cluster/site, in which a test may change what a user changes."""
    return shutil.copytree(SITE.parent, tmp_path / "cluster") / "site"


def set_values(site: Path, **values: Any) -> None:
    file = site / "values" / "values.yaml"
    [document] = read(file)
    assert set(values) <= set(document["spec"])
    document["spec"].update(values)
    file.write_text(yaml.safe_dump(document))


def rendered(folder: Path) -> dict[str, Document]:
    """What `kubectl kustomize` makes of an overlay, by KIND/NAME."""
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(done.stdout)}


@pytest.mark.parametrize("folder", _FOLDERS)
def test_no_word_is_left(folder: str, site: Path) -> None:
    if folder == "service":
        file = site / folder / "kustomization.yaml"
        file.write_text(file.read_text().replace("# - ", "- "))
    set_values(site, bucket=_BUCKET, serviceHost="answers.hospital.example")
    documents = rendered(site / folder)
    text = yaml.safe_dump([*documents.values()])
    assert PLACEHOLDER.search(re.sub(r"\$\(BUCKET\)|name: BUCKET\b", "", text)) is None
    assert not any(one["kind"] == "Site" or one["metadata"]["name"] == "serve-config" for one in documents.values())
    for job in (one for one in documents.values() if one["kind"] == "RayJob"):
        assert entrypoint(job).count(f"s3://{_BUCKET}/") == job["spec"]["entrypoint"].count("s3://") == 2
    if folder == "service":
        assert {"Ingress", "NetworkPolicy", "PodDisruptionBudget"} <= {one["kind"] for one in documents.values()}
        assert "answers.hospital.example" in text
        assert documents["RayService/qa-rag"]["spec"]["serveConfigV2"] == SERVE_CONFIG.read_text()


def _options(command: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in shlex.split(command)[4:]:
        if word.startswith("--"):
            found[word] = values = []
        else:
            values.append(word)
    return found


@pytest.mark.parametrize("typed", [False, True], ids=["values", "command"])
@pytest.mark.parametrize("number", [1, 5, 7])
def test_the_sweep_takes_any_number_of_models(site: Path, number: int, typed: bool) -> None:
    """The number of models once moved the positions in which the bucket was replaced."""
    files = [_LLAMA.replace("3.1", f"3.{one}") for one in range(number)]
    set_values(site, bucket=_BUCKET)
    if typed:
        manifest = site.parent / "kuberay" / "jobs" / "sweep" / "sweep.yaml"
        manifest.write_text(manifest.read_text().replace("--deploy $(DEPLOY)", f"--deploy {' '.join(files)}"))
    else:
        set_values(site, sweep=" ".join(files))
    options = _options(entrypoint(rendered(site / "sweep")["RayJob/sweep"]))
    assert options["--deploy"] == files
    assert options["--benchmark"] == [f"s3://{_BUCKET}/runs/rx700"]
    assert options["--out"] == [f"s3://{_BUCKET}/runs/rx700-open"]
    assert options["--models"] == ["baseline", "/etc/fdarx/models/judge.yaml"]


def test_other_gpus_and_ports_are_values_of_the_site_alone(site: Path) -> None:
    """Files outside of the site are replaced by each release."""
    served = (REPOSITORY / "serving" / "models" / "llama-3.1-8b-a100.yaml").read_text()
    copy, there = site / "kuberay" / "models" / "llama-h100.yaml", "/etc/fdarx/models/llama-h100.yaml"
    copy.write_text(served.replace("accelerator: A100", "accelerator: H100"))
    listed, config = site / "kuberay" / "kustomization.yaml", site / "service" / "serve.yaml"
    listed.write_text(listed.read_text().replace("files:", f"files:\n      - models/{copy.name}"))
    config.write_text(config.read_text().replace(_LLAMA, there))
    ports = [{"port": 443}, {"port": 6443}, {"port": 9000}]
    set_values(site, gpu={"accelerator_type:H100": "1"}, egressPorts=ports, sweep=there)
    tree = Tree({name: one for folder in _FOLDERS for name, one in rendered(site / folder).items()}, {})
    assert copy.name in tree.documents["ConfigMap/fdarx-models"]["data"]
    specs = [spec for _, cluster in pods.clusters(tree) for spec in cluster["workerGroupSpecs"]]
    assert sum(one.get("resources") == {"accelerator_type:H100": "1"} for one in specs) == 5
    assert not any("A100" in str(one.get("resources")) for one in specs)
    models = [load_served(copy)]
    assert nodes.unplaced(tree.documents["RayCluster/fdarx"]["spec"], models) == []
    assert nodes.unplaced(tree.documents["RayService/qa-rag"]["spec"]["rayClusterConfig"], models) == []
    node, minio = network.peers(tree)["RayCluster/fdarx/gpu-1"], network.Peer("minio", address="10.1.2.3")
    assert [port for port in (80, 443, 6443, 9000) if network.reaches(tree, node, minio, port)] == [443, 6443, 9000]


def test_the_guide_s_check_fails_until_each_value_is_given(site: Path) -> None:
    [lines] = re.findall(r"```sh\n(for part in [^`]+)```", GUIDE.read_text())
    assert all(folder in lines.split(";")[0].split() for folder in _FOLDERS)

    def left() -> tuple[int, list[str]]:
        done = subprocess.run(["sh", "-c", lines], cwd=site.parents[1], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout.splitlines()

    code, missing = left()
    assert code == 1 and len(missing) > 10
    set_values(site, bucket=_BUCKET, roleArn="arn:aws:iam::1:role/labels", storageClass="nfs")
    code, missing = left()
    assert code == 1 and all("image" in line or "s3://" in line for line in missing)
    for file in (site / "values" / "kustomization.yaml", site / "service" / "serve.yaml"):
        file.write_text(file.read_text().replace("REPLACE-ME", "given"))
    assert left() == (0, []), "the values of a component that is not used may stay"
    (site / "build" / "kustomization.yaml").write_text("resources: [nowhere]")
    code, missing = left()
    assert code == 1 and [line.partition(":")[2] for line in missing] == ["REPLACE-ME: cluster/site/build"]


def test_accounts_have_a_role_on_aws_alone(site: Path) -> None:
    set_values(site, roleArn="arn:aws:iam::1:role/labels")
    file, name = site / "kuberay" / "kustomization.yaml", "eks.amazonaws.com/role-arn"
    accounts = [one for one in rendered(file.parent).values() if one["kind"] == "ServiceAccount"]
    assert [one["metadata"]["annotations"] for one in accounts] == [{name: "arn:aws:iam::1:role/labels"}] * 2
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if "components/aws-role" not in line))
    text = yaml.safe_dump([*rendered(file.parent).values()])
    assert "role-arn" not in text and "ROLE" not in text


def test_values_are_at_first_those_of_the_manifests() -> None:
    values, tree = read(SITE / "values" / "values.yaml")[0]["spec"], load()
    assert entrypoint(tree.documents["RayJob/sweep"]).count(values["sweep"]) == 1
    groups = [one for _, cluster in pods.clusters(tree) for one in cluster["workerGroupSpecs"]]
    assert [one["resources"] for one in groups if "gpu" in one["groupName"]] == [values["gpu"]] * 5
    assert tree.documents["NetworkPolicy/nodes-to-outside"]["spec"]["egress"][1]["ports"] == values["egressPorts"]
