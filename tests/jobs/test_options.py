"""Options from the command line and from YAML, and one clear line for a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from jobs import cli
from jobs.build_config import BuildConfig
from jobs.options import JobConfig, read_options


class Options(JobConfig):
    names: list[str] = Field(min_length=1, description="names to take, 100 % of them")
    count: int = Field(3, ge=1, description="how many")


def read(*arguments: str) -> Options:
    return read_options(Options, arguments, prog="job", description="A job.")


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        read(*arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_command_line_over_yaml_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("names: [a, b]\ncount: 7\n")
    assert read("--config", str(file)).model_dump() == {"names": ["a", "b"], "count": 7}
    assert read("--config", str(file), "--count", "2", "--names", "c").model_dump() == {"names": ["c"], "count": 2}
    assert read("--names", "x", "y").count == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--names: Field required"),
        (["--names", "a", "--count", "many"], "--count: Input should be a valid integer"),
        (["--names", "a", "--count", "0"], "--count: Input should be greater than or equal to 1 (given: '0')"),
        (["--names", "a", "--colour", "red"], "unrecognized arguments: --colour red"),
        (["--names", "a", "--config", "absent.yaml"], "--config: cannot read absent.yaml"),
    ],
)
def test_a_wrong_option_is_one_clear_line(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    error = fails(capsys, *arguments)
    assert says in error
    assert error.strip().splitlines()[-1].startswith(("error:", "job: error:"))


def test_yaml_must_hold_known_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for text, says in (
        ("names: [a]\ncolour: red", "--colour"),
        ("- a", "must hold options"),
        ("a: [", "job.yaml is no YAML"),
    ):
        (tmp_path / "job.yaml").write_text(text)
        assert says in fails(capsys, "--config", str(tmp_path / "job.yaml"))


def test_help_tells_every_option_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["build", "--help"])
    assert stopped.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, field in BuildConfig.model_fields.items():
        assert "--" + name.replace("_", "-") in shown
        assert field.description
    assert "(default: topical irrigation intradermal inhalation)" in shown


def test_the_command_names_its_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "build" in capsys.readouterr().out
    assert cli.main(["bild"]) == 2
    assert "there is no job 'bild'" in capsys.readouterr().err


def test_set_ids_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("AA-1\n\n bb-2 \n")
    config = BuildConfig(labels=["x"], out="y", set_ids=["cc-3", str(tmp_path / "ids.txt")])
    assert config.set_ids == ["aa-1", "bb-2", "cc-3"]
