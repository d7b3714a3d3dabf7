"""The rules by which the `baseline` endpoint answers and grades: words and numbers, no model."""
