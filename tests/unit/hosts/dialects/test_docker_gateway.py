"""What Docker's MCP gateway hands its interceptors, and the exact answers."""

import pytest

from recorded_events import answered, blocked, decoded, recorded, texts, with_texts
from toolbus.errors import DecodeError
from toolbus.hosts.dialects.docker_gateway import DockerGatewayDialect
from toolbus.messages.records import ToolCall

HOST = "docker-gateway"


def notice(text):
    return {"content": [{"type": "text", "text": text}], "isError": True}


def test_a_call_has_no_id_and_a_result_no_call():
    call, result = decoded(HOST, "before"), decoded(HOST, "after")

    assert (call.kind, call.session_id) == ("call", "gateway")
    assert call.call == ToolCall(id="", name="peek", arguments={"q": "x"})
    assert (result.kind, result.call.name) == ("result", "unknown")


def test_a_result_is_its_texts_and_what_is_structured():
    assert texts(decoded(HOST, "after"))[:2] == ["the-planted-word x", "second"]
    assert "the-planted-word" in texts(decoded(HOST, "after"))


def test_what_passes_is_answered_by_nothing():
    assert answered(HOST, "before") == (None, ())
    assert answered(HOST, "before", call=decoded(HOST, "before").call) == (None, ())
    assert answered(HOST, "after") == (None, ())


def test_a_call_that_may_not_run_as_it_is_becomes_a_notice():
    call = decoded(HOST, "before").call.with_arguments({"q": "y"})

    assert answered(HOST, "before", denied="no") == (notice("no"), ())
    assert answered(HOST, "before", asked="really?") == (notice("really?"), ("ask",))
    rewritten, undelivered = answered(HOST, "before", call=call)
    assert rewritten == notice(
        "toolbus: the arguments were to be changed, which the gateway cannot do"
    )
    assert undelivered == ("rewrite_arguments",)


def test_a_result_is_replaced_in_its_frame():
    before = decoded(HOST, "after").response
    same = before.map_text(lambda text: text.replace("the-planted-word", "[redacted]"))

    answer, _ = answered(HOST, "after", response=same, context=("more",))

    assert answer == {
        "content": [
            {"type": "text", "text": "[redacted] x"},
            {"type": "text", "text": "second"},
            {"type": "text", "text": "more"},
        ],
        "structuredContent": {"answer": "[redacted]"},
    }
    whole, _ = answered(HOST, "after", response=with_texts("new"))
    assert whole == {"content": [{"type": "text", "text": "new"}]}
    assert answered(HOST, "after", denied="no") == (notice("no"), ())


def test_context_is_a_block_behind_a_result():
    answer, undelivered = answered(HOST, "after", context=("more",))

    assert answer["content"][-1] == {"type": "text", "text": "more"}
    assert undelivered == ()
    assert answered(HOST, "before", context=("more",)) == (None, ("add_context",))


def test_each_event_is_stopped_by_a_notice():
    for name in ("before", "after", "of tomorrow"):
        assert blocked(HOST, name) == (notice("toolbus: it broke"), ())


@pytest.mark.parametrize(
    ("name", "payload", "path"),
    [
        ("before", {}, "params"),
        ("before", {"params": {}}, "name"),
        ("before", {"params": {"name": "x", "arguments": []}}, "arguments"),
        ("after", {"content": "text"}, "content"),
        ("after", {}, "content"),
    ],
)
def test_an_event_of_another_form_is_refused(name, payload, path):
    with pytest.raises(DecodeError, match=path):
        DockerGatewayDialect().decode(name, payload)


def test_a_call_without_arguments_has_none():
    payload = recorded(HOST, "before")
    del payload["params"]["arguments"]

    assert DockerGatewayDialect().decode("before", payload).call.arguments == {}
