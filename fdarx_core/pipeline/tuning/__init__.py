"""Fine-tuning on Ray Train."""
