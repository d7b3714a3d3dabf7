"""Reads files as documents, splits them into chunks, and reads labels as chunks, from SPL files and from runs."""
