"""Evaluations whose rows are cut into parts that one process takes in hand: what all such share."""
