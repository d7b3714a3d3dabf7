"""Where things are at DailyMed, and which addresses are followed.

Source: DailyMed's "Application Development Support: Web Services" (v2) and "Download All Drug Labels".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from yarl import URL

from fdarx_core.dailymed.refusals import Refused

BASE_URL = "https://dailymed.nlm.nih.gov/dailymed"

PAGE_SIZE = 100
"""Labels on a page of a listing; the service gives no more."""

FILTERS = (
    "application_number",
    "boxed_warning",
    "dea_schedule_code",
    "drug_class_code",
    "drug_class_coding_system",
    "labeler",
    "manufacturer",
    "marketing_category_code",
    "name_type",
    "ndc",
    "rxcui",
    "unii_code",
)
"""What the service also selects labels by, as it names them."""

_SET_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_set_id(text: str) -> bool:
    """True for a UUID in lower case, which is safe in a path and an address."""
    return bool(_SET_ID.fullmatch(text))


class Site:
    """DailyMed's addresses under one base, such as `BASE_URL`."""

    def __init__(self, base_url: str = BASE_URL) -> None:
        self._base = URL(base_url.rstrip("/"))

    @property
    def releases(self) -> URL:
        """The page that lists the bulk releases."""
        return self._base / "spl-resources-all-drug-labels.cfm"

    def listing(self, query: Mapping[str, str], page: int) -> URL:
        """One page, from 1, of the labels that match."""
        return (self._base / "services/v2/spls.json").with_query(
            {**query, "pagesize": str(PAGE_SIZE), "page": str(page)}
        )

    def label(self, set_id: str) -> URL:
        return self._base / "services/v2/spls" / f"{set_id}.xml"

    def followed(self, here: URL, link: str) -> URL:
        """Where a link or a redirect at `here` leads. Raises Refused unless to https or to DailyMed itself."""
        try:
            url = here.join(URL(link))
            safe = url.scheme == "https" or url.origin() == self._base.origin()
        except ValueError:
            raise Refused("bad_address", f"{here} leads to {link[:200]!r}, which is no address") from None
        if not safe:
            raise Refused("bad_address", f"{here} leads to {str(url)[:200]}; only https is followed")
        return url
