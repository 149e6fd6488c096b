"""The call that a question is bound to, with its guard and rules, as the store may keep it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.approvals.records import call_key, canonical, digest_of
from toolbus.bus.grace import within_grace
from toolbus.errors import DeadlineError
from toolbus.events.catalogue import MESSAGE_PERSIST_BEFORE, Deny
from toolbus.messages.codec import changed
from toolbus.messages.ids import new_id
from toolbus.messages.records import AssistantMessage, ToolCall
from toolbus.tools.calls.gate import CHANGED_CALL, CHANGED_TOOL, definition_of
from toolbus.transcript.admission import check_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.approvals.questions import Question
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.immutable import JsonObject
    from toolbus.tools.calls.gate import ApprovalRequest

MAX_BYTES = 1_000_000
"""The most bytes of JSON of a call that a person can approve."""

_NOT_STORED = "this call needs approval, and it cannot be stored for a question"
_TOO_LARGE = f"this call needs approval, and is longer than {MAX_BYTES:,} bytes"


class BoundCall(NamedTuple):
    """A call as its question shows it.

    Calls of one *key* attach to the same question. *hidden*: the stored *arguments* differ from
    those of the running call; *live* is then the keyed digest of the running call, else "".
    *filled* are the JSON paths at which the tool gets other values. *plain_digest* is the digest of
    the running call and is never stored, *definition* the digest of its tool. *requested* is the
    storable call as the model wrote it, None if it is the same.
    """

    key: str
    session_id: str
    call_id: str
    tool: str
    arguments: JsonObject
    digest: str
    prompt: str
    guard: str
    rule: str
    rules: str
    definition: str
    live: str
    plain_digest: str
    hidden: bool
    stays_open: bool
    requested: ToolCall | None = None
    filled: tuple[str, ...] = ()

    def fits(self, question: Question) -> bool:
        """Return whether *question* is about this call, as far as it is stored."""
        return (
            self.digest == question.digest == digest_of(question.tool, question.arguments)
            and (self.guard, self.rule, self.rules, self.definition)
            == (question.guard, question.rule, question.rules, question.definition)
            and self.session_id == question.session_id
        )

    def refusal_of(self, call: ToolCall, tool: ToolSpec | None) -> Deny | None:
        """Return a denial if the approval no longer covers *call* with *tool*, else None."""
        if digest_of(call.name, call.arguments) != self.plain_digest:
            return CHANGED_CALL
        return None if definition_digest(tool) == self.definition else CHANGED_TOOL


def definition_digest(tool: ToolSpec | None) -> str:
    """Return the digest of the name, description and parameters of *tool*; "" for None."""
    return "" if tool is None else hashlib.sha256(canonical(definition_of(tool))).hexdigest()


async def bind(
    request: ApprovalRequest, filled: tuple[str, ...], secret: Callable[[], bytes]
) -> BoundCall | Deny:
    """Return the bound call of *request*, or a refusal if it cannot be stored or is too large.

    *filled* are the paths of the arguments that the tool gets with other values. Values that
    handlers keep out of the store are left out; only then *secret* is called for the key that
    recognizes them.
    """
    call = request.call or ToolCall(id="", name="", arguments={"prompt": request.text})
    copy = await _stored_copy(request, call)
    if copy is None:
        return Deny(_NOT_STORED)
    stored, requested = copy.tool_calls[0], copy.tool_calls[1:]
    if stored.name != call.name:
        return Deny(_NOT_STORED, "its stored copy names another tool")
    if len(canonical([call.arguments, stored.arguments])) > 2 * MAX_BYTES:
        return Deny(_TOO_LARGE)
    session_id, guard = request.scope.session_id, "\n".join(request.guards)
    digest = digest_of(stored.name, stored.arguments)
    hidden = changed(call.arguments, stored.arguments)
    live = live_digest(secret(), session_id, call) if hidden else ""
    facts = ("arguments", digest, guard, request.ask.rule, request.ask.rules, live)
    by_facts = hashlib.sha256(canonical(facts)).hexdigest()
    return BoundCall(
        key=call_key(call.id) if request.stays_open else by_facts,
        session_id=session_id,
        call_id=call.id,
        tool=stored.name,
        arguments=stored.arguments,
        digest=digest,
        prompt=copy.content if isinstance(copy.content, str) else copy.text,
        guard=guard,
        rule=request.ask.rule,
        rules=request.ask.rules,
        definition=definition_digest(request.tool),
        live=live,
        plain_digest=digest_of(call.name, call.arguments),
        hidden=hidden,
        stays_open=request.stays_open,
        requested=requested[0] if requested else None,
        # A hidden value may be a name in a path.
        filled=() if hidden else filled,
    )


async def filled_paths(request: ApprovalRequest) -> tuple[str, ...] | Deny:
    """Return the JSON paths of the arguments that the tool gets with other values, or a refusal.

    Only the paths are kept; the values are filled in again right before the tool runs.
    """
    call = request.call
    if request.fill is None or call is None:
        return ()
    filled = await request.fill()
    if isinstance(filled, Deny):
        return filled
    return tuple(changed_paths(call.arguments, filled.arguments))


def changed_paths(before: Any, after: Any, path: str = "$") -> Iterator[str]:
    """Yield the JSON paths at which *after* differs from *before*, without names new in *after*.

    Unlike `settings.differences`: a new name may be a filled secret, and the paths are stored.
    """
    if before is after:
        return
    match before, after:
        case Mapping(), Mapping() if before.keys() == after.keys():
            for name in before:
                yield from changed_paths(before[name], after[name], f"{path}.{name}")
        case tuple(), tuple() if len(before) == len(after):
            for index, (item, new) in enumerate(zip(before, after, strict=True)):
                yield from changed_paths(item, new, f"{path}[{index}]")
        case _ if changed(before, after):
            yield path


def live_digest(secret: bytes, session_id: str, call: ToolCall) -> str:
    """Return the digest, keyed by *secret*, of the running *call* of a session."""
    plain = canonical([session_id, call.name, call.arguments])
    return hmac.new(secret, plain, hashlib.sha256).hexdigest()


async def _stored_copy(request: ApprovalRequest, call: ToolCall) -> AssistantMessage | None:
    """Return the storable copy of the question's prompt and calls, None if there is none.

    It is dispatched like a model's message with these calls.
    """
    final = ToolCall(id="final", name=call.name, arguments=call.arguments)
    calls = [final]
    requested = request.requested
    if requested is not None and (
        requested.name != call.name or changed(requested.arguments, call.arguments)
    ):
        calls.append(ToolCall(id="requested", name=requested.name, arguments=requested.arguments))
    message = AssistantMessage(id=new_id(), content=request.ask.prompt, tool_calls=tuple(calls))
    bus, scope = request.bus, request.scope
    if not bus.has_listeners(MESSAGE_PERSIST_BEFORE):
        return message
    dispatch = partial(bus.apply, MESSAGE_PERSIST_BEFORE, message, scope=scope, check=check_calls)
    try:
        context = await within_grace(bus, MESSAGE_PERSIST_BEFORE, dispatch)
    except DeadlineError:
        return None
    if context.rejected or context.denied:
        return None
    copy = context.value
    return copy if isinstance(copy, AssistantMessage) else None
