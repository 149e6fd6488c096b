"""Whatever a host writes: an answer that it takes, that stops, and that quotes nothing secret."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_answers import check_answer, stops
from hostile_events import HOSTS, has_secret, hostile_events, without_secrets
from recorded_events import all_recorded
from toolbus.hosts.dialects import DIALECTS, dialect
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.run.event_input import fail_closed, read_payload

CASES = 10_000
UNSTOPPABLE = {
    ("claude-code", "PostToolUseFailure"),
    ("copilot", "postToolUseFailure"),
    ("cursor", "postToolUse"),
    ("cursor", "postToolUseFailure"),
}
"""Results that their host lets nobody replace, or not of every tool."""

KINDS = {
    (host, name): dialect(host).decode(name, payload).kind
    for host in HOSTS
    for name, payload in all_recorded(host)
}


def decision_about(event):
    """Deny what can be, and take the planted words out of results, as a chain would."""
    if event.response is None:
        return HookDecision(denied="no", context=("hint",))
    return HookDecision(response=event.response.map_text(without_secrets), context=("hint",))


def answer_to(host, name, data):
    """Return the hook command's answer, and whether all of the result was looked at."""
    spoken, payload = dialect(host), None
    try:
        payload = read_payload(data)
        event = spoken.decode(name, payload)
        decision = decision_about(event)
        is_clean = event.response is not None and decision.response == event.response
        return spoken.encode(event, decision), is_clean
    except Exception:  # noqa: BLE001 - as the hook command does
        return fail_closed(spoken, name, payload, "toolbus: it broke"), False


def check(host, name, data):
    answer, is_clean = answer_to(host, name, data)

    value = check_answer(host, name, answer)
    assert b"Traceback" not in answer.stdout + answer.stderr
    assert not has_secret(answer.stdout + answer.stderr)
    kind = KINDS[host, name]
    if (host, name) in UNSTOPPABLE:
        assert stops(kind, value) or is_clean or answer.undelivered
    elif kind in {"call", "prompt", "result"}:
        assert stops(kind, value) or is_clean


def test_events_of_all_hosts_are_recorded():
    assert sorted(DIALECTS) == HOSTS
    assert {"call", "result"} <= {kind for (_, _), kind in KINDS.items()}


@settings(max_examples=5 * settings.default.max_examples)
@given(data=st.data())
def test_a_hostile_event_has_an_answer_that_stops(data):
    host = data.draw(st.sampled_from(HOSTS))

    check(host, *data.draw(hostile_events(host)))


@pytest.mark.full
@pytest.mark.parametrize("host", HOSTS)
def test_ten_thousand_hostile_events_have_answers_that_stop(host):
    @settings(max_examples=CASES // 9 + 1)
    @given(event=hostile_events(host))
    def each(event):
        check(host, *event)

    each()


@pytest.mark.full
@pytest.mark.parametrize("host", HOSTS)
def test_an_event_of_fifty_megabytes_has_an_answer(host):
    for name in ("call", "result"):
        event = next(event for event in KINDS if event[0] == host and KINDS[event] == name)
        payload = dict(all_recorded(host))[event[1]]
        check(*event, json.dumps({**payload, "padding": "x" * 50_000_000}).encode())
