"""Made pairs, and a small chat model with random weights to tune on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER

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


def chat_model(folder: Path, texts: Sequence[str], *, hidden: int = 32, vocabulary: int = 2048) -> str:
    """Its directory. `texts` teach its tokenizer, and so does the prompt, so that it is not read letter by letter.

    Weights of this size leave numbers as large as they are, from layer to layer and in the logits; the head is no part
    of what is tuned, so that the loss can fall the further, the smaller `vocabulary` is beside `hidden`.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.engine.tiny_model import CHAT, trained

    prompt = [str(one["content"]) for one in HYPOTHETICAL_ANSWER.request({"question": ""}, endpoint="").messages]
    taught = [*texts, *prompt * len(texts)]
    tokenizer = trained([]).train_new_from_iterator(taught, vocabulary, show_progress=False)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
        initializer_range=hidden**-0.5,
    )
    torch.manual_seed(5)
    LlamaForCausalLM(config).float().save_pretrained(folder)
    return str(folder)
