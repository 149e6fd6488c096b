"""What an agent is made of: mistakes are named when it is made, and not in its first turn."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.bus import EventBus
from toolbus.bus.dispatch.callables import takes
from toolbus.components.participants import check_no_class
from toolbus.errors import FreezeError, RegistrationError
from toolbus.events.catalogue import Scope
from toolbus.messages.immutable import check_text, freeze_object
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.agent.outputs import OutputType
    from toolbus.messages.records import JsonObject
    from toolbus.models.protocol import Model
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate
    from toolbus.tools.toolset import Toolset


class AgentConfig(NamedTuple):
    """What all sessions of one agent share; *has_store* says that it was given its store."""

    model: Model
    bus: EventBus
    tools: Toolset
    store: Store
    gate: CallGate | None
    system: str | None
    max_turns: int
    model_settings: JsonObject
    ids: Callable[[], str]
    clock: Callable[[], int]
    keep_originals: bool = False
    deps: Any = NO_DEPS
    output: OutputType | None = None
    output_retries: int = 2
    has_store: bool = True


def check_config(config: AgentConfig) -> None:
    """Raise `RegistrationError` for what would fail, or mean something else, in the first run."""
    _check_model(config.model)
    if not isinstance(config.bus, EventBus):
        raise RegistrationError(f"bus {config.bus!r}", "expected an `EventBus`")
    _check_store(config.store)
    _check_texts(system=config.system)
    turns, keep_originals = config.max_turns, config.keep_originals
    if type(turns) is not int or turns < 1:
        reason = "expected how many model calls a run may have, 1 or more"
        raise RegistrationError(f"max_turns {turns!r}", reason)
    retries = config.output_retries
    if type(retries) is not int or retries < 0:
        reason = "expected how often an answer that does not fit is asked for again, 0 or more"
        raise RegistrationError(f"output_retries {retries!r}", reason)
    if not isinstance(keep_originals, bool):
        raise RegistrationError(f"keep_originals {keep_originals!r}", "expected True or False")
    _check_source("clock", config.clock)
    try:
        freeze_object(config.model_settings, "$")
    except FreezeError as error:
        raise RegistrationError("model_settings", str(error)) from None


def made_scope(agent_id: str | None, session_id: str | None, ids: Callable[[], str]) -> Scope:
    """Return a scope of these ids, or fresh ones; raises `RegistrationError` for what is no id."""
    _check_texts(session_id=session_id, agent_id=agent_id)
    _check_source("ids", ids)
    agent_id = _made_by(ids) if agent_id is None else agent_id
    return Scope(agent_id=agent_id, session_id=session_id or _made_by(ids))


def _check_source(name: str, function: Any) -> None:
    if not (callable(function) and takes(function, 0)):
        reason = "it must be callable without an argument"
        raise RegistrationError(f"{name} {function!r}", reason)


def _made_by(ids: Callable[[], Any]) -> str:
    made = ids()
    if isinstance(made, str) and made:
        return made
    raise RegistrationError(f"ids {ids!r}", f"each must be a text that is not empty, not {made!r}")


def _check_model(model: Any) -> None:
    check_no_class("model", model)
    what = f"model {model!r}"
    # Who never streams, or does nothing else, may have but one of the two.
    if not any(callable(getattr(model, method, None)) for method in ("complete", "stream")):
        reason = "it has no `complete`; a model is an object as `toolbus.models.Model` says"
        raise RegistrationError(what, reason)
    if not isinstance(getattr(model, "name", None), str):
        raise RegistrationError(what, "it has no `name` that is text")


def model_of(model: Model | str) -> Model:
    """Return *model*, or the model of that name; raises as `model_named` does."""
    if isinstance(model, str):
        from toolbus.models.names import model_named  # noqa: PLC0415 - few programs name a model

        return model_named(model)
    return model


def is_owned(store: object) -> bool:
    """Tell whether *store* is one that its agent opens, and so closes."""
    return store is None or isinstance(store, str | PathLike)


def store_of(store: Store | str | PathLike[str] | None) -> Store:
    """Return *store*, that of its address, or one in memory; raises `StoreError`."""
    if store is None:
        from toolbus.store.memory import MemoryStore  # noqa: PLC0415 - of stores, the one in use

        return MemoryStore()
    if isinstance(store, str | PathLike):
        from toolbus.store.store_factory import open_store  # noqa: PLC0415 - as above

        return open_store(store)
    return store


def agent_gate(
    approver: Approver | CallGate | None, timeout: float | None, store: Store
) -> CallGate | None:
    """Return the gate of an agent with its messages in *store*; raises `RegistrationError`."""
    if approver is None and timeout is None:
        return None
    from toolbus.tools.calls.approver import check_timeout, gate_of  # noqa: PLC0415 - for approvals
    from toolbus.tools.calls.gate import CallGate, ResumeGate  # noqa: PLC0415 - as above

    check_timeout(timeout)
    if timeout is not None and isinstance(approver, CallGate):
        reason = f"`{type(approver).__name__}` has times of its own; leave it out"
        raise RegistrationError(f"approval_timeout {timeout!r}", reason)
    gate = None if approver is None else gate_of(approver, timeout)
    return gate.for_host(store) if isinstance(gate, ResumeGate) else gate


def _check_store(store: Any) -> None:
    check_no_class("store", store)
    for method in ("append", "read", "read_state", "swap_state", "close"):
        if not callable(getattr(store, method, None)):
            reason = f"it has no `{method}`; a store is an object as `toolbus.store.Store` says"
            raise RegistrationError(f"store {store!r}", reason)


def _check_texts(**texts: object) -> None:
    """Raise `RegistrationError` unless each of *texts* is None, or text that UTF-8 can carry.

    An id that is empty is most likely a variable that nobody set.
    """
    for name, value in texts.items():
        if value == "" and name.endswith("_id"):
            raise RegistrationError(f"{name} ''", "it is empty; leave it out to have a fresh one")
        if value is not None:
            try:
                check_text(value, "$")
            except FreezeError as error:
                raise RegistrationError(f"{name} {value!r}", error.reason) from None
