"""Labels from DailyMed into a folder: bulk releases, single labels by set id, or those that match a query."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import AfterValidator, Field, field_validator, model_validator

from fdarx_core.dailymed.client import BASE_URL, DailyMedClient, is_set_id
from fdarx_core.dailymed.downloads import RELEASES
from fdarx_core.dailymed.fetching import REJECTS_FILE, Fetcher, FetchRequest, FetchResult
from fdarx_core.labels.rxnorm import ADDRESS, names_folder
from fdarx_core.labels.selection import HUMAN_PRESCRIPTION
from fdarx_core.specs.options import JobConfig, Names, Required, one_of
from fdarx_core.specs.running import versions
from fdarx_core.storage import Location, StorageError
from jobs import STOPPED
from jobs.cli import run_as
from jobs.output import print_json, printable, tell_rejects
from jobs.progress import ProgressLine

# further parameters of the service's listing
_FILTERS = (
    "application_number, boxed_warning, dea_schedule_code, drug_class_code, drug_class_coding_system, labeler, "
    "manufacturer, marketing_category_code, name_type, ndc, rxcui, unii_code"
)
_TYPES = {"human_rx": HUMAN_PRESCRIPTION, "human_otc": "34390-5"}
_PHASES = {"list": "labels listed", "label": "labels", "release": "MB"}


def _matches(pattern: str, complaint: str) -> AfterValidator:
    """Return the check of a text that must match the pattern as a whole; `complaint` may contain the text as {}."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(complaint.format(text))
        return text

    return AfterValidator(check)


_Address = Annotated[str, _matches(r"https?://[^\s/?#]+[^\s?#]*", "{} is no http:// or https:// address")]
_Type = Annotated[
    str,
    _matches(
        rf"{'|'.join(_TYPES)}|\d{{4,5}}-\d",
        f"there is no type {{}}; give {', '.join(_TYPES)}, or a LOINC code such as 53404-0",
    ),
]
_Filter = Annotated[
    str, _matches(rf"({_FILTERS.replace(', ', '|')})=.+", f"{{}} is not NAME=VALUE with a NAME of {_FILTERS}")
]
_Contact = Annotated[str, _matches("[!-~][ -~]{2,200}", "give an e-mail or web address in plain letters")]


class FetchConfig(JobConfig):
    """Options of `fdarx fetch`."""

    out: Required[str | None] = None
    """folder for the labels (required, except with --names alone: ~/.cache/fdarx/names), on disk or s3://, for `fdarx
    build --labels`; repeat the command to fetch what is missing or newer"""
    release: Annotated[Names, one_of(RELEASES, "release")] = Field(
        default_factory=list, description=f"DailyMed's bulk releases: {', '.join(RELEASES)}; human_rx takes about 15 GB"
    )
    part: list[int] = Field(default_factory=list)
    """numbers of the parts of a release to fetch, from 1 (all)"""
    set_ids: list[str] = Field(default_factory=list)
    """single labels: set ids, or files with one set id per line"""
    names: bool = False
    """names of drugs: RxNorm's current prescribable content, which needs no license"""
    query: str | None = None
    """labels of this drug, by generic or brand name"""
    type: _Type | None = None
    """labels of this type: human_rx, human_otc, or a LOINC code of a document type"""
    where: list[_Filter] = Field(
        default_factory=list, description=f"labels by other parameters of DailyMed's queries, as NAME=VALUE: {_FILTERS}"
    )
    since: date | None = None
    """only labels of a query and bulk files that were published on or after this day, YYYY-MM-DD"""
    limit: int | None = Field(None, ge=1)
    """maximum number of labels of a query (all)"""
    rate: float = Field(3, gt=0, le=10)
    """maximum number of requests per second; DailyMed needs no key"""
    connections: int = Field(2, ge=1, le=8)
    """maximum number of concurrent requests"""
    timeout: float = Field(60, gt=0)
    """seconds without data, or with nearly none, before a request is retried"""
    contact: _Contact | None = None
    """your e-mail or web address, which is sent with each request so that DailyMed can contact you"""
    scratch: str | None = None
    """local folder for incomplete bulk files; if it is kept after the job, the next job resumes them (OUT/.partial; for
    s3://, ~/.cache/fdarx/fetch)"""
    base_url: _Address = BASE_URL
    """address of DailyMed or a mirror"""
    names_url: _Address = ADDRESS
    """address of the zip with RxNorm's prescribable content"""

    @field_validator("set_ids")
    @classmethod
    def _read_lists(cls, entries: list[str]) -> list[str]:
        ids: dict[str, None] = {}
        for entry in entries:
            named = os.path.isfile(entry)  # noqa: PTH113 (Path.is_file raises on names too long)
            try:
                lines = Location(entry).read_text().splitlines() if named else [entry]
            except StorageError as error:
                raise ValueError(str(error)) from error
            for line in lines:
                set_id = line.strip().lower()
                if set_id and not is_set_id(set_id):
                    where = f"{entry} holds {set_id[:60]!r}, which" if named else f"{entry[:60]!r} is no file and"
                    raise ValueError(f"{where} is no set id like 0be2e371-1f05-48d7-8f2e-f2024f3305f3")
                ids.update({set_id: None} if set_id else {})
        return list(ids)

    @model_validator(mode="after")
    def _something(self) -> FetchConfig:
        labels = self.release or self.set_ids or self.filters()
        if not labels and not self.names:
            options = "--release, --set-ids, --names, or --query, --type, --where or --since"
            raise ValueError(f"nothing to fetch: give {options}")
        if labels and not self.out:
            raise ValueError("--out is required for labels")
        if min(self.part, default=1) < 1:
            raise ValueError("parts are counted from 1")
        if self.part and not self.release:
            raise ValueError("--part goes with --release")
        if self.limit and not self.filters():
            raise ValueError("--limit goes with --query, --type, --where or --since")
        if self.since and not self.release and not self.filters():
            raise ValueError("--since goes with a query or --release: labels by set id are fetched whatever their date")
        return self

    def filters(self) -> dict[str, str]:
        """Return the query parameters. `--since` alone selects labels only if no releases or set ids are given."""
        filters = {"drug_name": self.query} if self.query else {}
        if self.type:
            filters["doctype"] = _TYPES.get(self.type, self.type)
        filters |= dict(condition.split("=", 1) for condition in self.where)
        if self.since and (filters or not (self.release or self.set_ids)):
            filters |= {"published_date": self.since.isoformat(), "published_date_comparison": "gte"}
        return filters


def fetch(*, config: Annotated[FetchConfig | None, Parameter(name="*")] = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something could not be had, 130 interrupted."""
    config = config or FetchConfig()
    place = Location(config.out or names_folder())
    place.check_writable()
    with ProgressLine(_PHASES, quiet=config.quiet) as progress:
        result = asyncio.run(_fetch(config, place, progress))
    print_json(asdict(result)) if config.as_json else _tell(result, place)
    return STOPPED if result.rejects or result.stopped else 0


async def _fetch(config: FetchConfig, place: Location, progress: ProgressLine) -> FetchResult:
    # DailyMed's operators see from the user agent who sends the requests, and whom to contact
    version = versions()["fdarx"]
    name = f"fdarx/{version}" if version[0].isdigit() else "fdarx"
    agent = f"{name} (fetches SPL labels{'; ' if config.contact else ''}{config.contact or ''})"
    request = FetchRequest(
        tuple(config.release),
        tuple(config.part),
        config.since,
        tuple(config.set_ids),
        config.filters(),
        config.limit,
        config.names_url if config.names else "",
    )
    local = Path.home() / ".cache" / "fdarx" / "fetch" if place.is_remote else Path(str(place)) / ".partial"
    scratch = Path(config.scratch) if config.scratch else local
    async with DailyMedClient(config.base_url, agent, config.rate, config.connections, config.timeout) as client:
        progress("list", 0, 0)
        fetcher = Fetcher(client, place, scratch, progress)
        await fetcher.run(request)
    return fetcher.result


def _tell(result: FetchResult, place: Location) -> None:
    from fdarx_core.report.page_engine import plural  # importing it takes longer than showing help may

    if result.stopped:
        print(f"stopped: {printable(result.stopped)}", file=sys.stderr)
    if result.rejects:
        tell_rejects("not had", result.rejects, f"{place}/{REJECTS_FILE}")
    labels = sum(bool(file.set_id) for file in result.fetched)
    size = sum(file.bytes for file in result.fetched) / 10**6
    print(f"folder     {place}")
    print(f"fetched    {plural(labels, 'label')}, {plural(len(result.fetched) - labels, 'bulk file')}, {size:,.1f} MB")
    print(f"unchanged  {result.unchanged:,}")


if __name__ == "__main__":
    run_as("fetch")
