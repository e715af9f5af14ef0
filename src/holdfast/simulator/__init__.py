"""A provider on this machine: four APIs around the cache rules, a scripted model, faults on demand.

Replay, demo and tests use `Simulator` in process on a virtual clock; `holdfast simulate` serves it over HTTP. Imports
`caches`, `wire`, `facts`, `canonical`.
"""
