"""The HTTP service: an ASGI application over the deployments that search corpora and ask models."""
