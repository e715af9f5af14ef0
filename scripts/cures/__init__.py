"""The cures catalogue's own part: an example of every fault that really runs, and prose beside it.

`scripts/make_cures.py` puts both together with what the library says.
"""
