"""MiniLM in numpy: a small BERT encoder, read from the files it is published with, and the mean of its outputs.

Six layers of width 384 are few enough to be written down here, so that neither a runtime for models nor a library for
their files is needed. `embedding.embedder` is the door to it: numpy and tokenizers are loaded with this module.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from tokenizers import Tokenizer

from holdfast.errors import HoldfastError

Matrix = NDArray[np.float32]

PIECES = 256
"""Word pieces of a text that are read; the model was trained on no longer ones."""
FLOOR = 0.15
"""Of the questions and entries in `benchmarks/data/memory_retrieval`, four of five pairs lie below this, and it
costs no answer its place among the best five."""
CONFIG, WEIGHTS, TOKENIZER, POOLING = "config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json"
_BATCH = 16
_HEADER = 10_000_000
_BYTES = 4
_HIDDEN, _ONE = np.float32(-1e9), np.float32(1)


class ModelConfig(Struct, frozen=True):
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    model_type: str = ""
    hidden_act: str = ""
    layer_norm_eps: float = 1e-12


class Pooling(Struct, frozen=True):
    pooling_mode_mean_tokens: bool = True


S = TypeVar("S", ModelConfig, Pooling)


class _Tensor(Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class MiniLM:
    """The model in `directory`. Making it looks at what is there and reads all but the weights; these are mapped, not
    copied, when the first text is embedded. HoldfastError where files are missing, damaged or of another kind."""

    floor = FLOOR

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if missing := [name for name in (CONFIG, WEIGHTS, TOKENIZER) if not (directory / name).is_file()]:
            raise HoldfastError(f"there is no {' and no '.join(missing)} in {directory} (memory.model_dir)")
        self._config = _read(directory / CONFIG, ModelConfig)
        pooling = directory / POOLING
        means = not pooling.is_file() or _read(pooling, Pooling).pooling_mode_mean_tokens
        if (self._config.model_type, self._config.hidden_act) != ("bert", "gelu") or not means:
            raise HoldfastError(
                f"the model in {directory} is none of the MiniLM sentence models (a BERT with GELU and the mean of its "
                "outputs); name one of those in memory.model_dir"
            )
        self._tensors, self._begin = _listed(directory / WEIGHTS)
        _check(self._tensors, self._begin, self._config, directory / WEIGHTS)
        self._tokenizer = self._read_tokenizer()
        self._loading = threading.Lock()

    @cached_property
    def name(self) -> str:
        whole = hashlib.sha256(str(PIECES).encode())
        for part in (CONFIG, TOKENIZER, WEIGHTS):
            with (self.directory / part).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        return f"minilm-{whole.hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        with self._loading:
            weights = self._weights
        read = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(read), self._config.hidden_size), dtype=np.float32)
        # Texts of about the same length side by side: what a batch pads is computed for nothing.
        order = sorted(range(len(read)), key=lambda at: len(read[at]))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            vectors[rows] = encoded(weights, self._config, *_padded([read[at] for at in rows]))
        return vectors

    def _read_tokenizer(self) -> Tokenizer:
        try:
            tokenizer = Tokenizer.from_file(str(self.directory / TOKENIZER))
        except Exception as problem:  # the library raises nothing more special
            raise HoldfastError(f"{self.directory / TOKENIZER} is no tokenizer: {problem}; get it again") from problem
        if tokenizer.get_vocab_size() > self._tensors["embeddings.word_embeddings.weight"].shape[0]:
            raise HoldfastError(f"{self.directory} has the tokenizer of another model; get its files again")
        tokenizer.no_padding()  # the published one pads every text to 128 pieces
        tokenizer.enable_truncation(min(PIECES, self._config.max_position_embeddings))
        return tokenizer

    @cached_property
    def _weights(self) -> dict[str, Matrix]:
        whole = np.asarray(np.memmap(self.directory / WEIGHTS, dtype=np.uint8, mode="r", offset=self._begin))
        return {
            name: whole[slice(*self._tensors[name].data_offsets)].view("<f4").reshape(self._tensors[name].shape)
            for name in _shapes(self._config)
        }


def encoded(weights: Mapping[str, Matrix], config: ModelConfig, ids: NDArray[np.int64], mask: Matrix) -> Matrix:
    """Rows of ids, padded where the mask is 0, as vectors of unit length."""
    count, length = ids.shape
    rows = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][:length]
        + weights["embeddings.token_type_embeddings.weight"][0]
    ).reshape(count * length, config.hidden_size)
    rows = _normal(weights, "embeddings.LayerNorm", rows, config.layer_norm_eps)
    unseen = (1 - mask)[:, None, None, :] * _HIDDEN
    for number in range(config.num_hidden_layers):
        layer = f"encoder.layer.{number}"
        output = _attention(weights, f"{layer}.attention", rows, unseen, config)
        rows = _normal(weights, f"{layer}.attention.output.LayerNorm", rows + output, config.layer_norm_eps)
        output = _linear(weights, f"{layer}.output.dense", _gelu(_linear(weights, f"{layer}.intermediate.dense", rows)))
        rows = _normal(weights, f"{layer}.output.LayerNorm", rows + output, config.layer_norm_eps)
    seen = mask[:, :, None]
    means: Matrix = (rows.reshape(count, length, config.hidden_size) * seen).sum(axis=1) / seen.sum(axis=1)
    unit: Matrix = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.float32(1e-12))
    return unit


def _attention(weights: Mapping[str, Matrix], layer: str, rows: Matrix, unseen: Matrix, config: ModelConfig) -> Matrix:
    count, heads, width = len(unseen), config.num_attention_heads, config.hidden_size // config.num_attention_heads
    query, key, value = (
        _linear(weights, f"{layer}.self.{part}", rows).reshape(count, -1, heads, width).transpose(0, 2, 1, 3)
        for part in ("query", "key", "value")
    )
    near = query @ key.transpose(0, 1, 3, 2) / np.float32(width**0.5) + unseen
    near = np.exp(near - near.max(axis=-1, keepdims=True))
    near /= near.sum(axis=-1, keepdims=True)
    return _linear(weights, f"{layer}.output.dense", (near @ value).transpose(0, 2, 1, 3).reshape(rows.shape))


def _linear(weights: Mapping[str, Matrix], name: str, rows: Matrix) -> Matrix:
    product: Matrix = rows @ weights[f"{name}.weight"].T
    product += weights[f"{name}.bias"]
    return product


def _normal(weights: Mapping[str, Matrix], name: str, rows: Matrix, epsilon: float) -> Matrix:
    centred = rows - rows.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(epsilon))
    normal: Matrix = centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normal


def _gelu(values: Matrix) -> Matrix:
    """With the error function by its approximation 7.1.26 of Abramowitz and Stegun, which is off by 1.5e-7 at most."""
    size = np.abs(values)
    size *= np.float32(0.5**0.5)
    near: Matrix = _ONE / (_ONE + np.float32(0.3275911) * size)
    tail: Matrix = np.full_like(near, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail *= near
        tail += np.float32(factor)
    tail *= near
    size *= -size
    tail *= np.exp(size, out=size)
    activated: Matrix = values * (np.float32(0.5) * (_ONE + np.copysign(_ONE - tail, values)))
    return activated


def _padded(read: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], Matrix]:
    length = max(map(len, read))
    ids = np.zeros((len(read), length), dtype=np.int64)
    mask = np.zeros((len(read), length), dtype=np.float32)
    for row, pieces in enumerate(read):
        ids[row, : len(pieces)] = pieces
        mask[row, : len(pieces)] = 1
    return ids, mask


def _read(path: Path, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as problem:
        raise HoldfastError(f"{path} cannot be read: {problem}; get it again") from problem


def _listed(path: Path) -> tuple[dict[str, _Tensor], int]:
    """The tensors of a safetensors file, and where their bytes begin: eight bytes with the length of a JSON header, the
    header, then the tensors."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            listed = msgspec.json.decode(file.read(min(length, _HEADER)), type=dict[str, msgspec.Raw])
        listed.pop("__metadata__", None)
        tensors = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in listed.items()}
    except (OSError, msgspec.MsgspecError) as problem:
        raise HoldfastError(f"{path} is no safetensors file: {problem}; get it again") from problem
    return tensors, 8 + length


def _check(tensors: Mapping[str, _Tensor], begin: int, config: ModelConfig, path: Path) -> None:
    """All that the encoder reads is there, in its shape and within the file: what was cut short or belongs to another
    model is found out before anything is computed."""
    if min(config.hidden_size, config.num_attention_heads) < 1 or config.hidden_size % config.num_attention_heads:
        raise HoldfastError(f"{path.with_name(CONFIG)} describes no encoder that can be; get it again")
    size = path.stat().st_size
    for name, shape in _shapes(config).items():
        tensor = tensors.get(name)
        if (
            tensor is None
            or tensor.dtype != "F32"
            or (shape[0] and tensor.shape != shape)
            or tensor.shape[1:] != shape[1:]
        ):
            raise HoldfastError(f"{path} has no float32 {name} as its {CONFIG} describes it; get both again")
        first, last = tensor.data_offsets
        if last - first != _BYTES * math.prod(tensor.shape) or first < 0 or begin + last > size:
            raise HoldfastError(f"{path} ends within {name} or is damaged; get it again")


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Shapes by name; 0 is as many rows as there are."""
    width, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (0, width),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, width),
        "embeddings.token_type_embeddings.weight": (0, width),
        **_vectors("embeddings.LayerNorm", width),
    }
    for number in range(config.num_hidden_layers):
        layer = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= {f"{layer}.attention.{part}.weight": (width, width), f"{layer}.attention.{part}.bias": (width,)}
        shapes |= {f"{layer}.intermediate.dense.weight": (inner, width), f"{layer}.intermediate.dense.bias": (inner,)}
        shapes |= {f"{layer}.output.dense.weight": (width, inner), f"{layer}.output.dense.bias": (width,)}
        shapes |= _vectors(f"{layer}.attention.output.LayerNorm", width) | _vectors(f"{layer}.output.LayerNorm", width)
    return shapes


def _vectors(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
