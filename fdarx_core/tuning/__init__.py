"""Fine-tuning an answerer on question-answer pairs: pairs, split, encoding, packing, the recipe, LoRA. No Ray here."""
