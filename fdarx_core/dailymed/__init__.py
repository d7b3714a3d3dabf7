"""Labels from DailyMed: bulk releases, and single labels by set id or query, checked and listed in a manifest."""

from fdarx_core.dailymed.client import BASE_URL, FILTERS, DailyMedClient, is_set_id
from fdarx_core.dailymed.downloads import RELEASES
from fdarx_core.dailymed.fetching import REJECTS, Fetcher, FetchRequest, FetchResult

__all__ = [
    "BASE_URL",
    "FILTERS",
    "REJECTS",
    "RELEASES",
    "DailyMedClient",
    "FetchRequest",
    "FetchResult",
    "Fetcher",
    "is_set_id",
]
