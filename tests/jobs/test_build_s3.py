"""A build from labels on a real S3 server into a run on it equals one on disk."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from fdarx_core.llm.model_config import ModelsError, load_models
from fdarx_core.storage import Location, retry
from fdarx_core.storage.s3_client import client
from jobs import cli
from tests.conftest import EXAMPLES
from tests.jobs.comparing import TIMED, differing
from tests.jobs.in_process import run_job

pytestmark = pytest.mark.s3

LABELS = "in/all labels+more/é#1.zip"
RUN = "runs/one & two/50%"


def bulk_release() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as bulk:
        for file in EXAMPLES.glob("*.xml"):
            bulk.write(file, f"prescription/{file.name}")
    return data.getvalue()


@pytest.mark.slow
def test_the_same_run_from_and_to_s3(bucket: Location, example_build: Path) -> None:
    """Under names with odd characters."""
    (bucket / LABELS).write_bytes(bulk_release())
    small = ["--passages", "3", "--section-pairs", "2", "--twins", "4", "--cpus", "2"]
    done = run_job("build", "--labels", bucket / LABELS, "--out", bucket / RUN, *small)
    assert done.returncode == 0, done.stderr
    placed = {f"{bucket / LABELS}!prescription/": "LABELS/", f"{EXAMPLES}/": "LABELS/"}
    assert set(differing(bucket / RUN, Location(example_build), placed)) == TIMED
    assert not (bucket / RUN / ".claims").list()


@pytest.mark.parametrize(
    ("secret", "labels", "out", "said"),
    [
        ("wrong", "in", "run", "refused the secret key; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("", "in", "s3://nobodys-bucket/run", "the bucket does not exist; create it or correct its name"),
        ("", "s3://nobodys-bucket/in", "run", "the bucket does not exist; create it or correct its name"),
    ],
)
def test_what_is_wrong_with_s3_is_one_line(
    bucket: Location,
    secret: str,
    labels: str,
    out: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (bucket / "in/a.xml").write_bytes(b"<a/>")
    if secret:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        client.cache_clear()
    monkeypatch.setattr(retry.SERVER_STATE, "reached", False)
    places = [one if one.startswith("s3://") else str(bucket / one) for one in (labels, out)]
    with pytest.raises(SystemExit) as ended:
        cli.main(["build", "--labels", places[0], "--out", places[1]])
    client.cache_clear()
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: cannot ") and said in line


def test_files_that_options_name_may_be_there_too(bucket: Location, capsys: pytest.CaptureFixture[str]) -> None:
    (bucket / "ids.txt").write_text("B\n\na\n")
    (bucket / "models.yaml").write_text("- {name: small, base_url: http://127.0.0.1:9/v1, model: m}\n")
    (bucket / "build.yaml").write_text(f"labels: [x]\nout: y\nset_ids: ['{bucket}/ids.txt', c]\n")
    config = cli.parse(["build", "--config", str(bucket / "build.yaml")]).keywords["config"]
    assert config.set_ids == ["a", "b", "c"]
    assert list(load_models(str(bucket / "models.yaml"))) == ["small"]
    with pytest.raises(ModelsError, match=r"none\.yaml: .*there is no such object"):
        load_models(str(bucket / "none.yaml"))
    with pytest.raises(SystemExit):
        cli.main(["build", "--labels", "x", "--out", "y", "--set-ids", "s3://nobodys-bucket/ids.txt"])
    assert "the bucket does not exist" in capsys.readouterr().err
