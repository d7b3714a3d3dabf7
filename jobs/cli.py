"""The command line: `fdarx JOB OPTIONS`, by cyclopts. A job is imported only when it is named."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.argument import ArgumentCollection
from cyclopts.config import Dict, Env
from cyclopts.exceptions import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from fdarx_core.wording import did_you_mean, options_fault
from jobs import exit_code, stop
from jobs.output import json_alone

if TYPE_CHECKING:
    from pydantic import ValidationError

_HELP = """Turn FDA drug labels into a question-answering benchmark, evaluate language models on it, answer questions
with citations, and score the factuality of answers."""
_SOURCES = (
    "Options may also be given in the environment, as FDARX_JOB_OPTION (FDARX_BUILD_SAMPLE=700), or in a YAML file of "
    "`option: value` lines, with --config FILE. The command line takes precedence, then the environment."
)

PREFIX = "FDARX_"
_READ_ELSEWHERE = frozenset({"FDARX_DATA", "FDARX_KILLS", "FDARX_REQUIRE_ENGINE", "FDARX_VERIFIER"})
"""Variables of FDARx that are no options of jobs: of its tests and benchmarks, and the directory of the verifier."""
_OF_OTHERS = re.compile(
    r"_(?:KEY|TOKEN|SECRET|PASSWORD)$|^FDARX_KEY_"
    r"|_SERVICE_HOST$|_SERVICE_PORT(?:_\w+)?$|_PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?$"
)
"""Names of keys, which models files choose, and those that Kubernetes sets for a service whose name begins so."""

_JOBS = {
    "example": ("jobs.example:example", "Write example labels of invented drugs to a folder, to try the other jobs."),
    "fetch": ("jobs.fetch_labels:fetch", "Download labels from DailyMed to a disk or to s3://."),
    "build": ("jobs.build_benchmark:build", "Build a question-answering benchmark from SPL labels."),
    "push": ("jobs.push:push", "Upload the benchmark of a build to the Hugging Face Hub."),
    "evaluate": ("jobs.evaluate:evaluate", "Evaluate models on a benchmark, with metrics and a report."),
    "grade": ("jobs.evaluate:grade", "Grade a file of questions and answers, without a benchmark."),
    "compare": ("jobs.compare:compare", "Compare evaluations side by side, with differences and their intervals."),
    "index": ("jobs.build_index:index", "Build a search index from documents or from the labels of a run."),
    "evaluate-rag": ("jobs.evaluate_rag:evaluate_rag", "Compare ways of retrieving and answering on an index."),
    "factuality": ("jobs.score_factuality:factuality", "Score the factuality of answers against evidence."),
    "verify": ("jobs.verify:verify", "Score a verification engine on marked pairs of texts and statements."),
    "finetune": ("jobs.finetune:finetune", "Train a language model on question-answer pairs."),
    "check": ("jobs.check:check", "Ask the models of a file a few short questions, and say what each of them can do."),
    "serve": ("jobs.serve:serve", "Answer questions with citations over HTTP, with a page to ask on."),
    "report": ("jobs.report:report", "Build the pages of a finished run again."),
    "view": ("jobs.view:view", "Write one page over all runs of a folder."),
    "show": ("jobs.show:show", "Print all that a run knows of one question."),
}
_REVIEW = {
    "sample": ("jobs.review:sample", "Draw what people are to judge, with a page for each of them."),
    "import": ("jobs.review:import_files", "Import what annotators saved."),
    "adjudicate": ("jobs.review:adjudicate", "Write a page of the items whose marks differ."),
    "export": (
        "jobs.review:export",
        "Export items for Label Studio, or the claims that people judged as marked pairs.",
    ),
    "report": ("jobs.review:report", "Report how far judges and people agree, and people with each other."),
    "judges": ("jobs.review_judges:judges", "Measure judges and rules on candidates that were marked by reading."),
}


_LONG = ("build", "evaluate", "evaluate-rag", "factuality", "grade", "serve")
"""Jobs with many options, whose `--help` shows the required and the common ones."""


def _app(*, short_help: bool = False) -> App:
    """Return the application; `short_help`: the help of a long job leaves out options that are not common."""
    parameter = Parameter(consume_multiple=True, allow_repeating=True, negative=(), show_env_var=False)
    app = App(
        name="fdarx",
        help=_HELP,
        help_epilogue=_SOURCES,
        help_format="plaintext",
        version=_version,
        default_parameter=parameter,
        help_flags=("--help", "-h", "--help-all"),
        group_parameters=Group("Options", sort_key=0),
    )
    for name, (target, summary) in _JOBS.items():
        short: dict[str, Any] = {"usage": "Usage: fdarx show [OPTIONS] RUN [QUESTION]"} if name == "show" else {}
        if short_help and name in _LONG:
            short["default_parameter"] = Parameter.combine(parameter, Parameter(show=False))
            short["help_epilogue"] = f"The other options: `fdarx {name} --help-all`.\n\n{_SOURCES}"
        app.command(target, name=name, help=summary, **short)
    review = App(name="review", help="Review a run with people: sample, import, adjudicate, export, report, judges.")
    for name, (target, summary) in _REVIEW.items():
        review.command(target, name=name, help=summary)
    app.command(review)
    app.register_install_completion_command(help="Install completion for the shell in use.")
    return app


def _version() -> str:
    from fdarx_core.storage import version_of  # importing it takes longer than showing help may

    return version_of("fdarx")


def reference() -> str:
    """Return the help of all jobs as a page of Markdown: where options are read from, and the options of each job."""
    _, heading, jobs = _app().generate_docs().partition("**Commands**:")
    return f"# The command line\n\n{_HELP}\n\n{_SOURCES}\n\n{heading}{jobs}"


def parse(arguments: Sequence[str]) -> partial[Any]:
    """Return the call of the job that the arguments name. A wrong argument ends the program with one line and exit
    code 2."""
    words, of_file = _without_config(list(arguments))
    app = _app(short_help=not {"--help", "-h"}.isdisjoint(words))
    jobs = [*_JOBS, *(f"review {name}" for name in _REVIEW)]
    app.config = (partial(_read_environment, jobs), of_file)
    try:
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        stop(_message(error, words))
    return partial(command, *bound.args, **bound.kwargs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the arguments name; returns its exit code: 0 done, 2 wrong argument, 3 something was left open
    that the same command finishes, 4 a threshold is missed, 130 interrupted."""
    return exit_code(lambda: _run(sys.argv[1:] if arguments is None else arguments))


def run_as(*words: str) -> NoReturn:
    """Run `fdarx WORDS` with the arguments of this program, for `python -m jobs.MODULE`."""
    sys.exit(main([*words, *sys.argv[1:]]))


def _run(words: Sequence[str]) -> object:
    with json_alone(job := parse(words)):
        return job()


def _read_environment(
    jobs: Collection[str], app: App, commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Fill in the options of a job from the environment, where they are FDARX_JOB_OPTION; cyclopts calls this.

    A misspelt name must not be ignored in silence: a variable of the job that runs ends the program with exit code 2 if
    the job has no such option, as on the command line, and any other variable that nothing reads is a warning.

    Args:
        jobs: The names of all jobs, such as "build" and "review sample".
        app: The application, as for `Env`.
        commands: The words of the job that runs.
        arguments: Its options.
    """
    job = " ".join(commands)
    if job not in jobs:
        return
    known = dict.fromkeys(
        f"{_prefix(job)}{_variable(name)}" for option in arguments for name in option.names if name.startswith("--")
    )
    for name in sorted(os.environ):
        if not name.startswith(PREFIX) or name in known or name in _READ_ELSEWHERE or _OF_OTHERS.search(name):
            continue
        owner = max((known_job for known_job in jobs if name.startswith(_prefix(known_job))), key=len, default="")
        if owner == job:
            stop(f"{name}: `fdarx {job}` has no such option{_nearest(name, known)}; see `fdarx {job} --help`")
        if not owner:
            print(f"warning: {name} is ignored, no job reads it{_nearest(name, known)}", file=sys.stderr)
    Env(_prefix(job), command=False)(app, commands, arguments)


def _prefix(job: str) -> str:
    return f"{PREFIX}{_variable(job)}_"


def _variable(name: str) -> str:
    """Return a name as it is written in variables: "evaluate-rag" is EVALUATE_RAG."""
    return re.sub(r"\W", "_", name.lstrip("-")).upper()


def _nearest(name: str, known: Collection[str]) -> str:
    """Return the question after the name that is most alike; the prefix, which all have, does not count."""
    near = did_you_mean(name.removeprefix(PREFIX), (variable.removeprefix(PREFIX) for variable in known))
    return near.replace("mean ", f"mean {PREFIX}")


def _without_config(arguments: list[str]) -> tuple[list[str], Dict]:
    """Return the arguments without `--config FILE`, and the options that the file holds."""
    for at, word in enumerate(arguments):
        name, equals, file = word.partition("=")
        if name == "--config":
            rest = arguments[at + 1 :] if equals else arguments[at + 2 :]
            if not equals and at + 1 == len(arguments):
                stop("--config: give a YAML file")
            path = file if equals else arguments[at + 1]
            return arguments[:at] + rest, Dict(_read_yaml(path), use_commands_as_keys=False, source=path)
    return arguments, Dict({})


def _read_yaml(path: str) -> dict[str, Any]:
    import yaml

    from fdarx_core.storage import Location, StorageError

    try:
        values = yaml.safe_load(Location(path).read_text())
    except StorageError as error:
        stop(f"--config: {error}")
    except yaml.YAMLError as error:
        stop(f"--config {path} is not YAML: {error}")
    if not isinstance(values, dict):
        stop(f"--config {path} must hold options as `name: value` lines")
    return {str(name).replace("-", "_"): value for name, value in values.items()}


def _message(error: CycloptsError, arguments: Sequence[str]) -> str:
    """Return one line that says which option of the command line is wrong, and where its help is."""
    chain = " ".join(error.command_chain or ())
    seen = f"; see `fdarx {chain} --help`" if chain else "; see `fdarx --help`"
    from pydantic import ValidationError

    first = next(iter(arguments[len(error.command_chain or ()) :]), "-")
    if error.app and error.app.default_command and first in (error.unused_tokens or ()) and not first.startswith("-"):
        named = [one.name for one in error.app.assemble_argument_collection() if "Required" in str(one.parameter.group)]
        return f"{first}: `fdarx {chain}` takes no positional arguments; write {[*named, '--OPTION'][0]} {first}{seen}"
    if isinstance(error, UnknownOptionError):
        token, known = error.token, [name.strip("-") for one in error.argument_collection for name in one.names]
        name = (token.keyword or token.value).partition("=")[0].strip("-[]")
        if name.upper() in known:
            return f"{name.upper()} is positional: write its value without --{name}{seen}"
        if token.source != "cli":
            return f"{token.source}: there is no option {name}{did_you_mean(name, known)}{seen}"
    elif isinstance(error.__cause__, ValidationError):
        return f"{_problem(error.__cause__, arguments)}{seen}"
    if isinstance(error, MissingArgumentError) and error.argument:
        lacking = f"{error.keyword} needs a value" if error.keyword else f"{error.argument.name} is required"
        return f"{lacking}{seen}"
    if isinstance(error, UnusedCliTokensError) and (word := (error.unused_tokens or [""])[0]) in arguments:
        before = [one for one in arguments[: arguments.index(word)] if one.startswith("-")]
        return f"{word!r} is one value too many{f' for {before[-1]}' if before else ''}{seen}"
    return f"{str(error).partition(' Available commands')[0].rstrip('.')}{seen}"


def _problem(error: ValidationError, arguments: Sequence[str] = ()) -> str:
    message = options_fault(error.errors()[0], (), lambda name: "--" + name.removeprefix("as_").replace("_", "-"))
    option, required, _ = message.partition(" is required")
    close = get_close_matches(option, [word.partition("=")[0] for word in arguments], 1, 0.75) if required else []
    return message + (f"; there is no {close[0]}, did you mean {option}?" if close else "")


if __name__ == "__main__":
    sys.exit(main())
