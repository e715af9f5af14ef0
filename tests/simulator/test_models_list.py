"""The providers' lists of models, read by their own SDKs' types."""

from __future__ import annotations

import json

import pytest
from anthropic.types import ModelInfo
from google.genai import types as genai
from openai.types import Model

from holdfast import facts
from holdfast.simulator import models_list
from holdfast.simulator.messages import HttpRequest, HttpResponse

VERSION = {"anthropic-version": "2023-06-01"}


def get(path: str, headers: dict[str, str] | None = None, **query: str) -> tuple[int, dict]:
    answer = models_list.answer(HttpRequest("GET", path, headers or {}, query))
    assert isinstance(answer, HttpResponse)
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize("headers", [VERSION, {"x-api-key": "k"}])
def test_anthropic_lists_what_the_facts_know(headers: dict[str, str]) -> None:
    status, page = get("/v1/models", headers, limit="1000")
    models = [ModelInfo.model_validate_json(json.dumps(model), strict=True) for model in page["data"]]
    assert status == 200
    assert [model.id for model in models] == [model.name for model in facts.default().models("anthropic")]
    assert (page["first_id"], page["last_id"], page["has_more"]) == (models[0].id, models[-1].id, False)
    assert next(model.display_name for model in models if model.id == "claude-opus-5-5") == "Claude Opus 5.5"


def test_anthropic_s_pages_lead_through_the_whole_list_and_back() -> None:
    _, everything = get("/v1/models", VERSION, limit="1000")
    ids = [model["id"] for model in everything["data"]]
    _, page = get("/v1/models", VERSION, limit="3")
    seen = [model["id"] for model in page["data"]]
    while page["has_more"]:
        _, page = get("/v1/models", VERSION, limit="3", after_id=page["last_id"])
        seen += [model["id"] for model in page["data"]]
    assert seen == ids
    _, page = get("/v1/models", VERSION, limit="3", before_id=ids[4])
    assert ([model["id"] for model in page["data"]], page["has_more"]) == (ids[1:4], True)
    _, empty = get("/v1/models", VERSION, after_id=ids[-1])
    assert empty == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_openai_lists_its_models_and_deepseek_s() -> None:
    status, page = get("/v1/models", {"authorization": "Bearer k"})
    models = [Model.model_validate_json(json.dumps(model), strict=True) for model in page["data"]]
    assert (status, page["object"]) == (200, "list")
    assert {model.owned_by for model in models} == {"openai", "deepseek"}
    assert "gpt-6.1-sol" in [model.id for model in models]


def test_gemini_lists_in_pages() -> None:
    known = [f"models/{model.name}" for model in facts.default().models("gemini")]
    _, page = get("/v1beta/models", pageSize="4")
    seen = list(page["models"])
    while "nextPageToken" in page:
        _, page = get("/v1beta/models", pageSize="4", pageToken=page["nextPageToken"])
        seen += page["models"]
    assert [model["name"] for model in seen] == known
    for model in seen:
        assert "generateContent" in model["supportedGenerationMethods"]
        fields = {key: value for key, value in model.items() if key != "supportedGenerationMethods"}
        assert genai.Model.model_validate_json(json.dumps(fields)).input_token_limit


def test_one_model_is_told_under_the_name_it_was_asked_for() -> None:
    _, dated = get("/v1/models/claude-haiku-4-5-20251001", VERSION)
    assert (dated["id"], dated["max_tokens"]) == (
        "claude-haiku-4-5-20251001",
        facts.model("anthropic:claude-haiku-4-5").output_limit,
    )
    assert get("/v1/models/gpt-5.5")[1]["id"] == "gpt-5.5"
    assert get("/v1beta/models/gemini-2.5-flash")[1]["name"] == "models/gemini-2.5-flash"


@pytest.mark.parametrize(
    ("path", "headers", "message"),
    [
        ("/v1/models/nobody", VERSION, "model: nobody"),
        ("/v1/models/nobody", {}, "The model 'nobody' does not exist"),
        ("/v1/models/claude-opus-5-5", {}, "The model 'claude-opus-5-5' does not exist"),
        ("/v1beta/models/nobody", {}, "models/nobody is not found for API version v1beta, or is not supported."),
    ],
)
def test_a_model_nobody_knows_is_not_found(path: str, headers: dict[str, str], message: str) -> None:
    status, body = get(path, headers)
    assert (status, body["error"]["message"]) == (404, message)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/models"), ("GET", "/v1/modelsx"), ("GET", "/v2/models"), ("GET", "/v1/messages")],
)
def test_other_calls_are_none_of_its_business(method: str, path: str) -> None:
    assert models_list.answer(HttpRequest(method, path)) is None
