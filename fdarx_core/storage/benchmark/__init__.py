"""Finished benchmarks: written out of a run's parts, and read, from a run or published files, to be evaluated.

What is written: Parquet by type of question, FDARxBench's published format, a card.
"""

from fdarx_core.storage.benchmark.examined import Benchmark, Examined
from fdarx_core.storage.benchmark.intake import open_build, read_benchmark
from fdarx_core.storage.benchmark.reading import read_labels
from fdarx_core.storage.benchmark.writing import write_benchmark

__all__ = ["Benchmark", "Examined", "open_build", "read_benchmark", "read_labels", "write_benchmark"]
