"""The way out to providers: whose certificates are trusted, which proxy is used, and what of an address may be shown.

May import `config` and below.
"""
