"""The words in which an answer is declined."""

REFUSAL = "The passages found do not answer this question."
"""What the answering prompt asks for, and the baseline says, where the contexts hold no answer."""
