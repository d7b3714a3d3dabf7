"""Answering questions from an index: retrieval strategies, cited answers, and how good both are."""
