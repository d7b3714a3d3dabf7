"""Convert a model of a GGUF file to a directory in Hugging Face's format with float32 weights, which vLLM serves.

python convert_gguf.py FILE DIRECTORY, by the engine's interpreter, with the packages gguf and accelerate.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(file: Path, directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # the weights are no longer quantized; with a quantizer, save_pretrained and vLLM refuse them
    model.hf_quantizer = None
    model.is_quantized = False
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    del config["quantization_config"]
    (directory / "config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
