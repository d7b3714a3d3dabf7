"""The HTTP side of the service: any ASGI server runs it, over any world that holds corpora and a model."""

from serving.http.app import make_app
from serving.http.keys import KeysError, add_key
from serving.http.logs import log_to
from serving.http.meter import Meter
from serving.http.settings import ServiceSettings
from serving.http.world import Corpus, Overloaded, ServedTools, Surroundings, Unavailable, World

__all__ = [
    "Corpus",
    "KeysError",
    "Meter",
    "Overloaded",
    "ServedTools",
    "ServiceSettings",
    "Surroundings",
    "Unavailable",
    "World",
    "add_key",
    "log_to",
    "make_app",
]
