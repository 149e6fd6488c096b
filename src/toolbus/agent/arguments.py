"""The arguments of an agent, checked when it is created."""

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
    """The configuration of all sessions of one agent; *has_store*: it was given its store."""

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
    """Raise `RegistrationError` for arguments that would fail, or be misread, in the first run."""
    _check_model(config.model)
    if not isinstance(config.bus, EventBus):
        raise RegistrationError(f"bus {config.bus!r}", "expected an `EventBus`")
    _check_store(config.store)
    _check_texts(system=config.system)
    turns, keep_originals = config.max_turns, config.keep_originals
    if type(turns) is not int or turns < 1:
        reason = "expected a limit of model calls per run, 1 or more"
        raise RegistrationError(f"max_turns {turns!r}", reason)
    retries = config.output_retries
    if type(retries) is not int or retries < 0:
        reason = "expected a number of retries after a misfit, 0 or more"
        raise RegistrationError(f"output_retries {retries!r}", reason)
    if not isinstance(keep_originals, bool):
        raise RegistrationError(f"keep_originals {keep_originals!r}", "expected True or False")
    _check_source("clock", config.clock)
    try:
        freeze_object(config.model_settings, "$")
    except FreezeError as error:
        raise RegistrationError("model_settings", str(error)) from None


def make_scope(agent_id: str | None, session_id: str | None, ids: Callable[[], str]) -> Scope:
    """Return a scope of these ids, or fresh ones; raises `RegistrationError` for an invalid id."""
    _check_texts(session_id=session_id, agent_id=agent_id)
    _check_source("ids", ids)
    agent_id = _make_id(ids) if agent_id is None else agent_id
    return Scope(agent_id=agent_id, session_id=session_id or _make_id(ids))


def _check_source(name: str, function: Any) -> None:
    if not (callable(function) and takes(function, 0)):
        reason = "it must be callable without an argument"
        raise RegistrationError(f"{name} {function!r}", reason)


def _make_id(ids: Callable[[], Any]) -> str:
    made = ids()
    if isinstance(made, str) and made:
        return made
    raise RegistrationError(f"ids {ids!r}", f"expected ids of non-empty text, not {made!r}")


def _check_model(model: Any) -> None:
    check_no_class("model", model)
    what = f"model {model!r}"
    # A model that never streams, or only streams, may have one of the two alone.
    if not any(callable(getattr(model, method, None)) for method in ("complete", "stream")):
        reason = "it has no `complete`; expected an object like `toolbus.models.Model`"
        raise RegistrationError(what, reason)
    if not isinstance(getattr(model, "name", None), str):
        raise RegistrationError(what, "its `name` must be text")


def model_of(model: Model | str) -> Model:
    """Return *model*, or the model of that name; raises as `model_named` does."""
    if isinstance(model, str):
        from toolbus.models.names import model_named  # noqa: PLC0415 - few programs name a model

        return model_named(model)
    return model


def is_owned(store: object) -> bool:
    """Return whether *store* is opened by its agent, which then closes it."""
    return store is None or isinstance(store, str | PathLike)


def store_of(store: Store | str | PathLike[str] | None) -> Store:
    """Return *store*, the store of an address, or one in memory; raises `StoreError`."""
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
        reason = f"`{type(approver).__name__}` has timeouts of its own; leave it out"
        raise RegistrationError(f"approval_timeout {timeout!r}", reason)
    gate = None if approver is None else gate_of(approver, timeout)
    return gate.for_host(store) if isinstance(gate, ResumeGate) else gate


def _check_store(store: Any) -> None:
    check_no_class("store", store)
    for method in ("append", "read", "read_state", "swap_state", "close"):
        if not callable(getattr(store, method, None)):
            reason = f"it has no `{method}`; expected an object like `toolbus.store.Store`"
            raise RegistrationError(f"store {store!r}", reason)


def _check_texts(**texts: object) -> None:
    """Raise `RegistrationError` unless each of *texts* is None, or text that UTF-8 can carry.

    An empty id is refused: most likely it is an unset variable.
    """
    for name, value in texts.items():
        if value == "" and name.endswith("_id"):
            raise RegistrationError(f"{name} ''", "it is empty; leave it out for a fresh id")
        if value is not None:
            try:
                check_text(value, "$")
            except FreezeError as error:
                raise RegistrationError(f"{name} {value!r}", error.reason) from None
