"""Fine-tuning of a language model into a run directory, in this process or on Ray Train."""
