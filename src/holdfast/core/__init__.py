"""The core: what a lane has sent, what is believed alive, which markers to buy, which bytes to keep, what broke, why.

Pure decisions on values: prompts as a cache sees them, times passed in. Knows neither wire formats nor storage; texts
come in as values where a decision needs them. May import caches, config (its frozen values), facts, canonical, errors.
"""
