"""One specification for each job: its options with their help texts, what identifies its run, and how it runs.

The command line, YAML files, the environment and the Python API make the same specification.
"""
