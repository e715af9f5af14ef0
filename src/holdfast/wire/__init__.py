"""One file per dialect: bytes to canonical values and back, with every untouched byte kept as the client sent it.

Knows how providers spell things and nothing of cache rules, lanes or storage; imports `canonical` and `facts`.
"""
