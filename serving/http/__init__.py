"""The HTTP service: an ASGI application over any backend that searches corpora and asks models."""

from serving.http.access import add_key
from serving.http.app import make_app
from serving.http.backend import Overloaded, Record, ServedCorpus, ServiceBackend, Unavailable
from serving.http.logs import configure_request_log
from serving.settings import ServiceSettings

__all__ = [
    "Overloaded",
    "Record",
    "ServedCorpus",
    "ServiceBackend",
    "ServiceSettings",
    "Unavailable",
    "add_key",
    "configure_request_log",
    "make_app",
]
