"""Which variables and strings are keys: every known form, and nothing that only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.facts.credentials import BEGINNINGS, MASK, hidden, holds_key, key_spans, masked, names_key, open_end

BODY = "Abcd1234-EfGh5678_ijkl9012MNOP3456qrst"
SOLID = "Abcd1234EfGh5678ijkl9012MNOP3456qrst"

KEYS = [
    *("sk-" + kind + BODY for kind in ("ant-api03-", "ant-oat01-", "proj-", "or-v1-", "svcacct-", "")),
    *(prefix + SOLID for prefix in ("ghp_", "hf_", "gsk_", "npm_", "r8_", "tgp_v1_", "fw_", "sk_live_", "AIza")),
    *(prefix + BODY for prefix in ("xai-", "pplx-", "csk-", "nvapi-", "xoxb-", "glpat-", "AQ.", "ya29.", "GOCSPX-")),
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ABSK" + SOLID * 3 + "==",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlMTIzNDU2",
    "-----BEGIN RSA PRIVATE KEY-----\n" + (SOLID * 2 + "\n") * 5 + "-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n" + (SOLID * 2 + "\\n") * 5,
]
NAMED = [
    "MISTRAL_API_KEY=k3jd8s7Hq2Lm9Zx4Tv6Bn1Wc5Yr0Pf8G",
    "AZURE_OPENAI_API_KEY: 0123456789abcdef0123456789abcdef",
    '"api_key": "k3jd8s7Hq2Lm9Zx4Tv6Bn1Wc"',
    "aws_secret_access_key = wJalrXUtnFEMI/K7MD3NG/bPxRfiCY9rk2eo+dui",
    "export COHERE_API_KEY='k3jd8s7Hq2Lm9Zx4Tv6Bn1Wc5Yr0Pf8GaaQQ11zz'",
    "Authorization: Bearer k3jd8s7Hq2Lm9Zx4Tv6Bn1Wc",
    r"{\"client_secret\": \"k3jd8s7Hq2Lm9Zx4Tv6Bn1Wc\"}",
    "SLACK_BOT_TOKEN=k3jd8s7Hq2Lm9Zx4Tv6Bn1Wc",
]
ORDINARY = [
    "commit d7ac5461f0e2b3c4d5e6f708192a3b4c5d6e7f80",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "a disk-based-cache-v2-with-long-name, a task-runner-0123456789abcdef, sk-folding-cube-wrapper-21",
    "hf_model_2024_05_checkpoint_v2_final, npm_config_cache_directory_2024",
    "sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx and sk-ant-... and sk-ant-api03-<yours>",
    'api_key = os.environ["OPENAI_API_KEY"]; token = lexer.next_token2024()',
    "api_key=settings.openai_api_key_2024, apiKey: process.env.OPENAI_API_KEY",
    "ANTHROPIC_API_KEY=your-key-here-12345678, OPENAI_API_KEY=$OPENAI_API_KEY_2, GEMINI_API_KEY=<32 characters>",
    "nextPageToken: CAUQAA12345678901234, max_tokens=4096, cache_key: 0123456789abcdef0123",
    'if "-----BEGIN RSA PRIVATE KEY-----" in text and "-----END RSA PRIVATE KEY-----" in text:',
    "password: hunter2, secret: none, the secret is out: 12345678901234567890",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "x={} y", '{{"a":"b\\n{}"}}', "see {}.", "https://host/k/{}/v1?q=%3D{}"])
def test_keys_are_masked_and_the_rest_stays(key: str, around: str) -> None:
    text = around.format(key, key)
    assert holds_key(text)
    said = masked(text)
    assert said.count(MASK) == text.count(key)
    assert not any(piece in said for piece in (SOLID[6:], BODY[6:], "IOSFODNN7", "c2lnbmF0dXJl"))
    spans = key_spans(text)
    before = [text[end:start] for (_, end), (start, _) in zip([(0, 0), *spans], [*spans, (len(text), 0)], strict=True)]
    assert said == MASK.join(before)


@pytest.mark.parametrize("text", NAMED)
def test_what_is_named_a_key_is_masked_whatever_its_form(text: str) -> None:
    said = masked(text)
    assert said.count(MASK) == 1
    assert not any(piece in said for piece in ("k3jd8s7", "0123456789", "wJalr"))
    assert said[:6] == text[:6]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_like_a_key_stays(text: str) -> None:
    assert masked(text) is text
    assert not holds_key(text)


@given(
    st.lists(st.sampled_from([*KEYS, *NAMED, *ORDINARY, MASK, " ", "\n", "=", '"', "a", "/", ".", "-"]), max_size=12)
)
def test_masking_twice_changes_nothing_more(parts: list[str]) -> None:
    once = masked("".join(parts))
    assert masked(once) == once


@pytest.mark.parametrize("key", KEYS)
def test_a_key_glued_to_a_longer_one_is_masked_at_once(key: str) -> None:
    once = masked("AIza" + (SOLID * 3)[:80] + key)
    assert once.startswith(f"AIza{MASK}")
    assert BODY not in once
    assert masked(once) == once


@given(st.text(alphabet="sk-antAIz_0a1B.eyJ=/ \n\"':", max_size=200))
def test_only_keys_are_replaced(text: str) -> None:
    said, at = masked(text), 0
    for piece in said.split(MASK):
        assert text.find(piece, at) >= at
        at = text.find(piece, at) + len(piece)


def test_values_are_masked_wherever_they_stand() -> None:
    assert masked("a plainpassword b", ("plainpassword", "a", "")) == f"a {MASK} b"
    assert masked("aXplainpasswordplainpassword", ("plainpassword",)) == f"aX{MASK}"


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_an_unfinished_text_ends_before_what_may_become_a_key(beginning: str) -> None:
    text = f"key is {beginning}Ab1"
    for cut in range(len("key is ") + 1, len(text) + 1):
        assert open_end(text[:cut]) == len("key is ")


def test_an_unfinished_text_that_becomes_no_key_is_whole() -> None:
    for text in ("", "ready", "50%", "name: ", "Listening on http://127.0.0.1:80"):
        assert open_end(text) == len(text)
    assert open_end("MISTRAL_API_KEY=k3j") == len("MISTRAL_API_KEY=")


OF_PROVIDERS = """
ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY CODEX_API_KEY GEMINI_API_KEY
GOOGLE_API_KEY GOOGLE_GENERATIVE_AI_API_KEY GOOGLE_APPLICATION_CREDENTIALS OPENROUTER_API_KEY HF_TOKEN
AZURE_OPENAI_API_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_BEARER_TOKEN_BEDROCK
DEEPSEEK_API_KEY MISTRAL_API_KEY GROQ_API_KEY XAI_API_KEY COHERE_API_KEY CO_API_KEY TOGETHER_API_KEY
TOGETHERAI_API_KEY FIREWORKS_API_KEY FIREWORKS_AI_API_KEY HUGGINGFACEHUB_API_TOKEN HUGGING_FACE_HUB_TOKEN
DASHSCOPE_API_KEY MOONSHOT_API_KEY ZHIPUAI_API_KEY ZAI_API_KEY MINIMAX_API_KEY PERPLEXITY_API_KEY
CEREBRAS_API_KEY NVIDIA_API_KEY LITELLM_MASTER_KEY AI_GATEWAY_API_KEY GEMINI_API_KEYS OPENAI_API_KEY_2
VITE_OPENAI_API_KEY ANTHROPIC_CUSTOM_HEADERS HOLDFAST_ADMIN_TOKEN
"""
OTHERS = """
PATH HOME AWS_REGION AWS_PROFILE OPENAI_BASE_URL OPENAI_MAX_TOKENS GITHUB_TOKEN NPM_TOKEN SSH_AUTH_SOCK
"""


def test_variables_of_providers_are_known() -> None:
    assert [name for name in OF_PROVIDERS.split() if not names_key(name)] == []
    assert [name for name in OTHERS.split() if names_key(name)] == []


def test_names_can_be_added_and_let_through() -> None:
    variables = {
        "OPENAI_API_KEY": "plain",
        "GROQ_API_KEY": "plain",
        "CORP_DB": "x",
        "MINE": "sk-" + "ant-" + BODY,
        "GITHUB_TOKEN": "ghp_" + SOLID,
        "HOLDFAST_STORE_URL": "postgres://u:p@h/d",
        "HOLDFAST_HOME": "/h",
    }
    assert set(hidden(variables.items())) == {"OPENAI_API_KEY", "GROQ_API_KEY", "MINE", "HOLDFAST_STORE_URL"}
    assert set(hidden(variables.items(), ("CORP_*",), ("OPENAI_API_KEY", "HOLDFAST_*", "MINE"))) == {
        "GROQ_API_KEY",
        "CORP_DB",
    }
