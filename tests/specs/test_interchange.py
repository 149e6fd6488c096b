"""The scenarios of `specs/interchange.md`."""

import json
from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolbus.bus.ledger import DispatchRecord, HandlerEntry
from toolbus.events import Scope
from toolbus.formats import FORMATS, MessageItem, Problem, RecordItem, SkippedLine, read
from toolbus.formats.native import (
    EndLine,
    HeaderLine,
    MessageLine,
    RecordLine,
    SessionLine,
    encode_line,
)
from toolbus.messages import ImagePart, UserMessage
from toolbus.testing.strategies import messages

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"a":1}'}}
USE = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def lines(*values):
    return b"".join([json.dumps(value).encode() + b"\n" for value in values])


def found(data, **options):
    return list(read(BytesIO(data), "file", **options))


def said(items):
    return [item.message for item in items if isinstance(item, MessageItem)]


def problems(items):
    return [item for item in items if isinstance(item, Problem)]


def native(*spoken, records=()):
    body = [HeaderLine(), SessionLine(id="s")]
    body += [MessageLine(message=one) for one in spoken]
    body += [RecordLine(record=one) for one in records]
    body += [EndLine(messages=len(spoken), records=len(records))]
    return b"".join(map(encode_line, body))


def user(text):
    return {"role": "user", "content": text}


def claude(kind, message, uuid, **more):
    return {"type": kind, "sessionId": "S", "uuid": uuid, "message": message, **more}


def good(kind, *texts):
    """Return a file of the format *kind* in which users say *texts*, one in each line."""
    if kind == "toolbus":
        return native(*[UserMessage(id=text, content=text) for text in texts])
    if kind == "claude-code":
        return lines(*[claude("user", user(text), text) for text in texts])
    extra = {"system": "s"} if kind == "anthropic" else {}
    return lines(*[{"messages": [user(text)], **extra} for text in texts])


def users(items):
    return [one.text for one in said(items) if one.role == "user"]


@pytest.mark.parametrize("kind", FORMATS)
def test_the_format_is_recognized(kind):
    data = good(kind, "hello")

    items = found(data)

    assert (users(items), problems(items)) == (["hello"], [])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_bad_line_costs_only_itself(kind):
    data = good(kind, "one", "two").splitlines(keepends=True)
    at = 3 if kind == "toolbus" else 1
    wrong = {"type": "message", "messages": 5, "message": 7, "uuid": "x"}
    data[at:at] = [b"{no json\n", lines(wrong)]

    items = found(b"".join(data))

    assert users(items) == ["one", "two"]
    assert [one.line for one in problems(items)][:2] in ([at + 1, at + 2], [at + 1])
    assert len([one for one in items if isinstance(one, Problem | SkippedLine)]) == 2


def test_an_unknown_format_is_reported():
    data = lines({"date": "today", "level": "info"})

    (problem,) = found(data)

    assert problem.line == 1
    assert "date, level" in problem.reason
    assert "claude-code" in problem.reason


def test_a_given_format_is_used():
    data = lines({"messages": [{"role": "assistant", "content": [{"type": "mystery"}]}]})

    items = found(data, kind="anthropic")

    layout = said(items)[0].metadata["wire"]["layout"]
    assert layout == ({"kind": "block", "block": {"type": "mystery"}},)
    assert problems(found(data, kind="openai")) == []


def test_a_long_line_is_bounded():
    data = good("openai", "one", "x" * 500, "two")

    items = found(data, limit=200)

    assert users(items) == ["one", "two"]
    (problem,) = problems(items)
    assert problem.line == 2
    assert "200 bytes" in problem.reason


def test_blank_lines_and_byte_order_marks_are_ignored():
    data = b"\xef\xbb\xbf" + good("openai", "one", "two").replace(b"\n", b"\r\n\r\n  \n")

    items = found(data)

    assert (users(items), problems(items)) == (["one", "two"], [])


@pytest.mark.parametrize("kind", [None, *FORMATS])
@given(data=st.binary(max_size=200) | st.lists(st.binary(max_size=40)).map(b"\n".join))
@example(data=b'{"messages":[' + b"[" * 100_000)
@example(data=b'{"type":"user","uuid":"u","message":{"content":' + b'{"a":' * 100_000)
@example(data=b"\0\n\0\0")
def test_any_bytes_give_items_or_problems(kind, data):
    full = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]

    items = found(data, kind=kind)

    assert len({one.line for one in problems(items)}) <= len(full)
    assert bool(items) >= bool(full)


MUTATIONS = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, 400), st.just(b"")),
    st.tuples(st.just("put"), st.integers(0, 400), st.binary(min_size=1, max_size=8)),
    st.tuples(
        st.just("put"),
        st.integers(0, 400),
        st.sampled_from([b"null", b"9" * 400, b"1e999", b"[[[[", b'"', b"\xff", b"\0", b'"id":1,']),
    ),
)


def mutated(line, mutation):
    how, at, new = mutation
    at %= len(line)
    return line[:at] if how == "cut" else line[:at] + new + line[at + 1 :]


@pytest.mark.parametrize("kind", FORMATS)
@given(mutation=MUTATIONS)
def test_damage_is_limited_to_its_line(kind, mutation):
    *before, middle, after = good(kind, "one", "two", "three").splitlines()[
        : {"toolbus": 5}.get(kind)
    ]
    damaged = mutated(middle, mutation).replace(b"\n", b" ")

    items = found(b"\n".join([*before, damaged, after]), kind=kind)

    texts = users(items)
    assert texts[0] == "one"
    assert texts[-1] == "three"


def test_an_unpaired_surrogate_is_kept():
    data = b'{"messages":[{"role":"user","content":"half \\ud83d of it"}]}'

    items = found(data)

    assert (users(items), problems(items)) == (["half \\ud83d of it"], [])


RECORDS = st.builds(
    DispatchRecord,
    event=st.text(),
    scope=st.builds(Scope, agent_id=st.text(), session_id=st.text(), turn=st.integers(0, 9)),
    started_ns=st.integers(0, 2**62),
    duration_ns=st.integers(0, 2**62),
    outcome=st.sampled_from(["changed", "denied", "unchanged"]),
    reason=st.none() | st.text(),
    original=st.text(),
    entries=st.lists(
        st.builds(
            HandlerEntry,
            name=st.text(),
            priority=st.integers(-9, 9),
            kind=st.sampled_from(["guard", "transformer"]),
            status=st.sampled_from(["ran", "changed"]),
            fields=st.lists(st.text(), max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


@given(spoken=st.lists(messages(), max_size=4), records=st.lists(RECORDS, max_size=2))
def test_any_session_comes_back_equal(spoken, records):
    data = native(*spoken, records=records)

    items = found(data)

    assert said(items) == spoken
    assert [one.record for one in items if isinstance(one, RecordItem)] == records
    assert problems(items) == []


def test_a_truncated_file_is_reported():
    data = good("toolbus", "one", "two").splitlines(keepends=True)

    items = found(b"".join(data[:-1]))

    assert users(items) == ["one", "two"]
    assert "cut off" in problems(items)[0].reason


def test_missing_lines_are_counted():
    data = good("toolbus", "one", "two").splitlines(keepends=True)

    items = found(b"".join(data[:2] + data[3:]))

    (problem,) = problems(items)
    assert "expected 2 messages, got 1" in problem.reason


def test_a_newer_version_is_refused():
    data = encode_line(HeaderLine(version=99)) + good("toolbus", "one")

    first, *others = problems(found(data))

    assert "update toolbus" in first.reason
    assert said(found(data)) == []
    assert len(others) == 4


def test_a_conversation_keeps_its_facts():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    spoken = [
        {"role": "system", "content": "Help."},
        user([{"type": "text", "text": "look"}, image]),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "it is 1"},
    ]

    system, asked, answer, result = said(found(lines({"messages": spoken})))

    assert (system.text, asked.text) == ("Help.", "look")
    assert asked.content[1] == ImagePart(data="AA==", mime_type="image/png")
    assert [(one.id, one.name, one.arguments) for one in answer.tool_calls] == [
        ("c1", "read", {"a": 1})
    ]
    assert (result.tool_call_id, result.tool_name, result.text) == ("c1", "read", "it is 1")


def test_an_old_function_call_is_paired():
    call = {"role": "assistant", "function_call": {"name": "read", "arguments": "{}"}}
    result = {"role": "function", "name": "read", "content": "done"}

    answer, answered = said(found(lines({"messages": [call, result]})))

    assert answered.tool_call_id == answer.tool_calls[0].id
    assert (answered.tool_name, answered.text) == ("read", "done")


@pytest.mark.parametrize("text", ["rm all", "[1]", '{"a": 99999999999999999999999}', '"x"'])
def test_unreadable_arguments_are_kept_as_text(text):
    call = {**CALL, "function": {"name": "read", "arguments": text}}

    items = found(lines({"messages": [{"role": "assistant", "tool_calls": [call]}]}))

    assert said(items)[0].tool_calls[0].raw == text


def test_growing_requests_are_one_session():
    history, log = [user("go")], []
    for number in range(3):
        answer = {"role": "assistant", "content": f"step {number}", "refusal": None}
        reply = {"choices": [{"message": answer, "finish_reason": "stop"}], "usage": {"n": 1}}
        log.append({"request": {"messages": list(history)}, "response": reply})
        history += [{"role": "assistant", "content": f"step {number}"}, user("on")]

    items = found(lines(*log))

    assert {one.session for one in items} == {"file:1"}
    assert [one.text for one in said(items)] == ["go", "step 0", "on", "step 1", "on", "step 2"]


def test_different_conversations_are_different_sessions():
    system = {"role": "system", "content": "Help."}
    data = lines({"messages": [system, user("one")]}, {"messages": [system, user("two")]})

    items = found(data)

    assert [one.session for one in items if isinstance(one, MessageItem)] == ["file:1"] * 2 + [
        "file:2"
    ] * 2


@pytest.mark.parametrize("kind", [None, "openai"])
def test_a_log_of_responses_is_a_session(kind):
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA=="}
    thought = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed"}
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    text = {"type": "output_text", "text": "A cat.", "annotations": []}
    answer = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    first = [{"role": "user", "content": [{"type": "input_text", "text": "see"}, image]}]
    result = {"type": "function_call_output", "call_id": "c", "output": "cat"}
    data = lines(
        *[
            {
                "request": {"instructions": "be brief", "input": sent},
                "response": {"object": "response", "status": "completed", "output": given},
            }
            for sent, given in (
                (first, [thought, call]),
                ([*first, thought, call, result], [answer]),
            )
        ]
    )

    items = found(data, kind=kind)

    system, user, asking, looked, last = [
        item.message for item in items if isinstance(item, MessageItem)
    ]
    assert problems(items) == []
    assert (system.text, user.text, last.text) == ("be brief", "see", "A cat.")
    assert user.content[1] == ImagePart(data="AA==", mime_type="image/png")
    assert [part.data for part in asking.reasoning] == ["sealed"]
    assert (asking.stop_reason, asking.tool_calls[0].name) == ("tool_calls", "look")
    assert (looked.tool_name, looked.text) == ("look", "cat")


def test_a_user_turn_becomes_results_and_text():
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [IMAGE], "is_error": True},
        {"type": "text", "text": "and now?"},
    ]
    asked = {"role": "assistant", "content": [USE, {**USE, "id": "t2", "name": "look"}]}

    items = found(lines({"messages": [asked, user(results)]}))

    _, first, second, words = said(items)
    assert (first.tool_name, first.text, first.tool_response.is_error) == ("bash", "ok", False)
    assert (second.tool_name, second.tool_response.is_error) == ("look", True)
    assert second.tool_response.content == (ImagePart(data="AA==", mime_type="image/png"),)
    assert words.text == "and now?"


def test_thinking_becomes_reasoning():
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "ok"},
    ]

    items = found(lines({"messages": [{"role": "assistant", "content": [*blocks, USE]}]}))

    (answer,) = said(items)
    assert (answer.reasoning_text, answer.content) == ("hm", "ok")
    assert answer.reasoning[0].signature == "x"
    assert answer.tool_calls[0].arguments == {"command": "ls"}


def test_unknown_blocks_are_kept():
    block = {"type": "mystery", "depth": 3}
    spoken = [user([block]), {"role": "assistant", "content": [block]}]

    asked, answer = said(found(lines({"system": "s", "messages": spoken})))[1:]

    assert json.loads(asked.content[0].resource.text) == block
    assert [entry["block"] for entry in answer.metadata["wire"]["layout"]] == [block]


def test_spread_lines_are_one_message():
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"}, USE]
    spread = [
        claude("assistant", {"id": "m", "role": "assistant", "content": [one]}, f"u{at}")
        for at, one in enumerate(blocks)
    ]

    items = found(lines(*spread))

    (answer,) = said(items)
    assert (answer.id, answer.reasoning_text, answer.content) == ("u0", "hm", "ok")
    assert len(answer.tool_calls) == 1


def test_a_sub_agent_is_its_own_session():
    def side(text, uuid, parent):
        return claude("user", user(text), uuid, isSidechain=True, parentUuid=parent)

    data = lines(
        claude("user", user("main"), "u1"),
        side("first", "a1", None),
        side("second", "b1", None),
        side("first goes on", "a2", "a1"),
        claude("user", user("main goes on"), "u2"),
    )

    items = found(data)

    spoken = [(one.session, one.message.text) for one in items if isinstance(one, MessageItem)]
    assert spoken == [
        ("S", "main"),
        ("S/sidechain-1", "first"),
        ("S/sidechain-2", "second"),
        ("S/sidechain-1", "first goes on"),
        ("S", "main goes on"),
    ]


def test_other_lines_are_counted():
    error = claude("assistant", {"content": "API Error"}, "u3", isApiErrorMessage=True)
    data = lines(
        {"type": "summary", "summary": "x", "leafUuid": "u"},
        {"type": "system", "content": "y", "uuid": "z", "sessionId": "S"},
        error,
    )

    items = found(data)

    assert items == [
        SkippedLine(1, "summary"),
        SkippedLine(2, "system"),
        SkippedLine(3, "api error"),
    ]
