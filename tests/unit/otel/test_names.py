"""The table of names beside the constants that OpenTelemetry's own package has of them."""

from opentelemetry.semconv._incubating.attributes import (
    gen_ai_attributes,
    security_rule_attributes,
)
from opentelemetry.semconv.attributes import error_attributes

from toolbus.otel import names

NEWER = {"gen_ai.token.modality"}
"""Names that the conventions had only after they left that package."""


def test_attributes_have_the_names_of_the_conventions():
    ours = {
        text
        for name, value in vars(names).items()
        if name.isupper() and name not in {"TOKENS", "USAGE"}
        for text in ([value] if isinstance(value, str) else [])
        if text.startswith(("gen_ai.", "security_rule.", "error."))
    }
    theirs = {
        value
        for module in (gen_ai_attributes, security_rule_attributes, error_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }

    assert len(ours) > 10
    assert ours - NEWER <= theirs
    assert {f"{names.USAGE}.{end}" for end in ("input_tokens", "output_tokens")} <= theirs


def test_operations_have_the_names_of_the_conventions():
    theirs = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}

    assert {names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL} <= theirs
