"""Programs that make or install what the repository needs; each is run by a target of the Makefile or by hand."""
