"""Options from the command line, the environment and YAML, and one clear line for a wrong one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.factuality.evidence.pubmed import YEARS
from fdarx_core.factuality.evidence.sources import K
from fdarx_core.factuality.figures import RESAMPLES
from fdarx_core.factuality.scores import Weights
from fdarx_core.labels import Selection
from fdarx_core.retrieval.retrievers import RETRIEVERS
from fdarx_core.specs.build import BuildSpec
from fdarx_core.specs.evaluate import EvaluateSpec
from fdarx_core.specs.factuality import FactualitySpec
from fdarx_core.verify import THRESHOLD
from jobs import cli
from jobs.verify import VerifyConfig
from tests.conftest import REPOSITORY


def read(*arguments: str) -> BuildSpec:
    config = cli.parse(["build", *arguments]).keywords["config"]
    assert isinstance(config, BuildSpec)
    return config


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_command_line_over_environment_over_yaml_over_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("labels: [a, b]\nout: x\nsample: 7\nsection-pairs: 2\n")
    config = read("--config", str(file))
    assert (config.labels, config.sample, config.section_pairs, config.seed) == (["a", "b"], 7, 2, 0)
    monkeypatch.setenv("FDARX_BUILD_SAMPLE", "8")
    assert read("--config", str(file)).sample == 8
    config = read(f"--config={file}", "--sample", "9", "--labels", "c")
    assert (config.labels, config.sample) == (["c"], 9)
    assert read("--labels", "x", "y", "--out", "z").labels == ["x", "y"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "y"], "--labels is required"),
        (["--lables", "x", "--out", "y"], "there is no --lables, did you mean --labels?"),
        (["--labels", "a", "--out", "y", "--sample", "many"], "--sample: it must be a whole number"),
        (["--labels", "a", "--out", "y", "--sample", "0"], "--sample: Input should be greater than or equal to 1"),
        (["--labels", "a", "--out", "y", "--smaple", "3"], "Did you mean --sample?"),
        (["--labels", "a", "--out", "x", "y"], "'y' is one value too many for --out; see `fdarx build --help`"),
        (["--labels", "a", "--out"], "--out needs a value; see `fdarx build --help`"),
        (["--labels", "a", "--config", "absent.yaml"], "--config: cannot read absent.yaml"),
    ],
)
def test_a_wrong_option_is_one_clear_line(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    error = fails(capsys, "build", *arguments)
    assert says in error and error.startswith("error: ") and len(error.splitlines()) == 1


def test_options_that_only_the_job_can_miss_are_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert fails(capsys, "evaluate") == "error: --out is required; see `fdarx evaluate --help`\n"
    missing = "error: --index is missing: give an index of `fdarx index`"
    assert fails(capsys, "serve") == f"{missing}\n"
    assert fails(capsys, "serve", "--port", "8001") == f"{missing}; see `fdarx serve --help`\n"
    error = fails(
        capsys, "factuality", "--claims", "one", "two", "--predictions", "x", "--evidence", "pubmed", "--out", "y"
    )
    assert "'two' is one value too many for --claims" in error


@pytest.mark.parametrize(
    ("name", "command", "says"),
    [
        ("FDARX_BUILD_SAMPEL", "build", "`fdarx build` has no such option; did you mean FDARX_BUILD_SAMPLE?"),
        ("FDARX_BUILD_SAMPLE_SIZE", "build", "did you mean FDARX_BUILD_SAMPLE?"),
        ("FDARX_EVALUATE_RAG_QUESTION", "evaluate-rag", "did you mean FDARX_EVALUATE_RAG_QUESTIONS?"),
        ("FDARX_REVIEW_SAMPLE_WIDTH", "review sample", "`fdarx review sample` has no such option"),
    ],
)
def test_an_option_that_the_job_lacks_is_an_error_in_the_environment_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, command: str, says: str
) -> None:
    monkeypatch.setenv(name, "secret-value")
    error = fails(capsys, *command.split(), "--out", "y")
    assert error.startswith(f"error: {name}: ") and says in error and len(error.splitlines()) == 1
    assert "secret-value" not in error


def test_a_job_of_two_words_reads_its_options_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FDARX_EVALUATE_RAG_SAMPLE", "many")
    error = fails(capsys, "evaluate-rag", "--index", "x", "--questions", "y", "--out", "z")
    assert "--sample: it must be a whole number" in error


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("FDARX_BULID_SAMPLE", "; did you mean FDARX_BUILD_SAMPLE?"),
        ("FDARX_SECTION_PAIRS", "; did you mean FDARX_BUILD_SECTION_PAIRS?"),
        ("FDARX_XYZZY", ""),
    ],
)
def test_a_name_that_no_job_reads_is_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    monkeypatch.setenv(name, "8")
    assert read("--labels", "x", "--out", "z").sample is None
    assert capsys.readouterr().err == f"warning: {name} is ignored, no job reads it{nearest}\n"


def test_names_that_others_read_are_no_misspelt_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ("FDARX_DATA", "FDARX_KILLS", "FDARX_REQUIRE_ENGINE", "FDARX_VERIFIER", "FDARX_KEY_SMALL", "FDARX_ENGINE_KEY")
    of_kubernetes = ("FDARX_BUILD_SERVICE_HOST", "FDARX_BUILD_SERVICE_PORT_HTTP", "FDARX_BUILD_PORT_80_TCP_ADDR")
    for name in (*own, *of_kubernetes, "FDARX_EVALUATE_SAMPLE", "FDARX_FINETUNE_SEED"):
        monkeypatch.setenv(name, "8")
    assert read("--labels", "x", "--out", "z").sample is None
    assert capsys.readouterr().err == ""


def test_yaml_must_hold_known_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    for text, says in (
        ("labels: [a]\nout: b\nsmaple: 3", "did you mean sample?"),
        ("- a", "must hold options"),
        ("a: [", "job.yaml is not YAML"),
    ):
        file.write_text(text)
        assert says in fails(capsys, "build", "--config", str(file))


def test_help_tells_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["build", "--help-all"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, field in BuildSpec.model_fields.items():
        assert "--" + name.removeprefix("as_").replace("_", "-") in shown
        assert field.description


def test_help_begins_with_required_and_common_options_and_names_the_other_sources(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["build", "--help-all"]) == 0
    text = capsys.readouterr().out
    order = ("--labels STR", "--out STR", "--sample", "--twins", "--max-cost", "--executor", "--json", "--config FILE")
    places = [text.index(one) for one in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("job", "first"),
    [
        ("build", ["labels", "out"]),
        ("evaluate", ["benchmark", "out"]),
        ("evaluate-rag", ["index", "questions", "out"]),
        ("factuality", ["predictions", "evidence", "out"]),
        ("grade", ["out"]),
        ("serve", ["index"]),
    ],
)
def test_short_help_has_required_options_and_few_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, job: str, first: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert cli.main([job, "--help"]) == 0
    text = capsys.readouterr().out
    shown = re.findall(r"^│[ *]+--([\w-]+)", text, flags=re.MULTILINE)
    assert shown[: len(first)] == first and len(shown) <= 17
    assert f"fdarx {job} --help-all" in text


def test_short_help_names_all_required_arguments_and_the_thresholds(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a job in `_LONG` too, whose short help hides what is not marked as common."""
    positional = {
        "grade": "FILE", "show": "RUN [QUESTION]", "compare": "RUNS", "view": "FOLDER", "report": "RUN",
        "check": "MODELS", "push": "RUN DATASET", "review sample": "RUN", "review import": "REVIEW FILES",
        "review report": "REVIEW", "review export": "REVIEW", "review adjudicate": "REVIEW",
    }  # fmt: skip
    for job, names in positional.items():
        assert cli.main([*job.split(), "--help"]) == 0
        usage, _, rest = capsys.readouterr().out.partition("\n\n")
        assert " ".join(usage.split()).endswith(f"[OPTIONS] {names}")
        assert all(re.search(rf"^│ [* ]  {name}\b", rest, re.MULTILINE) for name in re.findall(r"\w+", names))
    for job in ("evaluate", "grade"):
        assert cli.main([job, "--help"]) == 0
        assert {"--fail-under", "--fail-over"} <= {*capsys.readouterr().out.split()}


def test_a_selection_has_the_same_defaults_everywhere() -> None:
    assert BuildSpec(labels=["x"], out="y").selection() == Selection()


def test_help_is_quick_and_imports_no_ray() -> None:
    code = "import sys; from jobs.cli import main; main(['build', '--help']); print([*sys.modules].count('ray'))"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "0"


def test_the_list_of_jobs_imports_no_options() -> None:
    code = "import sys; from jobs.cli import main; main(['--help']); print({'pydantic', 'numpy'} & {*sys.modules})"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "set()"


def test_the_command_names_its_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "build" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip()
    assert 'Did you mean "build"?' in fails(capsys, "bild")


def test_set_ids_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("AA-1\n\n bb-2 \n")
    config = BuildSpec(labels=["x"], out="y", set_ids=["cc-3", str(tmp_path / "ids.txt")])
    assert config.set_ids == ["aa-1", "bb-2", "cc-3"]


def test_defaults_that_options_repeat_are_those_of_the_library() -> None:
    weights, (first, last) = Weights(), YEARS
    fields = {name: field.default for name, field in FactualitySpec.model_fields.items()}
    assert fields["weights"] == f"{weights.similarity},{weights.support},{weights.contra}"
    assert (fields["threshold"], fields["k"], fields["resamples"]) == (THRESHOLD, K, RESAMPLES)
    assert fields["years"] == f"{first}-{last}"
    assert VerifyConfig.model_fields["threshold"].default == THRESHOLD
    assert EvaluateSpec.model_fields["settings"].default == list(SETTINGS)
    assert ", ".join(RETRIEVERS.builtin) in str(EvaluateSpec.model_fields["retrievers"].description)
