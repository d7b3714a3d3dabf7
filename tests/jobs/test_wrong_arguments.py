"""Mistakes of a new user on the command line: one line says what is wrong, where, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import fdarx_core as fdarx
from fdarx_core.evaluation.thresholds import read_bounds
from fdarx_core.llm import ModelsError
from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.specs.evaluate import EvaluateSpec
from fdarx_core.storage import RunConflict
from fdarx_core.verify import verify
from tests.conftest import EXAMPLES
from tests.jobs.in_process import run_job

FACTUALITY = "factuality --predictions a --out x --evidence"
LABEL = EXAMPLES / "telvanto-tablets.xml"


def refused(*words: object) -> str:
    """The one line of a command that stops before any work."""
    done = run_job(*words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


def test_an_index_is_written_into_no_other_work(example_build: Path, tmp_path: Path) -> None:
    run, notes, index = tmp_path / "run", tmp_path / "notes", tmp_path / "index"
    shutil.copytree(example_build, run)
    notes.mkdir()
    (notes / "notes.txt").write_text("mine")
    for folder, says in (
        (run, f"{run} holds a run of the job build_benchmark, not index; choose another --out"),
        (notes, f"{notes} holds files that the job index did not write; choose another --out or empty it"),
    ):
        before = files(folder)
        words = ("index", "--documents", LABEL, "--words-only", "--out", folder)
        assert refused(*words) == refused(*words, "--rebuild") == f"error: {says}\n"
        with pytest.raises(RunConflict, match="choose another --out"):
            fdarx.index(LABEL, folder, words_only=True)
        assert files(folder) == before
    assert not run_job("index", "--documents", LABEL, "--words-only", "--out", index).returncode
    (index / "index.json").unlink()  # as if the first build had been interrupted
    for _ in range(2):
        done = run_job("index", "--documents", LABEL, "--words-only", "--out", index)
        assert not done.returncode, done.stderr


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--fail-under", "accuracy=nan", "accuracy is between 0 and 1; write 80 % as 0.8"),
        ("--fail-over", "oracle/accuracy=inf", "accuracy is between 0 and 1; write 80 % as 0.8"),
        ("--fail-under", "accuracy=2", "accuracy is between 0 and 1; write 80 % as 0.8"),
        ("--fail-under", "ndcg_10=-0.1", "ndcg_10 is between 0 and 1; write 80 % as 0.8"),
        ("--fail-over", "cost_per_question=inf", "cost_per_question is a finite number"),
        ("--fail-under", "accuracy=80%", "write METRIC=NUMBER, such as accuracy=0.8 for 80 %"),
        ("--fail-over", "accuracy", "write METRIC=NUMBER, such as accuracy=0.8 for 80 %"),
        ("--fail-over", "acuracy", "write METRIC=NUMBER, such as accuracy=0.8 for 80 %"),
    ],
)
def test_a_threshold_that_no_value_can_meet(tmp_path: Path, option: str, value: str, says: str) -> None:
    told = refused("evaluate", "--benchmark", "absent", "--out", tmp_path / "run", option, value)
    assert told == f"error: {option} {value}: {says}\n" and not (tmp_path / "run").exists()


def test_a_threshold_that_is_no_share_may_exceed_one() -> None:
    assert read_bounds(["latency_s=30", "cost_per_question=2", "accuracy=1"], [], "x")["latency_s"] == 30
    with pytest.raises(ValueError, match=r"--fail-over acuracy=1: there is no metric acuracy .* did you mean accuracy"):
        read_bounds(["acuracy=1"], [], "--fail-over")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    file = tmp_path / "models.yaml"
    file.write_text("- {name: judge, model: j, base_url: 'http://127.0.0.1:1/v1'}\n")
    return file


def test_the_misspelt_name_of_an_engine(tmp_path: Path, models: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"question": "How much?", "answer": "Take 5 mg."}\n')
    words = ("factuality", "--predictions", tmp_path / "answers.jsonl", "--evidence", "pubmed", "--out", tmp_path / "f")
    told = refused(*words, "--models", models, "--entailment", "juge")
    assert told == "error: --entailment juge: there is no engine juge; did you mean judge? (or one of exact, judge)\n"
    told = refused(*words, "--models", models, "--entailment", "exact", "--compare-entailment", "jugde")
    assert told.startswith("error: --compare-entailment jugde: there is no engine jugde; did you mean judge?")
    for name in ("exakt", "atuo", "genral"):
        with pytest.raises(ModelMissing, match=r"there is no engine \w+; did you mean (exact|auto|general)"):
            verify([("Take 5 mg.", "Take 5 mg.")], engine=name)


def test_a_name_in_place_of_a_models_file(tmp_path: Path) -> None:
    says = "is not a file; give a models file or a fdarx.Model, and choose models by name with"
    told = refused("evaluate", "--benchmark", "absent", "--models", "alpha", "--out", tmp_path / "run")
    assert told == f"error: models: alpha {says} --only\n"
    told = refused("grade", "absent.csv", "--models", tmp_path, "--out", tmp_path / "run")
    assert told == f"error: models: {tmp_path} {says} --judge\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("build L out", "L: `fdarx build` takes no positional arguments; write --labels L; see `fdarx build --help`"),
        ("index docs", "docs: `fdarx index` takes no positional arguments; write --documents docs; see"),
        ("serve ix", "ix: `fdarx serve` takes no positional arguments; write --index ix; see"),
        ("verify pairs.jsonl", "pairs.jsonl: `fdarx verify` takes no positional arguments; write --pairs pairs.jsonl"),
        ("fetch labels", "labels: `fdarx fetch` takes no positional arguments; write --out labels; see"),
        ("review sampel x", 'Unknown command "sampel". Did you mean "sample"?'),
        ("grade --file a.csv --out g", "FILE is positional: write its value without --file; see `fdarx grade --help`"),
        ("check --models=m.yaml", "MODELS is positional: write its value without --models; see"),
        ("grade a b --out g", "'b' is one value too many; see"),
        ("build --labels= --out x", "--labels: it is empty (given: ''); see"),
        ("build --labels a --out x --set-ids none.txt", "--set-ids: there is no file none.txt; give set ids"),
        ("build --labels a --out=", "--out: it is empty (given: ''); see"),
        ("serve --index=", "--index: it is empty (given: ''); see"),
        ("build --labels a --out x --sample ten", "--sample: it must be a whole number (given: 'ten'); see"),
        ("build --labels a --out x --sample 10.5", "--sample: it must be a whole number (given: '10.5'); see"),
        ("build --labels a --out x --max-cost ten", "--max-cost: it must be a number (given: 'ten'); see"),
        (f"{FACTUALITY} lables:r", "--evidence: 'lables:r' names no evidence; did you mean labels:?"),
        (f"{FACTUALITY} labels: r", "--evidence: 'labels:' names no evidence: no blank may stand after the colon;"),
        (f"{FACTUALITY} pubmde", "--evidence: 'pubmde' names no evidence; did you mean pubmed?"),
    ],
)  # fmt: skip
def test_a_slip_of_the_keyboard(words: str, says: str) -> None:
    assert refused(*words.split()).startswith(f"error: {says}")


def test_a_misspelt_option_of_a_config_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("labels: [a]\nout: b\nsmaple: 3\n")
    says = f"error: {file}: there is no option smaple; did you mean sample?; see `fdarx build --help`\n"
    assert refused("build", "--config", file) == refused("build", f"--config={file}") == says


def test_what_a_folder_is_that_is_no_index_is_told_at_once(example_build: Path, tmp_path: Path) -> None:
    for place, is_what in ((example_build, "a run of build_benchmark"), (tmp_path, "")):
        told = refused("serve", "--index", place)
        assert f"error: {place} is not an index: it {f'is {is_what}' if is_what else 'has no index.json'};" in told
    told = refused("index", "--documents", tmp_path / "absent", "--out", tmp_path / "index")
    assert "absent does not exist" in told and not (tmp_path / "index").exists()


def test_a_place_for_figures_is_tried_before_pairs_are_judged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "pairs.jsonl").write_text('{"text": "Take 5 mg.", "statement": "Take 5 mg.", "mark": "supported"}\n')
    words = ("verify", "--pairs", tmp_path / "pairs.jsonl", "--engine", "exact", "--out")
    assert refused(*words, tmp_path / "file/figures.json").startswith(f"error: cannot write into {tmp_path / 'file'}: ")
    assert run_job(*words, tmp_path / "new/figures.json").returncode == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sample": "ten"}, "sample: it must be a whole number (given: 'ten')"),
        ({"sample": -1}, "sample: Input should be greater than or equal to 1 (given: -1)"),
        ({"smaple": 2}, "there is no option smaple; did you mean sample?"),
        ({"xyzzy": 2}, "there is no option xyzzy"),
        ({"judge": {"name": "a"}}, "judge: Input should be a valid string (given: a dict, no fdarx.Model)"),
    ],
)
def test_wrong_options_in_python_are_one_line(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        fdarx.build(EXAMPLES, tmp_path / "run", **options)
    assert str(error.value) == says and type(error.value) is ValueError
    assert not (tmp_path / "run").exists()


def test_models_in_python_are_a_list_of_models_or_files(tmp_path: Path) -> None:
    entries: list[Any] = [{"name": "a", "api_key": "sk-planted"}]
    with pytest.raises(ValueError, match=r"^models: .* \(given: a dict, no fdarx\.Model\)$"):
        fdarx.evaluate("absent", models=entries)
    with pytest.raises(
        ModelsError, match=r"^models: alpha is not a file; give a models file or a fdarx.Model, and choose models"
    ):
        fdarx.evaluate("absent", models="alpha")
    model = fdarx.Model("small", base_url="http://127.0.0.1:1/v1")
    assert EvaluateSpec.of(models=model, out="x").loaded_models() == {"small": model.config}


@pytest.mark.parametrize("pairs", ["text", ("a", "b"), [("a", None)], [("a", "b", "c")], [{"text": "a"}], [()]])
def test_what_is_no_pair_of_texts_is_refused(pairs: Any) -> None:
    with pytest.raises(ValueError, match=r"^pairs has .*, not \(text, statement\); write verify\("):
        verify(pairs, "exact")
