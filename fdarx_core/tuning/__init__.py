"""Training of answerers: pairs, splits, trainers, evaluation. No Ray here."""
