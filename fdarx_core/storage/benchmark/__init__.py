"""A finished benchmark out of a run's parts: Parquet by type of question, FDARxBench's published format, a card."""

from fdarx_core.storage.benchmark.writing import write_benchmark

__all__ = ["write_benchmark"]
