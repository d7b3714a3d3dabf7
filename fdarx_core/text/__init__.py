"""Sentences, tokens, numbers, units and quotations: how other rooms handle text. Nothing here interprets it."""
