"""Datasets on the Hugging Face Hub: a benchmark is downloaded from it, and uploaded to it.

The address of the hub (`HF_ENDPOINT`), the cache (`HF_HOME`) and `HF_HUB_OFFLINE` are those of huggingface_hub, which
is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fdarx_core.storage.benchmark_writer import CONFIGS
from fdarx_core.storage.errors import StorageError, Unreachable
from fdarx_core.storage.location import Location
from fdarx_core.storage.published import lines_file
from fdarx_core.storage.splits import SPLITS

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

SCHEME = "hf://"
"""What the address of a dataset on the hub begins with."""
_PATTERNS = ["qa*.jsonl", "labels*.jsonl", "qa/*.jsonl", "labels/*.jsonl"]
_FILES = {
    *(f"{config}/{split}.parquet" for config in CONFIGS for split in SPLITS),
    *(lines_file(kind, split) for kind in ("qa", "labels") for split in SPLITS),
}
"""The names of the files that a benchmark can have."""


def download_benchmark(address: str) -> tuple[Location, str, str]:
    """Download the questions and labels of a dataset into the cache of huggingface_hub.

    Without a connection, the files of an earlier download are used.

    Args:
        address: `hf://USER/NAME[@REVISION]`; the revision is a branch, a tag or a commit, by default `main`.

    Returns:
        The folder with the files, the name of the dataset without its user, and the commit.

    Raises:
        StorageError: huggingface_hub is not installed, or the dataset cannot be read.
    """
    repo, _, revision = address.removeprefix(SCHEME).removeprefix("datasets/").rstrip("/").partition("@")
    _check_name(repo, f"{SCHEME}USER/NAME[@REVISION]")
    with _explained(f"read {address}", "the token in HF_TOKEN, or of `hf auth login`"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

        shown = not are_progress_bars_disabled()
        disable_progress_bars()
        try:
            folder = snapshot_download(repo, repo_type="dataset", revision=revision or None, allow_patterns=_PATTERNS)
        finally:
            if shown:
                enable_progress_bars()
    return Location(folder), repo.partition("/")[2], Path(folder).name


def upload_benchmark(
    folder: Location,
    repo: str,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str = "Upload a benchmark of FDARx",
) -> tuple[str, str]:
    """Upload the folder of a benchmark as a dataset, in one commit. The dataset is created if there is none.

    Files of an earlier benchmark in the dataset that this one lacks are deleted; other files are left alone. Files that
    are on the hub already are not uploaded again, so that an interrupted upload is resumed by the same call.

    Args:
        folder: the folder, on a disk or on S3.
        repo: `USER/NAME` of the dataset.
        private: whether a new dataset is private.
        revision: the branch to commit to, which is created if there is none; by default `main`.
        message: the message of the commit.

    Returns:
        The addresses of the dataset and of the commit.

    Raises:
        StorageError: there is no token, the token may not write, the hub cannot be reached, or the dataset is public
            although `private` is asked for.
    """
    _check_name(repo, "USER/NAME")
    with _explained(f"write {repo} on the hub", "the token in HF_TOKEN"):
        from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi

        api = HfApi(token=_token(), library_name="fdarx")
        address = api.create_repo(repo, repo_type="dataset", private=private or None, exist_ok=True)
        if private and not api.repo_info(repo, repo_type="dataset").private:
            raise StorageError(f"{repo} exists and is public; make it private on the hub, or leave out --private")
        if revision:
            api.create_branch(repo, repo_type="dataset", branch=revision, exist_ok=True)
        with _local_files(folder) as files:
            earlier = _FILES.intersection(api.list_repo_files(repo, repo_type="dataset", revision=revision))
            operations: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete] = [
                *(CommitOperationDelete(path_in_repo=name) for name in sorted(earlier - dict(files).keys())),
                *(CommitOperationAdd(path_in_repo=name, path_or_fileobj=file) for name, file in files),
            ]
            done = api.create_commit(repo, operations, commit_message=message, repo_type="dataset", revision=revision)
    return str(address), str(done.commit_url)


@contextmanager
def _local_files(folder: Location) -> Iterator[list[tuple[str, Path]]]:
    """Yield the files of a folder, each with its path below it; those on S3 are copied for the time of the block."""
    found = [(file.address.removeprefix(f"{folder.address}/"), file) for file in folder.list(recursive=True)]
    if not found:
        raise StorageError(f"{folder} has no files; give the run of a finished build")
    if not folder.is_remote:
        yield [(name, Path(file.address)) for name, file in found]
        return
    with TemporaryDirectory() as scratch:
        for name, file in found:
            with (Location(scratch) / name).open_output() as stream, file.open_input() as source:
                copyfileobj(source, stream, 1 << 20)
        yield [(name, Path(scratch) / name) for name, _ in found]


def _check_name(repo: str, form: str) -> None:
    parts = repo.split("/")
    if len(parts) != 2 or not all(parts):
        raise StorageError(f"{repo!r} is not the name of a dataset on the hub; write it as {form}")


def _token() -> str:
    """Return the token of HF_TOKEN, else that of `hf auth login`. Its text is in no message."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise StorageError(
            "HF_TOKEN holds no token for the hub; set it to an access token that may write, or run `hf auth login`"
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise StorageError("HF_TOKEN holds no token for the hub: a token has only letters, digits and signs")
    return token


@contextmanager
def _explained(action: str, token: str) -> Iterator[None]:
    """Raise StorageError for the errors of the hub, with what to do."""
    try:
        import huggingface_hub  # noqa: F401
    except ImportError as error:
        raise StorageError(f"cannot {action}: huggingface_hub is missing; pip install 'fdarx[hub]'") from error
    from httpx2 import TransportError
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    lost = (TransportError, LocalEntryNotFoundError, OfflineModeIsEnabled)
    try:
        yield
    except HFValidationError as error:
        raise StorageError(f"cannot {action}: {error}; correct the name") from error
    except (HfHubHTTPError, *lost, RuntimeError) as error:
        # The upload of a file, and the search in the cache, raise an error of their own around the cause.
        outer = isinstance(error, (RuntimeError, LocalEntryNotFoundError))
        cause = error.__cause__ if outer and error.__cause__ else error
        if isinstance(cause, HfHubHTTPError):
            raise StorageError(f"cannot {action}: {_reason(cause, token)}") from error
        why = f"{ENDPOINT} cannot be reached" if isinstance(cause, lost) else cause
        raise Unreachable(f"cannot {action}: {why}; check the network, HF_ENDPOINT and HF_HUB_OFFLINE") from error


def _reason(error: HfHubHTTPError, token: str) -> str:
    """Return why the hub refused a request, and what to do."""
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    status = error.response.status_code
    if isinstance(error, RevisionNotFoundError):
        return "there is no such revision; give a branch, a tag or a commit of the dataset"
    if status == 403:
        return f"the hub refuses it; {token} needs the permission for this dataset"
    if status == 401 and not isinstance(error, RepositoryNotFoundError):
        return f"the hub does not accept {token}; make a new one"
    if isinstance(error, RepositoryNotFoundError):
        return f"there is no such dataset, or {token} may not see it; check the name and the token"
    return f"the hub answered {status} ({error.server_message or 'without a reason'}); try again later"
