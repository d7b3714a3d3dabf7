"""The cluster of `ray up`: Ray's own schema, options of `ray start`, files that it mounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

from tests.cluster_files.nodes import options_of
from tests.cluster_files.tree import CLUSTER, REPOSITORY, read


@pytest.fixture
def config() -> dict[str, Any]:
    [config] = read(CLUSTER / "aws" / "ray-up.yaml")
    return config


def test_fits_the_schema_of_the_pinned_ray(config: dict[str, Any]) -> None:
    validate_config(prepare_config(config))
    config["dockers"] = {}
    with pytest.raises(Exception, match="dockers"):
        validate_config(prepare_config(config))


def test_image_is_the_one_that_the_guide_builds(config: dict[str, Any]) -> None:
    assert config["docker"]["image"] == "REGISTRY/fdarx-gpu:VERSION"


def test_starts_ray_with_options_that_it_has(config: dict[str, Any]) -> None:
    commands = [*config["head_start_ray_commands"], *config["worker_start_ray_commands"]]
    started = [command.split("ray start")[1] for command in commands if "ray start" in command]
    assert len(started) == 2
    given = {word.lstrip("-").split("=")[0] for command in started for word in command.split()}
    assert given <= options_of(start)


def test_nodes_have_what_their_machines_have(config: dict[str, Any]) -> None:
    """p4de.24xlarge: 96 CPUs, eight A100-80GB. m7i.4xlarge: 16 CPUs. Source: AWS, instance types."""
    has = {"p4de.24xlarge": {"CPU": 96, "GPU": 8, "accelerator_type:A100": 1}, "m7i.4xlarge": {"CPU": 16}}
    for name, node in config["available_node_types"].items():
        wanted = {"CPU": 0} if name == config["head_node_type"] else has[node["node_config"]["InstanceType"]]
        assert node["resources"] == wanted, name
        assert name.endswith("-spot") == ("InstanceMarketOptions" in node["node_config"]), name


def test_mounts_files_that_are_here_or_that_the_guide_makes(config: dict[str, Any]) -> None:
    guide = (REPOSITORY / "docs" / "cluster.md").read_text()
    for local in config["file_mounts"].values():
        home = local.startswith("~/")
        assert (local in guide) if home else (REPOSITORY / Path(local)).exists(), local
