"""Take credentials out of what tools return, of what is stored, and of what a model repeats.

    from toolbus import Agent
    from toolbus.redaction.redact_secrets import RedactSecrets

    agent = Agent(model, tools=[...], components=[RedactSecrets()])

or, in a `toolbus.toml`, which the proxy and `toolbus replay --with` take as well:

    [[component]]
    use = "redact-secrets"
    settings = { allow = ["sk_test_*"], vault = [{ tool = "deploy", arguments = ["token"] }] }

It needs the extra `redact`. A credential in a result (in any text, in `structured`, its keys too,
in embedded resources, their addresses and text blobs, in errors and in the facts of the call)
becomes a placeholder such as `[github-pat-1-x7k2m5]`: the same one for the same secret as long as
a session lasts, in all processes, and never one for two. For that the highest numbers, the random
suffix, and numbers beside digests with a key are kept for the session (`host.state`); the key is
in a file of the user alone (`toolbus.settings.user_key`). Once found, a secret is also found in
base64, hexadecimal, URL- and JSON-escaped, in every later result, and cut into adjoining parts. The
stored copy of every message is cleaned as well. What the tools run with stays as it is.

The `vault` is for a tool that needs a secret which the model has no business to see: where an
argument that an entry names (by a dotted path, if it lies deeper) holds a placeholder, the tool
gets the value. It is put in as the very last step: approver, guards, ledger, observers and stored
copies see the placeholder, and what the tool returns of it is taken out again. A text that a tool
brings in is no reason to give a value out: where it quotes a placeholder of the session, that loses
its suffix, `[github-pat-1-(quoted)]`. `toolbus replay` has marks where secrets stood.

A placeholder never destroys its secret. A call that holds a placeholder of its session where no
vault fills it is denied, whatever its tool does: a model that writes a file back as it has read it
would put the placeholder in place of the secret. The reason says which argument holds it, and to
edit the other lines instead. Where a host runs the tool (a coding agent's hooks) no vault fills.
Placeholders of other sessions, and text that only looks like one, pass. A task for a sub-agent
passes as well: the calls of that one are judged themselves.

The vault cannot promise that a value stays inside: a tool that is named may send it away, print it
in a way that is not found, or store it. A shell is a reader: `echo [github-pat-1-x7k2m5] | rev`
shows the model all of it, and so does whatever runs what it is given. So arguments called like a
command, script, code, shell, query, SQL, statement or expression are refused, and so are all of a
tool that runs commands, code or scripts, unless the entry says `i_know = true`.

How it finds: by the rules of Betterleaks and of OSV-SCALIBR, kept as data (`rules.json` in
`toolbus/redaction/secrets`, see `rules.NOTICE` there), and by ours (`builtin` there): formats that
those lack, and values that stand where a secret is said to: assigned to a name, in a pair or an
element, as a command's flag, in an address, SQL, a link, a cookie, a table under such a heading, or
a sentence in one of the languages that most people write. The last words of the name say whether
that is a password, a token, a key, or only about one (`token_url`, `secret_id`, `primary_key`); the
value must look random, or, beside a password's name, as people choose them. What is found so is
assumed: it is replaced where it stands and not searched for elsewhere, until the vault has given it
to a tool. Of more than 200 in one result the rest share a placeholder, which no tool gets a value
for.
`benchmarks/bench_redaction.py` measures what each finds on published examples, and what it costs.

What is not examined does not pass. A result that is too large, holds more than 200 different known
secrets or takes too long is withheld, with the reason; so is one when the engine fails.

Its limits:

- A secret of no known format that stands alone is not found, nor is a passphrase of words, nor are
  rows of a dump that names no columns; a password of letters alone, such as letmein, not even
  beside its name. Of published examples of vendors that no list of ours names, 28 % were missed.
- Pictures (but SVG), sounds, and blobs that are no text in UTF-8, UTF-16 or one byte a letter are
  not looked into, nor are archives and ciphers.
- Base64 is read where it is a text, one level deep; otherwise only secrets that were found once are
  found encoded. Who means to hide one from it can: reversed, spaced, in look-alike letters, in
  base64 of base64, in another code or compressed, it is not found.
- What is cut is found at a line's end only if it was found whole before, or the line ends in a
  backslash. Of what is cut into two results of one tool (pages of a file, notifications of a
  server) the first piece has gone; the second is taken out if the first is the very end of the
  tool's result before, and the whole has a known format or was found before.
- Short passwords and words are taken out where they are found, and not where they stand alone.
- Who sees a result before it is cleaned (`TOOL_CALL_ERROR`, `_AFTER`, a tap or a recorder that
  keeps values, `keep_originals=True`), and a tool's own logs and progress, see what the tool says.
  Without a vault a streamed answer, and a call until it is stored, are as the model says them.
- With a vault an answer is released piece by piece, streamed or not: up to a blank within a line
  that nothing goes on behind. So a line is held behind a name such as "token", a key up to its end,
  and a text without blanks altogether. What is found in one piece is not taken out of those before,
  but of the stored copy. Halves of a secret in what a model thinks and says, or in two answers, are
  as in two results: the first has gone. A rule of your own that goes across lines holds them.
- A result is examined where it is appended, in the event loop: of clean text at some 40 MB/s of a
  processor's time, of what is made to be slow for `max_seconds` at most.
- What is known lives in memory, ends with the process, and is shared by the components of a bus; a
  sub-agent needs none of its own. Of a session the latest 1,024 secrets are kept, and 1,024 that
  are only assumed; a call with a placeholder of what was forgotten is denied. Others know the names
  of 2,048 again.
- A quotation is seen as a whole word, also cut over parts, URL-escaped or in a file's base64, in
  what tools return and servers say; not in other encodings, in what a model puts together, in what
  a user writes, nor where a component is restricted to other tools. So a file that holds a
  placeholder is read with the mark. A sub-agent may name placeholders.
- A placeholder in a call is seen as it is, in escapes and in base64 of 24 letters and more; not in
  pieces, encoded twice or in hexadecimal. A sub-agent may put none into a task for its own
  sub-agents. A file that has a placeholder of before is mended by a person.
- A `priority` in a configuration is one for all its handlers: what others add to a copy after them
  is stored as it is.
- What a user writes is read by the model as it was written, unless `prompts` is set; the stored
  copy is clean either way.
"""

from __future__ import annotations

# A configuration reads the hints of the constructor while the program runs.
from collections.abc import Mapping, Sequence  # noqa: TC003
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.components.components import LATE, AgentComponent
from toolbus.components.marks import Mark, on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_BEFORE,
    Deny,
)
from toolbus.events.subjects import ToolSelector
from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.messages.text_walker import rewrite_message
from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.live_placeholders import live_placeholders
from toolbus.redaction.secrets.boundaries import boundaries_of
from toolbus.redaction.secrets.concealing import concealed
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.growing import AnswerContext, GrowingAnswers, rewrite_calls
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose
from toolbus.redaction.secrets.secret_registry import SessionRegistries
from toolbus.redaction.secrets.tool_adapters import (
    SecretsAdapter,
    VaultAdapter,
    session_of,
)
from toolbus.redaction.secrets.vault import Vault, vault_entries
from toolbus.redaction.withholding import withheld

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.subscribing import HandlerOptions
    from toolbus.components.components import Host
    from toolbus.components.state import State
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import Message, ToolCall
    from toolbus.messages.text_walker import TextVisitor

R = TypeVar("R")

_LATEST = 2 * LATE
"""After all that others, late ones included, add to a copy for the store."""

_NUMBERS = "redact-secrets"
"""The name of what is kept for a session."""


class RedactSecrets(AgentComponent):
    """Puts placeholders where credentials stand; see `toolbus.redaction.redact_secrets`.

    Args:
        tools: patterns of the tools whose results are looked through; of others only what is
            known is taken out.
        only: names of the rules to look by; all, if none is given.
        without: names of rules to leave out.
        rules: your own, by name: expressions in RE2's syntax, whose first group is the secret.
        allow: values, exact or as glob patterns, that are no secrets.
        vault: which tools get values in place of placeholders, and at which arguments: mappings
            or `VaultEntry`s with `tool`, a glob, `arguments`, the tool's own names for them or
            dotted paths, and `i_know`.
        prompts: take secrets out of what users and the system say as well, before the model
            reads it. With a vault, that of a sub-agent, whose user is an agent, always is.
        max_chars: of text in one result; a larger one is withheld.
        max_seconds: of the processor's time for a million characters of one result, or fewer; what
            takes longer is withheld.
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
        engine = engine_for(chosen)
        self._answers, self._boundaries = GrowingAnswers(), boundaries_of(chosen)
        self._redactor = Redactor(engine, allow=tuple(allow), chars=max_chars, seconds=max_seconds)
        self._results = SecretsAdapter(self._redactor, ToolSelector(tools), self.numbers)
        self.register_tool_adapter(self._results)
        if self._vault is not None:
            self.register_tool_adapter(VaultAdapter(self._redactor, self._vault, self.numbers))

    @on(
        MESSAGE_APPEND_BEFORE, roles=("system", "user", "tool"), priority=_LATEST, on_error="closed"
    )
    async def clean_message(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Take secrets out of what is no tool's response, as far as that is asked for."""
        message = ctx.value
        if isinstance(message, ToolMessage):
            if message.tool_response is not None and not message.metadata:
                return None
        elif not (self._prompts or (self._vault and ctx.scope.lineage)):
            return None
        return await self._cleaned(ctx)

    async def keep_secrets(self, ctx: EventContext[ToolCall]) -> Deny | None:
        """Deny a call that holds a placeholder of the session which no vault fills."""
        live = await live_placeholders(ctx, self.host, self.numbers)
        if live is None:
            return None
        registry = self._redactor.registry(session_of(ctx.scope))
        if held := live.find(self._unfilled(ctx, lambda _: "").arguments):
            return Deny(held.reason(ctx.value, "secret"))
        held = live.find(self._unfilled(ctx, registry.without_known).arguments)
        return Deny(held.reason_unknown(ctx.value)) if held else None

    def filled(self, call: ToolCall, scope: Scope, value: Callable[[str], str]) -> ToolCall:
        """Return *call* with *value* of each text that its vault fills in *scope*."""
        host, is_meant = self.host, self.enabled and self.selector.matches(call.name)
        if self._vault is None or host is None or not is_meant:
            return call
        hears = host.scope.agent_id in {"", scope.agent_id, *scope.lineage}
        return self._vault.filled(call, value) if hears else call

    def _unfilled(self, ctx: EventContext[ToolCall], value: Callable[[str], str]) -> ToolCall:
        """Return the call of *ctx* with *value* of each text that a vault fills."""
        call = ctx.value
        # Where a host runs the tool, nobody knows it here, and no vault is asked.
        for component in tuple(self._redactor.registries.vaults) if ctx.tool else ():
            if isinstance(component, RedactSecrets):
                call = component.filled(call, ctx.scope, value)
        return call

    async def clean_answer(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Take what the vault gave out of what the model says, also while it says it."""
        message, scope = ctx.value, ctx.scope
        if not isinstance(message, AssistantMessage):
            return await self._cleaned(ctx)
        speaker, key = self._speaker(scope), _key_of(scope)
        try:
            if ctx.window is not None:
                answer = self._answers.of(key, speaker)
                ctx.window.release(await answer.grow(ctx.window.kind, ctx.window.text))
                return None
            cleaned = await self._answers.pop(key, speaker).end(message)
            cleaned = await self._clean(scope, cleaned, rewrite_calls)
        except UnexaminedError as error:  # In mid-answer nothing more is released.
            return None if ctx.window is not None else Deny(withheld(error, "secrets"))
        if scope.lineage:
            self._note_answer(scope, cleaned)
        return None if cleaned is message else cleaned

    @on(MESSAGE_PERSIST_BEFORE, priority=_LATEST, on_error="closed")
    async def clean_stored_copy(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Take secrets out of the copy for the store, whoever speaks."""
        # What was cleaned a moment ago, and changed by nobody since, is not looked through twice.
        return await self._cleaned(ctx, partial(rewrite_message, leave=self._results.latest))

    async def concealed(self, record: R, scope: Scope) -> R | None:
        """Return *record* with marks in place of secrets; None if it could not be examined."""
        try:
            return await concealed(self._redactor, session_of(scope), record, self.numbers(scope))
        except UnexaminedError:
            return None

    def numbers(self, scope: Scope) -> State | None:
        """Return where the numbers of placeholders are kept, for all components of its kind."""
        return None if self.host is None else self.host.state(_NUMBERS, scope, shared=True)

    def _note_answer(self, scope: Scope, message: Message | Deny) -> None:
        """Note which placeholders a sub-agent's model said: its caller may read them."""
        if isinstance(message, AssistantMessage):
            registry = self._redactor.registries.of(session_of(scope))
            registry.note_answer((scope.parent_session_id, scope.parent_call_id), message.text)

    def subscribe(self, host: Host) -> None:
        """Subscribe the guard of placeholders, and with a vault the cleaning of answers."""
        # Whichever of them comes first finds a secret, and a vault has to know it.
        shared = self._redactor.registries = host.bus.shared(SessionRegistries)
        # Not marked: a component for some tools alone keeps the secrets from all others as well.
        self.add_handler(Mark(TOOL_CALL_BEFORE, "guard", {}), self.keep_secrets, restricted=False)
        if self._vault is not None:
            shared.vaults.add(self)
            # Not marked: without a vault no answer is looked at before it is stored.
            options: HandlerOptions = {
                "roles": "assistant",
                "priority": _LATEST,
                "on_error": "closed",
                "incremental": True,
            }
            self.add_handler(Mark(MESSAGE_APPEND_BEFORE, "on", options), self.clean_answer)

    def teardown(self) -> None:
        """Undo `setup`; the vault fills no arguments any more."""
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
        session = session_of(scope)
        if self._redactor.passes(session, record, walk, stream=stream):
            return record
        return await self._redactor.clean_agreed(
            session, record, walk, self.numbers(scope), stream=stream
        )

    def _speaker(self, scope: Scope) -> AnswerContext:
        """Return who says the answers in the session of *scope*."""
        registry = self._redactor.registries.of(session_of(scope))
        # No tool has such a name, whose results are streams as well.
        name = f"answers of {scope.session_id}"
        return AnswerContext(name, registry, self._boundaries, partial(self._clean, scope))


def _key_of(scope: Scope) -> tuple[str, str, int]:
    """Return what no two answers have that are said at the same time."""
    return scope.session_id, scope.run_id, scope.turn
