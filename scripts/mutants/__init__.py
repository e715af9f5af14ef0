"""Wiring mutants: what Holdfast would be with one connection cut, and the tests that must notice.

A mutant is an exact replacement in one source file, described in a `*.toml` beside this file. `python -m
scripts.mutants` applies each to a copy of the repository and runs the tests that it names: if they pass, nothing holds
that connection.
"""
