"""Take credentials out of what tools return, of what is stored, and of what a model repeats.

    from toolbus import Agent
    from toolbus.redaction.redact_secrets import RedactSecrets

    agent = Agent(model, tools=[...], components=[RedactSecrets(vault=True)])

or, in a `toolbus.toml`, which the proxy and `toolbus replay --with` take as well:

    [[component]]
    use = "redact-secrets"
    settings = { vault = true, allow = ["sk_test_*"] }

It needs the extra `redact`. A credential in a result (in any text, in `structured`, its keys too,
in embedded resources, their addresses and text blobs, in errors and in the facts of the call)
becomes a placeholder such as `[github-pat-1-x7k2m5]`: the same one for the same secret as long as
a session lasts in one process, and never one that any process gave in it for another: the highest
numbers and the random suffix, and nothing else, are kept for the session (`host.state`). Once
found, a secret is also found in base64, hexadecimal, URL- and JSON-escaped, in every later result
of the session, and cut into adjoining parts. The stored copy of every message, of every role, is
cleaned as well. What the tools run with stays as it is.

With `vault` the model can use what it never reads: where its arguments hold a placeholder, the tool
gets the value. The value is taken out of `parameters` and of all stored copies again, and out of
what the model itself repeats.

How it finds: by the rules of Betterleaks and of OSV-SCALIBR, kept as data (`rules.json` in
`toolbus/redaction/secrets`, see `rules.NOTICE` there), and by ours (`builtin` there):
formats that those lack, and values that look random and are assigned to a name such as `secret`,
`token` or `api_key`.
`benchmarks/bench_redaction.py` measures what each finds on published examples, and what it costs.

What is not examined does not pass. A result that is too large, holds too many secrets or takes too
long is withheld, with the reason; so is one when the engine fails.

Its limits:

- A secret of no known format that stands alone, such as a password in a sentence, is not found; a
  simple password, such as letmein123, not even beside its name. Of published examples of vendors
  that no list of ours names, 28 % were missed.
- Pictures (but SVG), sounds, and blobs that are no text in UTF-8 are not looked into, nor are
  archives and ciphers.
- Only secrets that were found once are found encoded. Base64 that is broken into lines, and values
  in other encodings, are not. What is cut into several messages is found only in a stream of an MCP
  server's notifications, and there its first piece has gone.
- Short passwords and words are taken out where they are found, and not where they stand alone.
- Handlers that look at a call itself (`TOOL_CALL_BEFORE`, `_ERROR`, `_AFTER`, a tap or a recorder
  that keeps values, `keep_originals=True`), an approver, and a tool's own logs and progress see
  what the tool sees; a reason in which a guard quotes that stands in the ledger. Pieces of a
  streamed answer are shown as the model says them.
- A result is examined where it is appended, in the event loop: of clean text at some 40 MB/s of a
  processor's time, of what is made to be slow for `max_seconds` at most.
- The vault lives in memory and ends with the process; of a session it keeps the latest 256 secrets,
  and what it forgot stays a placeholder. Whoever can make the model call a tool with a placeholder
  can send that tool the value: give `vault` the names of the tools that may get it.
- A `priority` in a configuration is one for all its handlers: what others add to a copy after them
  is stored as it is.
- What a user writes is read by the model as it was written, unless `prompts` is set; the stored
  copy is clean either way.
"""

from __future__ import annotations

# A configuration reads the hints of the constructor while the program runs.
from collections.abc import Mapping, Sequence  # noqa: TC003
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent
from toolbus.components.marks import on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    Deny,
)
from toolbus.events.subjects import ToolSelector
from toolbus.messages.records import AssistantMessage, TextPart, ToolMessage, ToolResponse
from toolbus.messages.text_walker import (
    rewrite_message,
    rewrite_response,
    updated,
)
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.limits import UnexaminedError
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.adapters import AdapterContext
    from toolbus.components.state import State
    from toolbus.events.catalogue import ModelRequest, Scope
    from toolbus.messages.records import Message, ToolCall
    from toolbus.messages.text_walker import TextVisitor

_EARLIEST, _LATEST = 1_000, -1_000
"""Before anybody refuses a message; after all that others add to a copy for the store."""

_NUMBERS = "redact-secrets"
"""The name of what is kept for a session."""

_STREAMS = ToolSelector("notifications/*")
"""Messages of an MCP server, as the proxy shows them, of which one may go on with another."""


class RedactSecrets(AgentComponent):
    """Puts placeholders where credentials stand; see `toolbus.redaction.redact_secrets`.

    Args:
        tools: patterns of the tools whose results are looked through; of others only what is
            known is taken out.
        only: names of the rules to look by; all, if none is given.
        without: names of rules to leave out.
        rules: your own, by name: expressions in RE2's syntax, whose first group is the secret.
        allow: values, exact or as glob patterns, that are no secrets.
        vault: whether tools get the values of the placeholders in their arguments; or patterns
            of the tools that do.
        prompts: take secrets out of what users and the system say as well, before the model
            reads it. With a vault, that of a sub-agent, whose user is an agent, always is.
        max_chars: of text in one result; a larger one is withheld.
        max_seconds: for one result; what takes longer is withheld.
        enabled: as for every component.
    """

    personal_settings = ("vault",)

    def __init__(
        self,
        *,
        tools: Sequence[str] | str = "*",
        only: Sequence[str] = (),
        without: Sequence[str] = (),
        rules: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        vault: bool | Sequence[str] | str = False,
        prompts: bool = False,
        max_chars: int = 8_000_000,
        max_seconds: float = 5.0,
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        self._vault = ToolSelector(("*" if vault else ()) if isinstance(vault, bool) else vault)
        self._prompts = prompts
        for name, limit in (("max_chars", max_chars), ("max_seconds", max_seconds)):
            if limit <= 0:
                raise RegistrationError("RedactSecrets", f"{name} must be above 0, not {limit!r}")
        engine = engine_for(choose(only, without, rules or {}))
        self._redactor = Redactor(engine, allow=tuple(allow), chars=max_chars, seconds=max_seconds)
        self._results = _Results(self._redactor, ToolSelector(tools), self.numbers)
        self.register_tool_adapter(self._results)
        if self._vault.patterns:
            self.register_tool_adapter(_Vault(self._redactor, self._vault.patterns))

    @on(MODEL_CALL_BEFORE)
    def note_placeholders(self, ctx: EventContext[ModelRequest]) -> None:
        """Learn which placeholders a resumed session has from a former process."""
        self._redactor.note(_session(ctx.scope), ctx.value.messages)

    @on(MESSAGE_APPEND_BEFORE, priority=_EARLIEST, on_error="closed")
    async def take_back(self, ctx: EventContext[Message]) -> Message | None:
        """Take what the vault gave out of the facts of a call: they outlive a refused result."""
        message = ctx.value
        if not (
            self._vault.patterns and isinstance(message, ToolMessage) and message.tool_response
        ):
            return None
        cleaned = await self._cleaned(ctx, _rewrite_parameters, look=False)
        if not isinstance(cleaned, Deny):
            return cleaned
        # Not a refusal: that tells the parameters, which nobody has looked through.
        return message.with_tool_response(replace(message.tool_response, parameters=None))

    @on(MESSAGE_APPEND_BEFORE, priority=_LATEST, on_error="closed")
    async def clean_message(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Take secrets out of what is no tool's response, as far as that is asked for."""
        message = ctx.value
        if isinstance(message, ToolMessage):
            if message.tool_response is not None and not message.metadata:
                return None
        elif isinstance(message, AssistantMessage):
            if not self._vault.patterns:
                return None
        elif not (self._prompts or (self._vault.patterns and ctx.scope.lineage)):
            return None
        return await self._cleaned(ctx)

    @on(MESSAGE_PERSIST_BEFORE, priority=_LATEST, on_error="closed")
    async def clean_stored_copy(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Take secrets out of the copy for the store, whoever speaks."""
        # What was cleaned a moment ago, and changed by nobody since, is not looked through twice.
        return await self._cleaned(ctx, partial(rewrite_message, leave=self._results.latest))

    def numbers(self, scope: Scope) -> State | None:
        """Return where the numbers of placeholders are kept, for all components of its kind."""
        return None if self.host is None else self.host.state(_NUMBERS, scope, shared=True)

    async def _cleaned(
        self,
        ctx: EventContext[Message],
        walk: Callable[[Message, TextVisitor], Message] = rewrite_message,
        *,
        look: bool = True,
    ) -> Message | Deny | None:
        try:
            new = await self._redactor.clean_agreed(
                _session(ctx.scope), ctx.value, walk, self.numbers(ctx.scope), look=look
            )
        except UnexaminedError as error:
            return Deny(_withheld(error))
        return None if new is ctx.value else new


class _Results(ToolAdapter):
    """Takes secrets out of what tools return."""

    name = "RedactSecrets"

    def __init__(
        self,
        redactor: Redactor,
        examined: ToolSelector,
        numbers: Callable[[Scope], State | None],
    ) -> None:
        self._redactor, self._examined, self._numbers = redactor, examined, numbers
        self.latest: ToolResponse | None = None

    async def adapt_response(
        self, response: ToolResponse, call: ToolCall, ctx: AdapterContext
    ) -> ToolResponse:
        """Return *response* without secrets, or what says why it is withheld."""
        look = self._examined.matches(call.name)
        stream = call.name if ctx.tool is None and _STREAMS.matches(call.name) else None
        session = _session(ctx.scope)
        try:
            state = self._numbers(ctx.scope)
            new = await self._redactor.clean_agreed(
                session, response, rewrite_response, state, look=look, stream=stream
            )
        except UnexaminedError as error:
            return _stand_in(response, _withheld(error))
        self.latest = new if look else None
        return new


class _Vault(ToolAdapter):
    """Gives tools the values of the placeholders in their arguments."""

    name = "RedactSecrets.vault"

    def __init__(self, redactor: Redactor, patterns: tuple[str, ...]) -> None:
        self._redactor, self.tools = redactor, patterns

    def adapt_parameters(self, call: ToolCall, ctx: AdapterContext) -> ToolCall:
        """Return *call* with the values."""
        return self._redactor.restore(_session(ctx.scope), call)


def _rewrite_parameters(message: Message, visitor: TextVisitor) -> Message:
    """Return *message* with nothing rewritten but the parameters that its tool ran with."""
    if not isinstance(message, ToolMessage) or message.tool_response is None:
        return message
    response = message.tool_response
    response = updated(response, parameters=visitor.json(response.parameters))
    return updated(message, tool_response=response)


def _session(scope: Scope) -> str:
    """Return whose secrets are meant: an agent's sub-agents share those of its session."""
    return scope.root_session_id or scope.session_id


def _stand_in(response: ToolResponse, reason: str) -> ToolResponse:
    """Return what stands for *response*: facts of the call, and nothing that anybody wrote."""
    return ToolResponse(
        content=(TextPart(text=reason),),
        is_error=True,
        error_type="withheld",
        tool_name=response.tool_name,
        tool_call_id=response.tool_call_id,
        duration_ns=response.duration_ns,
    )


def _withheld(error: UnexaminedError) -> str:
    return f"withheld, for it was not examined for secrets: {error.reason}"
