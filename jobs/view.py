"""Write one page over all runs of a folder."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fdarx_core.report.runs_page import INDEX, runs_page
from fdarx_core.specs.options import JobConfig
from fdarx_core.storage import Location
from jobs.cli import run_as
from jobs.output import print_json, tell_result


def view(folder: str, /, *, config: Annotated[JobConfig | None, Parameter(name="*")] = None) -> int:
    """Write one page over all runs, reviews and comparisons of a folder, newest first, each with its result.

    The page is index.html in this folder, with links to the pages of the runs: the folder can be published as static
    files.

    Parameters
    ----------
    folder
        The folder that has the runs, on disk or s3://.
    """
    place = Location(folder)
    text, runs = runs_page(place)
    page = place / INDEX
    page.write_text(text)
    if config and config.as_json:
        print_json({"folder": folder, "runs": runs, "page": str(page)})
    else:
        tell_result(f"The page lists the runs of {folder}: {runs:,}.", str(page))
    return 0


if __name__ == "__main__":
    run_as("view")
