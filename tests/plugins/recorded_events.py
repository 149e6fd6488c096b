"""Events of hosts' hooks, as the hosts sent them, and what the dialects make of them."""

import json
from pathlib import Path

from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.messages.records import TextPart, ToolResponse

FOLDER = Path(__file__).parents[1] / "data/hosts"


def recorded(host, name):
    """The payload in the file *name*: an event, and behind "-" which one of its kind."""
    return json.loads((FOLDER / host / f"{name}.json").read_text("utf-8"))


def all_recorded(host):
    """The names and payloads of all events of *host* that were recorded."""
    files = sorted((FOLDER / host).glob("*.json"))
    return [(path.stem.split("-")[0], json.loads(path.read_text("utf-8"))) for path in files]


def decoded(host, name):
    """The event that the host's dialect reads in it."""
    return dialect(host).decode(name.split("-")[0], recorded(host, name))


def answered(host, name, **decision):
    """The host's answer as a JSON value, None if it is empty; and what is undelivered."""
    answer = dialect(host).encode(decoded(host, name), HookDecision(**decision))
    assert not answer.stderr
    assert answer.exit_code == 0
    return json.loads(answer.stdout) if answer.stdout else None, answer.undelivered


def blocked(host, event, payload=None):
    """What stops *event*, as a JSON value, None if it is empty; and what is undelivered."""
    answer = dialect(host).fail_closed_answer(event, payload, "toolbus: it broke")
    assert answer.exit_code == 0
    return json.loads(answer.stdout) if answer.stdout else None, answer.undelivered


def texts(event):
    """The texts of an event's result."""
    return [part.text for part in event.response.content]


def with_texts(*new):
    """A result of these texts."""
    return ToolResponse(content=tuple(TextPart(text=text) for text in new))
