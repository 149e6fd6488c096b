"""What `specs` should not mention of `toolbus.events.catalogue` and `toolbus.events.values`."""

from typing import Any, Optional, Protocol, Union, runtime_checkable

import pytest

from toolbus import events
from toolbus.errors import RegistrationError
from toolbus.events import catalogue, values
from toolbus.events.catalogue import (
    CATALOGUE,
    ObserveEvent,
    RunResult,
    Scope,
    ToolSpec,
    TransformEvent,
    by_name,
)
from toolbus.messages.codec import decoder
from toolbus.messages.immutable import FrozenDict


@runtime_checkable
class Sized(Protocol):
    def __len__(self) -> int: ...


class Unchecked(Protocol):
    def __len__(self) -> int: ...


def test_events_offer_what_values_define():
    for name in catalogue.__all__:
        assert getattr(events, name) is getattr(values, name, getattr(catalogue, name))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Optional[int], None, "x"),  # noqa: UP045 - the old spelling is another object
        (Union[int, list[str]], ["x"], "x"),  # noqa: UP007 - as above
        (None, None, 0),
        (tuple, (1, "x"), [1]),
        (tuple[int | None, ...], (1, None), ("x",)),
        (tuple[Any, ...], (1, "x"), 1),
        (tuple[int, str] | None, (1, "x"), [1]),
        (Sized, "four", 4),
        (object, 0, None),
    ],
)
def test_annotations_of_every_kind_are_understood(kind, good, bad):
    event = TransformEvent("e", kind)

    assert event.accepts(good)
    assert kind is object or not event.accepts(bad)


def test_a_protocol_that_cannot_be_checked_is_refused():
    with pytest.raises(RegistrationError, match="no value can be checked against"):
        TransformEvent("e", Unchecked)


def test_an_observe_event_takes_any_annotation():
    assert ObserveEvent("e", Unchecked).value is Unchecked


@pytest.mark.parametrize("kind", [TransformEvent, ObserveEvent])
def test_an_event_has_no_room_for_more(kind):
    with pytest.raises(AttributeError):
        kind("e", int).colour = "red"


def test_names_and_constants_are_unique():
    assert len({event.name for event in CATALOGUE}) == len(set(CATALOGUE)) == 17


def test_the_nearest_name_is_one_and_only_one():
    with pytest.raises(RegistrationError) as caught:
        by_name("message:append:befor")

    assert caught.value.reason == "not in the catalogue; known: message:append:before"


def test_a_spec_takes_anything_by_default():
    spec = ToolSpec(name="t")

    assert spec.input_schema == {"type": "object"}
    assert (spec.description, spec.output_schema, spec.annotations) == ("", None, {})


def test_frozen_fields_are_not_frozen_again():
    context = FrozenDict({"user": 7})

    assert Scope(context=context).context is context


def test_a_result_counts_nothing_by_default():
    result = RunResult(status="cancelled", reason="the user left")

    assert (result.turns, result.usage, result.messages, result.message) == (0, {}, (), None)


def test_a_scope_of_an_older_ledger_has_no_folder():
    assert decoder(catalogue.Scope)(b'{"agent_id": "a", "session_id": "s"}').folder == ""
