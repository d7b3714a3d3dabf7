"""The first filters of questions: rules, and the removal of duplicates."""
