"""Training of answerers, verifiers and retrievers: pairs, splits, hard negatives, trainers, evaluation. No Ray here."""
