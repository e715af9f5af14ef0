"""`--noise`: what real fleets do to caches, as it is written on a command line."""

from __future__ import annotations

import msgspec

from holdfast.caches import Noise
from holdfast.errors import HoldfastError

MOST_REPLICAS = 1_000
"""Each has a memory of its own."""


def read_noise(text: str, seed: int) -> Noise:
    """`eviction=0.02,replicas=3` as values."""
    pairs = [part.partition("=") for part in text.replace(" ", "").split(",") if part]
    names = [name for name in Noise.__struct_fields__ if name != "seed"]
    for name, _, value in pairs:
        if name not in names or not value:
            raise HoldfastError(f"--noise: {name + '=' + value!r} is not understood; give some of {', '.join(names)}.")
    try:
        noise = msgspec.convert({name: value for name, _, value in pairs} | {"seed": seed}, Noise, strict=False)
    except msgspec.ValidationError as error:
        raise HoldfastError(
            f"--noise: {error}; values are numbers, such as eviction=0.02.".replace("`", "'")
        ) from error
    for name in ("eviction", "bounce", "small_miss"):
        if not 0 <= getattr(noise, name) <= 1:
            raise HoldfastError(f"--noise: {name} is a probability; give a number from 0 to 1.")
    if noise.replicas < 1 or noise.small_tokens < 0:
        raise HoldfastError("--noise: replicas begin at 1 and small_tokens at 0; give larger numbers.")
    if noise.replicas > MOST_REPLICAS:
        raise HoldfastError(f"--noise: there are at most {MOST_REPLICAS:,} replicas; give fewer.")
    return noise
