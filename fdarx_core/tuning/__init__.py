"""Training of answerers and retrievers: pairs, splits, hard negatives, trainers, evaluation. No Ray here."""
