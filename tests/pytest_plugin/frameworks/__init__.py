"""Tests of agents, each built with a framework, as its users would write them. Run by `test_frameworks`, in a process
of their own: frameworks keep clients and loops until it ends."""
