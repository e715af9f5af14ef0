"""What a model said, put together from a provider's events: one file per dialect.

A builder collects the JSON of blocks and items as it comes and hands what is finished to the dialect's codec, so that
an answer goes back as the provider sent it: signatures, sealed thoughts and ids with it. Knows no chunks and no usage
(`stream`), and nothing of who asked.
"""
