"""Review of questions and answers by people: the items, the sample, and the annotations."""
