"""What performance claims rest on: each script prints a ratio against a peer or a floor, measured in the same run."""
