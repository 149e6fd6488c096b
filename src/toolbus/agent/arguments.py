"""What an agent is made of: mistakes are named when it is made, and not in its first turn."""

from __future__ import annotations

from os import PathLike
from typing import Any

from toolbus.bus.bus import EventBus
from toolbus.components.participants import check_no_class
from toolbus.errors import FreezeError, RegistrationError
from toolbus.messages.immutable import check_text


def check_parts(model: Any, bus: Any, store: Any) -> None:
    """Raise `RegistrationError` for a model, bus or store that is none."""
    _check_model(model)
    if not isinstance(bus, EventBus):
        raise RegistrationError(f"bus {bus!r}", "expected an `EventBus`")
    _check_store(store)


def _check_model(model: Any) -> None:
    check_no_class("model", model)
    what = f"model {model!r}"
    # Who never streams, or does nothing else, may have but one of the two.
    if not any(callable(getattr(model, method, None)) for method in ("complete", "stream")):
        reason = "it has no `complete`; a model is an object as `toolbus.models.Model` says"
        raise RegistrationError(what, reason)
    if not isinstance(getattr(model, "name", None), str):
        raise RegistrationError(what, "it has no `name` that is text")


def _check_store(store: Any) -> None:
    if isinstance(store, str | PathLike):
        reason = "it is a path; open it, `SqliteStore(path)` of `toolbus.store.sqlite`"
        raise RegistrationError(f"store {str(store)!r}", reason)
    check_no_class("store", store)
    for method in ("append", "read", "read_state", "swap_state", "close"):
        if not callable(getattr(store, method, None)):
            reason = f"it has no `{method}`; a store is an object as `toolbus.store.Store` says"
            raise RegistrationError(f"store {store!r}", reason)


def check_texts(**texts: object) -> None:
    """Raise `RegistrationError` unless each of *texts* is None, or text that UTF-8 can carry."""
    for name, value in texts.items():
        if value is not None:
            try:
                check_text(value, "$")
            except FreezeError as error:
                raise RegistrationError(f"{name} {value!r}", error.reason) from None
