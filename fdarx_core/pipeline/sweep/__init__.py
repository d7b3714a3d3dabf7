"""An evaluation as a sweep: every model in every setting, side by side, each at its own speed."""
