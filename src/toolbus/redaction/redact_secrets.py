"""The component that removes credentials from results of tools and from stored messages.

    from toolbus import Agent
    from toolbus.redaction.redact_secrets import RedactSecrets

    agent = Agent(model, tools=[...], components=[RedactSecrets()])

A credential becomes a placeholder such as `[github-pat-x7k2m5abcdefqrst]`, before the model reads
it. With a `vault` a named tool gets the value back. The component needs the extra `redact`. Its
manual is `toolbus guide redaction`; `toolbus guide redaction-limits` lists settings and limits.
"""

from __future__ import annotations

# A configuration reads the hints of the constructor while the program runs.
from collections.abc import Mapping, Sequence  # noqa: TC003
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.components.components import LATE
from toolbus.components.marks import Mark, on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_BEFORE,
    Deny,
)
from toolbus.events.subjects import ToolSelector
from toolbus.messages.record_walker import rewrite_message
from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.live_placeholders import (
    gives_a_task,
    held_placeholder,
    may_hold,
    may_hold_former,
)
from toolbus.redaction.placeholders import checked_key
from toolbus.redaction.records import rewrite_record, withheld
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose
from toolbus.redaction.secrets.secret_registry import SessionRegistries
from toolbus.redaction.secrets.streams import (
    RedactedAnswers,
    StreamContext,
    may_pass_line_ends,
    rewrite_calls,
)
from toolbus.redaction.secrets.tool_adapters import SecretsAdapter, VaultAdapter, session_of
from toolbus.redaction.secrets.vault import Vault, vault_entries
from toolbus.redaction.written_back import FileRedaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.subscriptions import HandlerOptions
    from toolbus.components.components import Host
    from toolbus.components.state import State
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import Message, ToolCall
    from toolbus.messages.text_walker import TextVisitor

R = TypeVar("R")

_LATEST = 2 * LATE
"""Behind every handler that adds to a copy for the store, late handlers included."""

_STATE = "redact-secrets"
"""The name of the session's state."""


class RedactSecrets(FileRedaction):
    """Replaces credentials by placeholders; see `toolbus guide redaction`.

    Args:
        tools: glob patterns of the tools whose results are scanned; results of other tools lose
            only secrets that are already known.
        only: names of the rules to apply; by default all rules.
        without: names of rules to leave out.
        rules: additional rules by name: expressions in RE2's syntax; the first group is the secret.
        allow: values, exact or as glob patterns, that are never secrets.
        vault: the tools that receive values in place of placeholders, and their arguments:
            mappings or `VaultEntry`s with `tool`, a glob, `arguments`, the tool's own names for
            them or dotted paths, and `i_know`.
        prompts: redact user and system messages as well, before the model reads them. With a
            vault, the prompt of a sub-agent, whose user is an agent, is always redacted.
        max_chars: characters of text in one result; a larger result is withheld.
        max_seconds: processor time for a million characters of one result, or fewer; a result
            that takes longer is withheld.
        key: at least 32 random bytes for placeholders, shared by all machines of a deployment;
            by default the user's key, see `toolbus.settings.user_key`.
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
        vault: Any = (),
        prompts: bool = False,
        max_chars: int = 8_000_000,
        max_seconds: float = 5.0,
        key: bytes | None = None,
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        entries = vault_entries(vault)
        self._vault = Vault(entries) if entries else None
        self._prompts = prompts
        for name, limit in (("max_chars", max_chars), ("max_seconds", max_seconds)):
            if limit <= 0:
                raise RegistrationError("RedactSecrets", f"{name} must be above 0, not {limit!r}")
        chosen = choose(only, without, rules or {})
        self._engine = engine = engine_for(chosen)
        self._answers = RedactedAnswers(held=any(map(may_pass_line_ends, chosen)))
        self._redactor = Redactor(engine, allow=tuple(allow), chars=max_chars, seconds=max_seconds)
        self.value_key = checked_key(key)
        self._results = SecretsAdapter(
            self._redactor, ToolSelector(tools), self.stored, self.written_back
        )
        self.register_tool_adapter(self._results)
        if self._vault is not None:
            self.register_tool_adapter(VaultAdapter(self._redactor, self._vault, self.stored))

    @property
    def value_key(self) -> bytes | None:
        """The key of placeholders; None for the user's key."""
        return self._redactor.key

    @value_key.setter
    def value_key(self, key: bytes | None) -> None:
        self._redactor.key = key

    @on(
        MESSAGE_APPEND_BEFORE, roles=("system", "user", "tool"), priority=_LATEST, on_error="closed"
    )
    async def clean_message(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Redact prompts and tool messages without a response, where the settings say so."""
        message = ctx.value
        if isinstance(message, ToolMessage):
            if message.tool_response is not None and not message.metadata:
                return None
        elif not (self._prompts or (self._vault and ctx.scope.lineage)):
            return None
        return await self._cleaned(ctx)

    async def keep_secrets(self, ctx: EventContext[ToolCall]) -> Deny | None:
        """Deny a call with a placeholder of the session that no vault fills."""
        call = ctx.value
        if not may_hold(call.arguments) or gives_a_task(ctx, self.host):
            return None
        state = self.stored(ctx.scope)
        registry = self._redactor.registry(session_of(ctx.scope), state)
        if may_hold_former(call.arguments):
            await self._redactor.read_former(registry, state)
        find = partial(held_placeholder, placeholders=registry.placeholders, former=registry.former)
        call = await self.filled_from_file(call, ctx.scope) or call
        if ctx.tool is None:
            # A host runs the tool: its spec is unknown here, and no vault fills its arguments.
            held = find(call.arguments)
            return Deny(held.reason(call, "secret")) if held else None
        if held := find(self._unfilled(call, ctx.scope, lambda _: "").arguments):
            return Deny(held.reason(call, "secret"))
        held = find(self._unfilled(call, ctx.scope, registry.without_known).arguments)
        return Deny(held.reason_unknown(call)) if held else None

    def holds(self, text: str, scope: Scope) -> bool:
        """Return whether *text* has placeholders of secrets of the session."""
        registry = self._redactor.registry(session_of(scope), self.stored(scope))
        return held_placeholder(text, registry.placeholders, registry.former) is not None

    async def clean_text(self, text: str, scope: Scope) -> str:
        """Return *text* without secrets. Raises `UnexaminedError` and `StoreError`."""
        return await self._clean(scope, text, rewrite_record)

    def restored(self, shown: str, scope: Scope) -> str:
        """Return *shown* with the values of all placeholders that are known."""
        return self._redactor.registry(session_of(scope), self.stored(scope)).restored(shown)

    def note_filled(self, call: ToolCall, scope: Scope) -> None:
        """Note that the values of *call*, read from a file, are secrets, also assumed ones."""
        registry = self._redactor.registry(session_of(scope), self.stored(scope))
        with self._redactor.registries.lock:
            registry.note_written(str(call.arguments))

    async def written_back(self, call: ToolCall, scope: Scope) -> ToolCall | Deny:
        """Return *call* with the secrets of its file; deny if the file changed meanwhile."""
        filled = await self.filled_from_file(call, scope)
        if filled is None:
            return call
        registry = self._redactor.registry(session_of(scope), self.stored(scope))
        rest = self._unfilled(filled, scope, lambda _: "").arguments
        if held := held_placeholder(rest, registry.placeholders, registry.former):
            return Deny(held.reason(call, "secret"))
        return filled

    def filled(self, call: ToolCall, scope: Scope, value: Callable[[str], str]) -> ToolCall:
        """Return *call* with *value* of each text that its vault fills in *scope*."""
        host, is_meant = self.host, self.enabled and self.selector.matches(call.name)
        if self._vault is None or host is None or not is_meant:
            return call
        hears = host.scope.agent_id in {"", scope.agent_id, *scope.lineage}
        return self._vault.filled(call, value) if hears else call

    def _unfilled(self, call: ToolCall, scope: Scope, value: Callable[[str], str]) -> ToolCall:
        """Return *call* with *value* of each text that a vault fills in *scope*."""
        for component in tuple(self._redactor.registries.vaults):
            if isinstance(component, RedactSecrets):
                call = component.filled(call, scope, value)
        return call

    async def clean_answer(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Redact values given by the vault in the model's answer, also while it streams."""
        message, scope = ctx.value, ctx.scope
        if not isinstance(message, AssistantMessage):
            return await self._cleaned(ctx)
        context, key = self._stream_context(scope), _key_of(scope)
        try:
            if ctx.window is not None:
                answer = self._answers.of(key, context)
                ctx.window.release(await answer.grow(ctx.window))
                return None
            cleaned = await self._answers.pop(key, context).end(message)
            cleaned = await self._clean(scope, cleaned, rewrite_calls)
        except UnexaminedError as error:  # The rest of a streamed answer is not released.
            return None if ctx.window is not None else Deny(withheld(error, "secrets"))
        if scope.lineage:
            self._note_answer(scope, cleaned)
        return None if cleaned is message else cleaned

    @on(MESSAGE_PERSIST_BEFORE, priority=_LATEST, on_error="closed")
    async def clean_stored_copy(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Redact the copy for the store, in messages of every role."""
        # A response that was cleaned a moment ago and did not change since is not scanned again.
        return await self._cleaned(ctx, partial(rewrite_message, leave=self._results.latest))

    async def for_display(self, record: R, scope: Scope) -> R | None:
        """Return *record* with marks in place of secrets; None if it could not be examined."""
        try:
            return await self._redactor.for_display(session_of(scope), record, self.stored(scope))
        except UnexaminedError:
            return None

    def stored(self, scope: Scope) -> State | None:
        """Return the placeholders' state of the session, shared by all components of this kind."""
        return None if self.host is None else self.host.state(_STATE, scope, shared=True)

    def _note_answer(self, scope: Scope, message: Message | Deny) -> None:
        """Note the placeholders in a sub-agent's answer: its caller may read them."""
        if isinstance(message, AssistantMessage):
            registry = self._redactor.registries.of(session_of(scope))
            registry.note_answer((scope.parent_session_id, scope.parent_call_id), message.text)

    def subscribe(self, host: Host) -> None:
        """Subscribe the guard of placeholders, and with a vault the redaction of answers."""
        # Any component of this kind may find a secret first, and a vault has to know it.
        shared = self._redactor.registries = host.bus.shared(SessionRegistries)
        super().subscribe(host)
        # Without a mark: a component restricted to some tools guards the calls of all others too.
        self.add_handler(Mark(TOOL_CALL_BEFORE, "guard", {}), self.keep_secrets, restricted=False)
        if self._vault is not None:
            shared.vaults.add(self)
            # Without a mark: no answer is scanned before it is stored unless there is a vault.
            options: HandlerOptions = {
                "roles": "assistant",
                "priority": _LATEST,
                "on_error": "closed",
                "incremental": True,
            }
            self.add_handler(Mark(MESSAGE_APPEND_BEFORE, "on", options), self.clean_answer)

    def teardown(self) -> None:
        """Undo `setup`; the vault stops filling arguments."""
        super().teardown()
        self._redactor.registries.vaults.discard(self)

    async def _cleaned(
        self,
        ctx: EventContext[Message],
        walk: Callable[[Message, TextVisitor], Message] = rewrite_message,
    ) -> Message | Deny | None:
        try:
            new = await self._clean(ctx.scope, ctx.value, walk)
        except UnexaminedError as error:
            return Deny(withheld(error, "secrets"))
        return None if new is ctx.value else new

    async def _clean(
        self,
        scope: Scope,
        record: R,
        walk: Callable[[R, TextVisitor], R],
        stream: str | None = None,
    ) -> R:
        """Return *record* without secrets. Raises `UnexaminedError`."""
        return await self._redactor.clean(
            session_of(scope), record, walk, partial(self.stored, scope), stream=stream
        )

    def _stream_context(self, scope: Scope) -> StreamContext:
        """Return the context of the answers in the session of *scope*."""
        return StreamContext(
            # Results of tools are streams under the tool's name, which never looks like this.
            f"answers of {scope.session_id}",
            self._redactor.registries.of(session_of(scope)),
            self._engine,
            partial(self._clean, scope),
            self._answers.held,
            self._answers.clock,
        )


def _key_of(scope: Scope) -> tuple[str, str, int]:
    """Return a key that tells answers apart which stream at the same time."""
    return scope.session_id, scope.run_id, scope.turn
