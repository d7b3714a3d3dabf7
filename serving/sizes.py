"""What a model measures and what it does a second: stated in its file, with the source."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Size(BaseModel):
    """A decoder's dimensions, as its config.json has them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parameters: float = Field(gt=0, description="All weights, in thousand millions (B).")
    layers: int = Field(ge=1, description="num_hidden_layers.")
    kv_heads: int = Field(ge=1, description="num_key_value_heads.")
    head_dim: int = Field(ge=1, description="head_dim; where absent, hidden_size over num_attention_heads.")
    weight_bytes: float = Field(2, gt=0, description="Bytes a weight: 2 in bfloat16, 1 in fp8.")
    kv_bytes: float = Field(2, gt=0, description="Bytes a cached value: 2, or 1 where engine says kv_cache_dtype fp8.")


class Throughput(BaseModel):
    """What one replica does with a full batch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefill: float = Field(gt=0, description="Prompt tokens read a second, those from the cache not counted.")
    decode: float = Field(gt=0, description="Reply tokens written a second, all sequences together.")
    source: str = Field(min_length=1, description="Where the two figures come from.")
