"""The rules by which the `baseline` endpoint judges: words, numbers and overlap, no model."""
