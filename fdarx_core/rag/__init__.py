"""Questions to an index: how chunks are found, how they are answered from, and how good both are."""
