"""The HTTP service: an ASGI application over any backend that searches corpora and asks models."""

from serving.http.access import add_key as add_key
from serving.http.app import make_app as make_app
from serving.http.backend import Overloaded as Overloaded
from serving.http.backend import Record as Record
from serving.http.backend import ServedCorpus as ServedCorpus
from serving.http.backend import ServiceBackend as ServiceBackend
from serving.http.backend import Unavailable as Unavailable
from serving.http.logs import configure_request_log as configure_request_log
from serving.http.logs import open_request_log as open_request_log
from serving.settings import ServiceSettings as ServiceSettings
