"""The runner: rows in parts go through steps; executors run them in this process or on Ray."""
