"""How PubMed is reached."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, Field

NAME = "pubmed"
"""The endpoint that requests to PubMed name."""


class PubMedSettings(BaseModel):
    """Where Entrez is, and how it is treated. The key is not part of it, only its environment variable's name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(
        "https://eutils.ncbi.nlm.nih.gov/entrez/eutils",
        pattern=r"^https?://[^\s/?#@]+(?:/[^\s?#]*)?$",
        description="Where esearch.fcgi and efetch.fcgi are: NCBI, or a mirror.",
    )
    key_env: str = Field(
        "NCBI_API_KEY",
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description="Environment variable with a key of NCBI; with one, 10 requests a second are allowed, without 3.",
    )
    tool: str = Field("fdarx", min_length=1, description="What NCBI is told of the program that asks.")
    email: str = Field("", description="Whom NCBI may write to before it blocks an address that asks too much.")
    timeout_s: float = Field(30, gt=0, description="Seconds for one reply.")
    max_tries: int = Field(
        6, ge=1, description="Tries that may fail before a claim's search counts as failed; being told to wait is none."
    )
    max_wait_s: float = Field(300, ge=0, description="Seconds that one search may wait between its tries.")

    def key(self) -> str:
        """The key, read from the environment now; "" without one. Raises ValueError where it is not usable."""
        key = os.environ.get(self.key_env, "").strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError(f"environment variable {self.key_env} holds no plain key; set it anew or unset it")
        return key
