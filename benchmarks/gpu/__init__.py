"""Scripts for a machine with an accelerator. They need torch and nothing else, and run from the repository's root."""
