"""SPL XML to labels and passages: find the files, identify and select the documents, parse them."""

from fdarx_core.labels.parse import parse_document as parse_document
from fdarx_core.labels.selection import Identity as Identity
from fdarx_core.labels.selection import Selection as Selection
from fdarx_core.labels.selection import find_sources as find_sources
from fdarx_core.labels.selection import identify as identify
from fdarx_core.labels.selection import identify_sources as identify_sources
from fdarx_core.labels.selection import read_source as read_source
from fdarx_core.labels.selection import select as select
from fdarx_core.labels.xml import BadDocument as BadDocument
from fdarx_core.storage.sources import Source as Source
from fdarx_core.storage.sources import read_document as read_document
