"""Repairs of a request's body: order of tools and keys, first texts, and what they would have saved.

The rules are in `core.repairs`; here they are applied to bytes and kept. Imports `core`, `wire`, `store` and below.
"""
