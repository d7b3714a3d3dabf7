"""Upload the benchmark of a build to the Hugging Face Hub, as a dataset."""

from __future__ import annotations

from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.hub import upload_benchmark
from jobs.cli import run_as


def push(
    run: str,
    dataset: str,
    /,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str = "Upload a benchmark of FDARx",
) -> int:
    """Upload the benchmark of a build to the Hugging Face Hub, as a dataset, in one commit.

    It needs `pip install 'fdarx[hub]'`, and an access token in HF_TOKEN or of `hf auth login`. The dataset is created
    if there is none. Repeat the command to resume an interrupted upload.

    Parameters
    ----------
    run
        The run of a finished build, on disk or s3://.
    dataset
        The name of the dataset on the hub, USER/NAME.
    private
        Create a private dataset (public, unless the organization's default is another).
    revision
        The branch to commit to, which is created if there is none (main).
    message
        The message of the commit.
    """
    folder = open_build(run).file("benchmark")
    address, commit = upload_benchmark(folder, dataset, private=private, revision=revision, message=message)
    place = f"{dataset}@{revision}" if revision else dataset
    print(f"dataset  {address}\ncommit   {commit}\nread     fdarx evaluate --benchmark hf://{place}")
    return 0


if __name__ == "__main__":
    run_as("push")
