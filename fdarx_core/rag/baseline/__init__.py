"""The rules by which the `baseline` endpoint rewrites questions, scores passages and answers: words, no model."""
