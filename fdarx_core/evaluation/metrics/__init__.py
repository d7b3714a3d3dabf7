"""Metrics of one row: plain functions of what was found or said and what was to be. Source: FDARxBench §B.7."""
