"""The HTTP service: an ASGI application over any backend that searches corpora and asks models."""
