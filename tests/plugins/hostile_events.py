"""Events as no host should send them: members missing, added, of wrong types; and any bytes."""

import json
from typing import Any

from hypothesis import strategies as st

from recorded_events import FOLDER, all_recorded

_PLANTED = ("SWORDFISH-1", "the-planted-word")
"""What stands in recorded events where a tool or a person said something."""

HOSTS = sorted(path.name for path in FOLDER.iterdir())
_RECORDED = {host: all_recorded(host) for host in HOSTS}

_ODD_TEXTS = st.sampled_from(
    [
        "",
        " ",
        "\0",
        "\ud800",
        "a\udfff",
        "__proto__",
        "../../etc",
        "\x1b[31m",
        "a" * 70_000,
        "\N{RIGHT-TO-LEFT OVERRIDE}",
    ]
)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(2**63) - 1, 1.5, float("nan"), float("inf")])
    | st.text(max_size=8)
    | _ODD_TEXTS
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def hostile_events(draw: st.DrawFn, host: str) -> tuple[str, bytes]:
    """An event of *host*: its name, and bytes in the place of what was recorded."""
    name, payload = draw(st.sampled_from(_RECORDED[host]))
    match draw(st.sampled_from(["changed", "changed", "changed", "other", "cut", "bytes"])):
        case "changed":
            for _ in range(draw(st.integers(1, 4))):
                payload = draw(_changed(payload))
            return name, _json(payload)
        case "other":
            return name, _json(draw(_VALUES))
        case "cut":
            data = _json(payload)
            return name, data[: draw(st.integers(0, len(data) - 1))]
    return name, draw(st.binary(max_size=40))


@st.composite
def _changed(draw: st.DrawFn, value: Any) -> Any:
    """*value* with one change somewhere in it."""
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["inside", "inside", "without", "added", "nested"])):
            case "inside":
                return {**value, key: draw(_changed(value[key]))}
            case "without":
                return {name: item for name, item in value.items() if name != key}
            case "added":
                return {**value, draw(st.text(max_size=8)): draw(_VALUES)}
        deep = value[key]
        for _ in range(draw(st.sampled_from([3, 250, 3_000]))):
            deep = [deep]
        return {**value, key: deep}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(_changed(value[place])), *value[place + 1 :]]
    return draw(_VALUES)


def _json(value: Any) -> bytes:
    """Return *value* as JSON, written by what has no limit of depth."""
    pieces: list[str] = []
    waiting: list[Any] = [("value", value)]
    while waiting:
        kind, item = waiting.pop()
        if kind == "text":
            pieces.append(item)
        elif isinstance(item, list):
            waiting.append(("text", "]"))
            for index, each in reversed(list(enumerate(item))):
                waiting += [("value", each), ("text", "," if index else "")]
            pieces.append("[")
        elif isinstance(item, dict):
            waiting.append(("text", "}"))
            for index, (key, each) in reversed(list(enumerate(item.items()))):
                waiting += [
                    ("value", each),
                    ("text", ("," if index else "") + json.dumps(key) + ":"),
                ]
            pieces.append("{")
        else:
            pieces.append(json.dumps(item))
    return "".join(pieces).encode()


def without_secrets(text: str) -> str:
    """Return *text* as a redactor would leave it."""
    for word in _PLANTED:
        text = text.replace(word, "***")
    return text


def has_secret(data: bytes) -> bool:
    """Tell whether a planted word stands in *data*."""
    return any(word.encode() in data for word in _PLANTED)
