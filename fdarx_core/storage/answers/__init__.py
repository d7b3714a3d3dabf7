"""Answers to be checked, and gold statements to check them by, as people and other jobs leave them."""

from fdarx_core.storage.answers.census import Census
from fdarx_core.storage.answers.gold import Gold, read_gold
from fdarx_core.storage.answers.intake import Answers, open_answers

__all__ = ["Answers", "Census", "Gold", "open_answers", "read_gold"]
