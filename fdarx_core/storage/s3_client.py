"""The client of the S3 server that the environment names: credentials, region and endpoint by boto3's usual chain."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

_COMMON: dict[str, Any] = {"connect_timeout": 10, "read_timeout": 60, "max_pool_connections": 32}
_ONCE: dict[str, Any] = {"retries": {"mode": "standard", "total_max_attempts": 1}}
"""`patiently` asks again, for as long as is right at the time; two that do so would multiply."""


@cache
def client() -> Any:
    """One a process; a server other than Amazon's is addressed by path and spared Amazon's newer checksums."""
    made = boto3.session.Session().client("s3", config=Config(**_COMMON, **_ONCE))
    if re.search(r"\.amazonaws\.com(\.cn)?$", made.meta.endpoint_url):
        return made
    checks = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    config = Config(s3={"addressing_style": "path"}, **_COMMON, **_ONCE, **checks)
    return boto3.session.Session().client("s3", config=config)


os.register_at_fork(after_in_child=client.cache_clear)
