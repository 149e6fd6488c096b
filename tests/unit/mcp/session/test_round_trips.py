"""States that a client sends back: which are ours, and what they hold."""

import pytest

from toolbus.mcp.session.client_approvals import (
    ForeignStateError,
    PriorQuestion,
    RequestStates,
    input_required,
    supports_input_required,
)

ASKED = PriorQuestion(question_id="q", digest="d", session_id="s", restored={"requestState": "x"})


def test_what_the_server_gave_is_put_back():
    states = RequestStates()
    params = {"name": "pay", "requestState": states.write(ASKED), "inputResponses": {"k": 1}}

    repeated = states.read(params, "s")

    assert repeated.params == {"name": "pay", "requestState": "x"}
    assert (repeated.asked, repeated.verdict) == (ASKED, None)


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ({"action": "accept", "content": {"approve": True}}, True),
        ({"action": "accept", "content": {"approve": False}}, False),
        ({"action": "accept", "content": {"approve": 1}}, False),
        ({"action": "accept"}, False),
        ({"action": "cancel"}, False),
        ({}, None),
        ("yes", None),
    ],
)
def test_only_a_filled_in_form_is_a_yes(response, verdict):
    states, state = RequestStates(), "s"
    asked = input_required({"message": "?"}, states.write(ASKED))
    (key,) = asked["inputRequests"]

    params = {"requestState": asked["requestState"], "inputResponses": {key: response}}

    assert states.read(params, state).verdict is verdict


def test_what_another_proxy_wrote_is_the_server_s():
    state = RequestStates().write(ASKED)

    assert RequestStates().read({"requestState": state}, "s") is None
    assert RequestStates().read({"requestState": 5}, "s") is None
    assert RequestStates().read({}, "s") is None


def test_older_questions_are_forgotten_where_they_hold_much():
    states, large = RequestStates(), ASKED._replace(restored={"requestState": "x" * 2**22})

    first, *_, last = [states.write(large) for _ in range(9)]

    assert states.read({"requestState": last}, "s").asked is large
    with pytest.raises(ForeignStateError):
        states.read({"requestState": first}, "s")


def test_no_state_is_believed_that_was_changed_or_is_another_s():
    states = RequestStates()
    state = states.write(ASKED)
    prefix, _, body = state.partition(".")
    broken = [f"{prefix}.", f"{prefix}.é", f"{prefix}.{body[:20]}", f"{prefix}.{body}x"]
    for place in (0, 20):
        flipped = "b" if body[place] == "a" else "a"
        broken.append(f"{prefix}.{body[:place]}{flipped}{body[place + 1 :]}")

    for each in broken:
        with pytest.raises(ForeignStateError):
            states.read({"requestState": each}, "s")
    with pytest.raises(ForeignStateError):
        states.read({"requestState": state}, "other")


@pytest.mark.parametrize(
    ("capabilities", "asks"),
    [
        ({"elicitation": {}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_who_shows_forms_says_so_in_each_request(capabilities, asks):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }

    assert supports_input_required({"_meta": meta}) is asks
    del meta["io.modelcontextprotocol/protocolVersion"]
    assert not supports_input_required({"_meta": meta})
