"""A tiny Llama with random weights and a byte-level BPE vocabulary: its answers are noise, the engine's cache is real.

Written as a GGUF file for llama.cpp, and as a directory of safetensors for vLLM.
"""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN = 1_024, 32, 1, 2, 64
SPECIAL = ["<|begin|>", "<|end|>", "<|start|>", "<|body|>"]
TEMPLATE = (
    "<|begin|>{% for message in messages %}<|start|>{{ message.role }}<|body|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|body|>{% endif %}"
)


def tokenizer(texts: list[str]) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def write_gguf(path: Path, texts: list[str], *, context: int, seed: int = 0) -> None:
    made = json.loads(tokenizer(texts).to_str())["model"]
    vocabulary = sorted(made["vocab"], key=made["vocab"].get)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in vocabulary]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in made["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(seed)

    def tensor(name: str, *shape: int) -> None:
        values = random.normal(0, 0.3, shape) if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(name, values.astype(np.float32))

    tensor("token_embd.weight", len(vocabulary), WIDTH)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        tensor(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
        tensor(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
        tensor(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
        tensor(f"blk.{layer}.attn_norm.weight", WIDTH)
        tensor(f"blk.{layer}.ffn_norm.weight", WIDTH)
    tensor("output_norm.weight", WIDTH)
    tensor("output.weight", len(vocabulary), WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_directory(path: Path, texts: list[str], *, context: int, seed: int = 0) -> None:
    """The layout vLLM reads: configuration, tokenizer, weights."""
    width, heads, hidden = 64, 2, 128
    made = tokenizer(texts)
    made.save(str(path / "tokenizer.json"))
    size = made.get_vocab_size()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": width // heads,
        "vocab_size": size,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    (path / "config.json").write_text(json.dumps(config))
    special = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0], "eos_token": SPECIAL[1]}
    (path / "tokenizer_config.json").write_text(json.dumps({**special, "chat_template": TEMPLATE}))
    shapes = {
        "model.embed_tokens.weight": (size, width),
        "lm_head.weight": (size, width),
        "model.norm.weight": (width,),
    }
    for layer in range(LAYERS):
        under = f"model.layers.{layer}"
        shapes |= {f"{under}.self_attn.{name}_proj.weight": (width, width) for name in "qkvo"}
        shapes |= {f"{under}.mlp.{name}_proj.weight": (hidden, width) for name in ("gate", "up")}
        shapes |= {f"{under}.mlp.down_proj.weight": (width, hidden)}
        shapes |= {f"{under}.{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
    _write_safetensors(path / "model.safetensors", shapes, np.random.default_rng(seed))


def _write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]], random: np.random.Generator) -> None:
    header: dict[str, object] = {}
    data = b""
    for name, shape in shapes.items():
        values = random.normal(0, 0.3, shape) if len(shape) > 1 else np.ones(shape)
        raw = values.astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
