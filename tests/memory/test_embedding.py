"""The encoder against one in plain Python, and what is said where there is no model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.config.sections.agent import MemorySettings
from holdfast.memory.embedders import Embedder, embedder

np = pytest.importorskip("numpy", reason="numpy is not installed: no vectors")
pytest.importorskip("tokenizers", reason="tokenizers is not installed: no vectors")

from tests.memory import tiny_minilm as tiny  # noqa: E402

TEXTS = ["the cache breaks", "never deploy a test", "memory", "", "the order the order the order the tool the prompt"]
IDS = [[2, 4, 6, 7, 8, 3], [2, 16, 14, 5, 15, 3], [2, 10, 11, 3], [2, 3], [2, *([4, 13] * 3), 4, 12, 4, 9, 3]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "model")


def model(place: Path) -> Embedder:
    made = embedder(MemorySettings(model_dir=str(place)))
    assert not isinstance(made, str), made
    return made


def test_vectors_are_those_of_the_encoder_by_the_book(place: Path) -> None:
    found = model(place).embed(TEXTS)
    assert (found.shape, found.dtype) == ((len(TEXTS), tiny.WIDTH), np.float32)
    wanted = [tiny.plainly(tiny.weights(), ids) for ids in IDS]
    assert np.abs(found - np.array(wanted)).max() < 2e-6
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_a_text_has_the_same_vector_alone_and_among_longer_ones(place: Path) -> None:
    texts = [" ".join(tiny.WORDS[4 + number % 9 :]) for number in range(40)] + TEXTS
    made = model(place)
    together = made.embed(texts)
    for number, text in enumerate(texts):
        assert np.allclose(together[number], made.embed([text])[0], atol=1e-6)


def test_a_text_is_read_beyond_what_the_tokenizer_file_cuts_but_not_beyond_the_model(place: Path) -> None:
    made = model(place)
    longest = "the " * (tiny.POSITIONS - 2)
    short, long, longer = made.embed(["the " * 6, longest, longest + "deploy " * 400])
    assert not np.allclose(short, long, atol=1e-3)
    assert np.allclose(long, longer, atol=1e-6)


def test_nothing_to_embed_gives_no_rows(place: Path) -> None:
    assert model(place).embed([]).shape == (0, tiny.WIDTH)


def test_the_name_follows_from_what_the_files_say_and_not_from_where_they_are(tmp_path: Path) -> None:
    one, same, other = (model(tiny.write(tmp_path / name, seed)).name for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert one == same != other


def test_without_a_model_there_is_a_reason() -> None:
    assert embedder(MemorySettings()) == "no model is set (memory.model_dir)"


def broken(place: Path, kind: str) -> str:
    """Damages the model; a part of the reason that is given."""
    weights, config = place / "model.safetensors", place / "config.json"
    if kind == "missing":
        weights.unlink()
        return "there is no model.safetensors in"
    if kind == "another kind":
        config.write_text(json.dumps(tiny.config(model_type="llama")))
        return "is none of the MiniLM sentence models"
    if kind == "another pooling":
        (place / "1_Pooling").mkdir()
        (place / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": false}')
        return "is none of the MiniLM sentence models"
    if kind == "another size":
        config.write_text(json.dumps(tiny.config(hidden_size=24)))
        return "as its config.json describes it"
    if kind == "heads that do not fit":
        config.write_text(json.dumps(tiny.config(num_attention_heads=5)))
        return "config.json describes no encoder that can be"
    if kind == "no heads":
        config.write_text(json.dumps(tiny.config(num_attention_heads=0)))
        return "config.json describes no encoder that can be"
    if kind == "no tokenizer":
        (place / "tokenizer.json").write_text("{}")
        return "tokenizer.json is no tokenizer"
    if kind == "a tokenizer without words":
        (place / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": {}}}))
        return "tokenizer.json is no tokenizer"
    if kind == "another tokenizer":
        tokenizer = json.loads((place / "tokenizer.json").read_text())
        tokenizer["model"]["vocab"]["surplus"] = len(tiny.WORDS)
        (place / "tokenizer.json").write_text(json.dumps(tokenizer))
        return "the tokenizer of another model"
    if kind == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
        return "or is damaged"
    if kind == "no weights":
        weights.write_bytes(b"<html>not found</html>")
        return "is no safetensors file"
    config.write_text("{")
    return "config.json cannot be read"


@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "another kind",
        "another pooling",
        "another size",
        "heads that do not fit",
        "no heads",
        "no tokenizer",
        "a tokenizer without words",
        "another tokenizer",
        "cut",
        "no weights",
        "no config",
    ],
)
def test_a_model_that_cannot_be_used_is_none_and_says_why(place: Path, kind: str) -> None:
    reason = broken(place, kind)
    said = embedder(MemorySettings(model_dir=str(place)))
    assert isinstance(said, str)
    assert reason in said
    assert str(place) in said


def test_the_published_pooling_is_accepted(place: Path) -> None:
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 12, "pooling_mode_mean_tokens": true}'
    )
    assert model(place).embed(["the"]).shape == (1, tiny.WIDTH)


def test_without_a_model_nothing_heavy_is_loaded_and_with_one_no_thread_setting_is_left_behind(place: Path) -> None:
    program = f"""
import os, sys
from holdfast.config.sections.agent import MemorySettings
from holdfast.memory.embedders import embedder
import holdfast.memory.vectors, holdfast.memory.knowledge
before = dict(os.environ)
assert isinstance(embedder(MemorySettings()), str)
assert not {{"numpy", "tokenizers"}} & set(sys.modules)
assert embedder(MemorySettings(model_dir={str(place)!r})).embed(["the"]).shape == (1, 12)
assert dict(os.environ) == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_missing_extra_is_named(place: Path) -> None:
    program = f"""
import sys
sys.modules["tokenizers"] = None
from holdfast.config.sections.agent import MemorySettings
from holdfast.memory.embedders import embedder
said = embedder(MemorySettings(model_dir={str(place)!r}))
assert said == "tokenizers is not installed; install holdfast[embeddings]", said
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
@pytest.mark.skipif("HOLDFAST_MEMORY_MODEL_DIR" not in os.environ, reason="HOLDFAST_MEMORY_MODEL_DIR is not set")
def test_the_published_model_gives_the_vectors_that_its_authors_library_gives() -> None:
    """The first numbers of what sentence-transformers prints for the example of the model's page."""
    found = model(Path(os.environ["HOLDFAST_MEMORY_MODEL_DIR"])).embed(["This is an example sentence"])
    assert np.allclose(found[0, :5], [0.0676569, 0.0634959, 0.0487131, 0.0793050, 0.0374480], atol=2e-6)
