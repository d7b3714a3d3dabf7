"""Models on a benchmark: settings, answers, grades, metrics and their statistics."""
