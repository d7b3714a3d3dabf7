"""Builds a small Llama with random weights, by the engine's interpreter:

    python tiny_model.py FOLDER HIDDEN LAYERS TEXT_FILE…

It says nothing sensible, but the engine treats it as any other model. Equal texts give an equal folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 8192
POSITIONS = 8192
SEED = 20260714
BEGIN, TURN, END = "<|begin|>", "<|turn|>", "<|end|>"
CHAT = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|turn|>' + message['role'] + '\n' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}"
)
CLOSING = ('"', '"}', '"}]', '"}]}', "]", "]}", "}", "}]", "}]}", END)
"""Tokens that end a string, a list or a reply. Without a push towards them, even choices among 8,192 tokens would
close a string after a thousand tokens or so, and no reply would ever end."""
PUSH = 6.0
"""Added to the logits of `CLOSING`, about their exponential in odds."""


def build(folder: Path, hidden: int, layers: int, texts: list[Path]) -> None:
    """Writes config, weights, tokenizer and chat template to `folder`; `hidden` is a multiple of 8."""
    tokenizer = trained([text.read_text(encoding="utf-8") for text in texts])
    tokenizer.save_pretrained(folder)
    model(tokenizer, hidden, layers).save_pretrained(folder)


def trained(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level pairs, so that any text can be read and written."""
    bytewise = Tokenizer(models.BPE())
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [BEGIN, TURN, END]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bytewise.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bytewise, bos_token=BEGIN, eos_token=END, pad_token=END)
    fast.chat_template = CHAT
    return fast


def model(tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int) -> LlamaForCausalLM:
    """The first hidden dimension is held at one, so that its column of the head is a bias."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )
    llama = LlamaForCausalLM(config).float()
    with torch.no_grad():
        hold_first_dimension(llama)
        vocabulary = tokenizer.get_vocab()
        for token in CLOSING:
            if token in vocabulary:
                llama.lm_head.weight[vocabulary[token], 0] = PUSH
    return llama


def hold_first_dimension(llama: LlamaForCausalLM) -> None:
    """No layer writes to dimension 0; every embedding is so large there that it outweighs the rest, so that the last
    norm gives about the square root of the width, which its weight brings back to one."""
    llama.model.embed_tokens.weight[:, 0] = 10.0
    for layer in llama.model.layers:
        layer.self_attn.o_proj.weight[0] = 0.0
        layer.mlp.down_proj.weight[0] = 0.0
    llama.model.norm.weight[0] = llama.config.hidden_size**-0.5
    llama.lm_head.weight[:, 0] = 0.0


if __name__ == "__main__":
    build(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), [Path(name) for name in sys.argv[4:]])
