"""Labels from DailyMed: bulk releases, and single labels by set id or query, checked and listed in a manifest."""

from fdarx_core.dailymed.client import BASE_URL as BASE_URL
from fdarx_core.dailymed.client import DailyMedClient as DailyMedClient
from fdarx_core.dailymed.client import is_set_id as is_set_id
from fdarx_core.dailymed.downloads import RELEASES as RELEASES
from fdarx_core.dailymed.fetching import REJECTS_FILE as REJECTS_FILE
from fdarx_core.dailymed.fetching import Fetcher as Fetcher
from fdarx_core.dailymed.fetching import FetchRequest as FetchRequest
from fdarx_core.dailymed.fetching import FetchResult as FetchResult
