"""The tool adapters of `RedactSecrets`: for results and specs, and for arguments from the vault."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toolbus.components.adapters import ToolAdapter
from toolbus.events.catalogue import Deny
from toolbus.messages.record_walker import rewrite_response
from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.live_placeholders import held_placeholder
from toolbus.redaction.records import stand_in, withheld

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.components.adapters import AdapterContext
    from toolbus.components.state import State
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.events.subjects import ToolSelector
    from toolbus.messages.records import ToolCall, ToolResponse
    from toolbus.redaction.secrets.redactor import Redactor
    from toolbus.redaction.secrets.secret_registry import SecretRegistry
    from toolbus.redaction.secrets.vault import Vault


class SecretsAdapter(ToolAdapter):
    """Redacts results of tools; *write_back* fills lines that are written back into a file."""

    name = "RedactSecrets"

    def __init__(
        self,
        redactor: Redactor,
        examined: ToolSelector,
        stored: Callable[[Scope], State | None],
        write_back: Callable[[ToolCall, Scope], Awaitable[ToolCall | Deny]],
    ) -> None:
        self._redactor, self._examined, self._stored = redactor, examined, stored
        self._write_back = write_back
        self.latest: ToolResponse | None = None

    async def adapt_signature(self, spec: ToolSpec, ctx: AdapterContext) -> ToolSpec | None:
        """Return *spec* without placeholders: a server that received one might quote it there."""
        if not self._redactor.registries.vaults:
            return None
        session, state = session_of(ctx.scope), self._stored(ctx.scope)
        return await self._redactor.unquoted_spec(session, spec, state)

    async def fill_parameters(self, call: ToolCall, ctx: AdapterContext) -> ToolCall | Deny:
        """Return *call* with the secrets of its file, or a denial with the reason."""
        return await self._write_back(call, ctx.scope)

    async def adapt_response(
        self, response: ToolResponse, call: ToolCall, ctx: AdapterContext
    ) -> ToolResponse:
        """Return *response* without secrets, or a replacement with the reason to withhold it."""
        session, look = session_of(ctx.scope), self._examined.matches(call.name)
        if self._redactor.registries.vaults:
            caller, state = (ctx.scope.session_id, call.id), self._stored(ctx.scope)
            response = await self._redactor.unquoted(
                session, response, state, ctx.message_id, caller
            )
        try:
            new = await self._redactor.clean(
                session,
                response,
                rewrite_response,
                partial(self._stored, ctx.scope),
                look=look,
                stream=call.name,
            )
        except UnexaminedError as error:
            return stand_in(response, withheld(error, "secrets"))
        self.latest = new if look else None
        return new


class VaultAdapter(ToolAdapter):
    """Fills placeholders in arguments of tools where *vault* allows it."""

    name = "RedactSecrets.vault"

    def __init__(
        self, redactor: Redactor, vault: Vault, stored: Callable[[Scope], State | None]
    ) -> None:
        self._redactor, self._vault, self._stored = redactor, vault, stored
        self.tools = vault.tools

    async def fill_parameters(self, call: ToolCall, ctx: AdapterContext) -> ToolCall | Deny:
        """Return *call* with the values, or a denial with the reason."""
        session, state = session_of(ctx.scope), self._stored(ctx.scope)
        filled = await self._redactor.filled(session, call, self._vault, state)
        objection = None if filled is call else self._vault.objection(call, ctx.tool)
        objection = objection or self._unfilled(filled, self._redactor.registry(session, state))
        return filled if objection is None else Deny(objection)

    def _unfilled(self, call: ToolCall, registry: SecretRegistry) -> str | None:
        """Return the reason to deny the filled *call*, if a value was dropped meanwhile."""
        named: list[str] = []

        def note(text: str) -> str:
            named.append(text)
            return text

        self._vault.filled(call, note)
        held = held_placeholder(named, registry.placeholders, registry.former)
        return held.reason_unknown(call) if held else None


def session_of(scope: Scope) -> str:
    """Return the session whose secrets apply: sub-agents share those of their agent's session."""
    return scope.root_session_id or scope.session_id
