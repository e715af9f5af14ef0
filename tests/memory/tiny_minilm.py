"""A MiniLM as small as can be, in the files of a published one, with seeded weights; and the same in plain Python."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH, LAYERS, HEADS, INNER, POSITIONS = 12, 2, 3, 20, 64
# fmt: off
WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", "cache", "break", "##s", "prompt", "memor", "##y", "tool", "order",
    "deploy", "test", "never", "rollback",
]
# fmt: on
Weights = dict[str, NDArray[np.float32]]


def weights(seed: int = 7) -> Weights:
    chance = Random(seed)

    def made(*shape: int) -> NDArray[np.float32]:
        values = [chance.gauss(0, 0.5) for _ in range(math.prod(shape))]
        return np.array(values, dtype=np.float32).reshape(shape)

    found = {
        "embeddings.word_embeddings.weight": made(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": made(POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": made(2, WIDTH),
        "embeddings.LayerNorm.weight": made(WIDTH),
        "embeddings.LayerNorm.bias": made(WIDTH),
    }
    for number in range(LAYERS):
        shapes = {
            "attention.self.query": (WIDTH, WIDTH),
            "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH),
            "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (INNER, WIDTH),
            "output.dense": (WIDTH, INNER),
            "attention.output.LayerNorm": (WIDTH,),
            "output.LayerNorm": (WIDTH,),
        }
        for name, shape in shapes.items():
            found[f"encoder.layer.{number}.{name}.weight"] = made(*shape)
            found[f"encoder.layer.{number}.{name}.bias"] = made(shape[0])
    return found


def config(**others: object) -> dict[str, object]:
    return {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": 1e-12,
        "vocab_size": len(WORDS),
        **others,
    }


def write(directory: Path, seed: int = 7) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config()))
    write_weights(directory / "model.safetensors", weights(seed))
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(8)  # as in the published files: shorter than what the model can read, and padded
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


def write_weights(path: Path, found: Weights) -> None:
    """As safetensors, with an integer tensor that nothing reads, as the published file has one."""
    listed: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b"\0" * 8
    listed["embeddings.position_ids"] = {"dtype": "I64", "shape": [1, 1], "data_offsets": [0, 8]}
    for name, values in found.items():
        data = values.astype("<f4").tobytes()
        listed[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(listed).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + body)


def plainly(found: Weights, ids: list[int]) -> list[float]:
    """One text's vector by the book, in doubles and without a matrix."""
    given = {name: values.astype(float).tolist() for name, values in found.items()}
    embeddings = [given[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")]
    rows = [
        _norm(given, "embeddings.LayerNorm", [sum(each) for each in zip(word, place, embeddings[2][0], strict=True)])
        for word, place in zip([embeddings[0][number] for number in ids], embeddings[1], strict=False)
    ]
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        heard = _attend(given, f"{layer}.attention", rows)
        rows = [
            _norm(given, f"{layer}.attention.output.LayerNorm", _sum(*pair)) for pair in zip(rows, heard, strict=True)
        ]
        rows = [_norm(given, f"{layer}.output.LayerNorm", _sum(row, _forward(given, layer, row))) for row in rows]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    length = math.sqrt(sum(value * value for value in means))
    return [value / length for value in means]


def _attend(given: dict[str, Any], layer: str, rows: list[list[float]]) -> list[list[float]]:
    query, key, value = ([_apply(given, f"{layer}.self.{part}", row) for row in rows] for part in _PARTS)
    width, heard = WIDTH // HEADS, []
    for asked in query:
        said: list[float] = []
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            near = [math.exp(_dot(asked[part], other[part]) / math.sqrt(width)) for other in key]
            shares = [each / sum(near) for each in near]
            said += [_dot(shares, column) for column in zip(*(row[part] for row in value), strict=True)]
        heard.append(_apply(given, f"{layer}.output.dense", said))
    return heard


_PARTS = ("query", "key", "value")


def _forward(given: dict[str, Any], layer: str, row: list[float]) -> list[float]:
    inner = _apply(given, f"{layer}.intermediate.dense", row)
    return _apply(given, f"{layer}.output.dense", [each * 0.5 * (1 + math.erf(each / math.sqrt(2))) for each in inner])


def _apply(given: dict[str, Any], name: str, row: list[float]) -> list[float]:
    return _sum([_dot(weight, row) for weight in given[f"{name}.weight"]], given[f"{name}.bias"])


def _norm(given: dict[str, Any], name: str, row: list[float]) -> list[float]:
    mean = sum(row) / len(row)
    spread = math.sqrt(sum((each - mean) ** 2 for each in row) / len(row) + 1e-12)
    scaled = [(each - mean) / spread for each in row]
    return [
        each * weight + bias
        for each, weight, bias in zip(scaled, given[f"{name}.weight"], given[f"{name}.bias"], strict=True)
    ]


def _sum(one: list[float], other: list[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _dot(one: Any, other: Any) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
