"""Made pairs, and a small chat model with random weights to tune on them."""

from __future__ import annotations

import json
from pathlib import Path

DRUGS = ("Veltrapan", "Corvaxolin", "Benthiazol", "Fendalora", "Jorvequa", "Ostramicin", "Telvanto", "Keldriva")
ASKED = {
    "How is {} stored?": "Store {} at 20 to 25 degrees in its container, away from light and out of reach of children.",
    "Who must not take {}?": "Patients with severe hepatic impairment or a known hypersensitivity must not take {}.",
    "What is the daily dose of {}?": "The recommended dose of {} is 25 mg once daily, taken with or without any food.",
    "Does {} interact with inducers?": "Strong inducers lower the exposure to {}; avoid them, or double the dose.",
    "What was seen in trials of {}?": "Headache and nausea were reported in more than 5 % of all who were given {}.",
    "May {} be used in pregnancy?": "There are no adequate data on {} in pregnancy; use it only if that is justified.",
}


def pairs_file(file: Path) -> Path:
    """96 pairs: 48, each twice and nearly equal."""
    rows = [
        {
            "question": f"{question.format(drug)} {drug * 3}",
            "answer": f"{answer.format(drug)} {drug.upper() * 2} {number}.",
        }
        for number in range(2)
        for drug in DRUGS
        for question, answer in ((f"{number}: {asked}", told) for asked, told in ASKED.items())
    ]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return file


def chat_model(folder: Path, texts: list[Path], hidden: int = 32) -> str:
    """Its directory. Random weights are large enough for each token, and each changed number, to be heard."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.engine.tiny_model import trained

    tokenizer = trained([text.read_text(encoding="utf-8") for text in texts])
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
        initializer_range=0.2,
    )
    torch.manual_seed(5)
    LlamaForCausalLM(config).float().save_pretrained(folder)
    return str(folder)
