"""Labels from DailyMed into a folder: bulk releases, single labels by set id, or those that match a query."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence

from fdarx_core.dailymed import REJECTS, Client, Fetching, Outcome, Site
from fdarx_core.storage import Location, StorageError
from jobs.exits import INTERRUPTED, STOPPED
from jobs.fetch_config import FetchConfig
from jobs.options import read_options, stop
from jobs.progress import ProgressLine
from jobs.versions import versions

_PHASES = {"list": "labels listed", "label": "labels", "release": "MB"}
_WHY_SHOWN = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something could not be had, 130 interrupted."""
    config = read_options(FetchConfig, arguments, prog="fdarx fetch", description=__doc__ or "")
    try:
        place = Location(config.out)
        place.check_writable()
        with ProgressLine(_PHASES, asking="") as progress:
            outcome = asyncio.run(_fetch(config, place, progress))
    except StorageError as error:
        stop(str(error))
    except KeyboardInterrupt:
        print("\ninterrupted; what is whole is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    _tell(outcome, place)
    return STOPPED if outcome.rejects or outcome.stopped else 0


async def _fetch(config: FetchConfig, place: Location, progress: ProgressLine) -> Outcome:
    site = Site(config.base_url)
    async with Client(site, _agent(config), config.rate, config.connections, config.timeout) as client:
        fetching = Fetching(client, place, config.half_there(), progress)
        await fetching.run(config.wish())
    return fetching.outcome


def _agent(config: FetchConfig) -> str:
    """Who asks: DailyMed's operators can tell these requests from others, and whom to write to."""
    version = versions()["fdarx"]
    name = f"fdarx/{version}" if version[0].isdigit() else "fdarx"
    return f"{name} (fetches SPL labels{'; ' if config.contact else ''}{config.contact or ''})"


def _tell(outcome: Outcome, place: Location) -> None:
    if outcome.stopped:
        print(f"stopped: {_plain(outcome.stopped)}", file=sys.stderr)
    if outcome.rejects:
        reasons = Counter(reject.reason for reject in outcome.rejects)
        counted = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common())
        print(f"not had: {counted}; see {place}/{REJECTS}", file=sys.stderr)
        for reject in outcome.rejects[:_WHY_SHOWN]:
            print(f"  {_plain(reject.id)}: {reject.reason}: {_plain(reject.detail)}", file=sys.stderr)
    labels = sum(bool(one.set_id) for one in outcome.fetched)
    size = sum(one.bytes for one in outcome.fetched) / 10**6
    print(f"folder     {place}")
    print(f"fetched    {labels:,} labels, {len(outcome.fetched) - labels:,} bulk files, {size:,.1f} MB")
    print(f"unchanged  {outcome.unchanged:,}")


def _plain(text: str) -> str:
    """One line that a terminal can be shown: part of it is a server's."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


if __name__ == "__main__":
    sys.exit(main())
