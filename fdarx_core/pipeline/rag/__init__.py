"""The comparison of ways to retrieve and answer, as a job: the flow that the service runs, over a file of questions."""
