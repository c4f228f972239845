"""The API's description has an example of everything that is sent and answered, and each is of its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from pipelines.spec import FileJob
from transcoder.api.examples import MODELS
from transcoder.api.schema import TAGS
from transcoder.app import create_app
from transcoder.settings import Settings

DOCUMENT: dict[str, Any] = create_app(Settings()).openapi()
OPERATIONS = [
    pytest.param(operation, id=f"{method} {path}")
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything with a body that an operation takes or answers with: what it is, and its description."""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"request, {kind}", content
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            yield f"{status}, {kind}", content


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_has_words_and_an_example_of_each_body(operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert set(operation["tags"]) <= {tag["name"] for tag in TAGS}
    for what, content in contents(operation):
        assert content.get("example") is not None or content.get("examples"), what
    for parameter in operation.get("parameters", ()):
        if parameter["required"]:
            assert "example" in parameter or "examples" in parameter["schema"], parameter["name"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_examples_are_of_their_schema(operation: dict[str, Any]) -> None:
    for what, content in contents(operation):
        schema = content.get("schema")
        if schema is not None and what.endswith("json"):
            whole = {**schema, "components": DOCUMENT["components"]}
            errors = list(jsonschema.Draft202012Validator(whole).iter_errors(content["example"]))
            assert [f"{error.json_path}: {error.message}" for error in errors[:3]] == [], what


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_tells_its_problems(operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        problem = response.get("content", {}).get("application/problem+json")
        if problem is not None:
            assert problem["example"]["status"] == int(status)


def test_every_example_is_used() -> None:
    text = json.dumps(DOCUMENT["paths"])
    assert {name for name in MODELS if f'"#/components/schemas/{name}"' not in text} == set()


def test_every_tag_is_described() -> None:
    assert all(tag["description"] for tag in TAGS)


def test_job_may_be_sent_with_either_of_input_and_inputs() -> None:
    part = {"upload": "0" * 34}
    sent = {**DOCUMENT["components"]["schemas"]["FileJob-Input"], "components": DOCUMENT["components"]}
    for given in ({"input": part}, {"inputs": [part, part]}):
        job = {**given, "preset": "web-mp4"}
        FileJob.model_validate(job)
        jsonschema.validate(job, sent)
    # what is answered always has it
    assert DOCUMENT["components"]["schemas"]["FileJob"]["required"] == ["input"]
