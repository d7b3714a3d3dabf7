"""Labels from DailyMed: its bulk releases, and single labels by set id or query, whole, checked, accounted for."""

from fdarx_core.dailymed.addresses import BASE_URL, FILTERS, Site, is_set_id
from fdarx_core.dailymed.client import Client
from fdarx_core.dailymed.fetching import REJECTS, Fetching, Outcome, Wish
from fdarx_core.dailymed.release_page import RELEASES

__all__ = ["BASE_URL", "FILTERS", "REJECTS", "RELEASES", "Client", "Fetching", "Outcome", "Site", "Wish", "is_set_id"]
