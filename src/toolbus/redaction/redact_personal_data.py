r"""Personal data: addresses and numbers of people are replaced in results and stored copies.

```python
from toolbus import Agent
from toolbus.redaction.redact_personal_data import RedactPersonalData

agent = Agent(model, tools=[crm], components=[RedactPersonalData(allow=["our-company.com"])])
```

```toml
[[component]]
use = "redact-personal-data"
settings = { kinds = ["email", "iban"], countries = ["DE", "AT"] }
```

Five kinds are found: `email`, `phone`, `card`, `iban` and `national-id`. Each value is replaced by
a placeholder, `[email-1]`: the same in a whole session, however the value is written, so the model
can still tell people apart. It needs the extra `personal`, whose libraries download
nothing: `phonenumbers` (Apache-2.0), `python-stdnum` (LGPL-2.1; used as it is, not copied) and
`publicsuffixlist` (MPL-2.0).

**Where.** In what tools return, before the model reads it: texts, texts of resources and their
addresses, SVG and files of text in base64, structured values with their keys and long numbers,
errors, metadata. In the stored copy of every message: these, arguments of calls, what people and
the model said. The model itself keeps what the user wrote, until a session is resumed: then it
reads the stored copy.

**How it is read.** As it stands; without a terminal's colours, letters of no width and soft
hyphens; with full-width letters and no-break spaces as the plain ones; with one level of escapes
undone, those of URLs (`%40`), HTML (`&#64;`, `&commat;`), JSON and programs (`\u0040`); and texts
that stand in it in base64, of 24 letters or more, which are base64 again.

**What cannot be examined is withheld**: a part without text (an image, a sound, a PDF) unless
*binary* is "keep", a result of more than *max_chars* letters, one that takes longer than
*max_seconds*, and whatever a failure stopped; of a message that cannot, no copy is stored.

**How it decides.** Strong shapes are taken wherever they stand, weak ones near a word for them.

- An e-mail address has a domain whose last label is a public suffix or one of private networks
  (`corp`, `lan`); of a domain that nobody knows it stands in `<>` or behind a word such as "mail".
- A card has a network's prefix and length, and passes Luhn's check. In bare digits it has 14 to 16
  of them (UnionPay 16 to 19); others need a word such as "card".
- An IBAN has its country's shape and check digits.
- A phone number in international form stands anywhere. In national form it is valid in one of the
  *countries* (without them: US, GB, DE, FR), and grouped as people write it: `(415) 555-2671`,
  `020 7946 0018`. Two groups (`030-901820`) need a word such as "phone", and bare digits need it
  right before them.
- A national id has a shape of its own and check digits; 41 countries are known
  (`toolbus.redaction.personal.identity_forms`). Shapes of issue and build numbers
  (`219-09-9999`, `880320-0016`, `123-456-782`), small letters and bare digits need a word for it,
  such as "SSN", "social security", "passport" or "personnummer".

A word is near in the same line (at most 120 letters before or 40 behind), in the name of the member
that the text is the value of, and in the first line of the text, where tables have their headings.
A country stands for the word if it is named: in *countries*, or as `region` in the context of a
run, `agent.run(..., context={"region": "JP"})`. Then its weak shapes are taken anywhere, and its
mobile numbers in bare digits as well: so are build numbers that look like them.

**Limits.** Names, postal addresses, dates of birth and what is only in a picture are not found:
that takes a model of a language, which this has none of. Nor is what is encoded twice, spelled
out ("jane at example"), or torn across two lines or parts. A number without check digits or context
may be anything, and is left: of code and logs full of numbers, fewer than one line in a hundred is
changed. In another process of the user a value has the same placeholder, if it is one of the latest
2,048: numbers beside digests with a key are kept for the session (`toolbus.settings.user_key`).
Pieces of a streamed answer are as the model says them. `toolbus replay` has marks where values
stood. A call whose arguments hold a placeholder of its session is denied, for its tool would lose
the value behind it; a task for a sub-agent is not. Sub-agents share the numbers of their session. A
structured value whose schema wants
a number or a pattern and gets a placeholder is refused by the schema. `TOOL_CALL_AFTER` and a
call's live arguments are not changed. Of lines full of numbers it reads about a megabyte a second,
of source code ten; other tasks of the event loop have their turns meanwhile.
`benchmarks/bench_personal.py` measures what is found and what is taken for it.
"""

from __future__ import annotations

from collections.abc import Iterable  # noqa: TC003 - a file's settings are of these types
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent
from toolbus.components.marks import Mark, on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_PERSIST_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    Deny,
)
from toolbus.events.subjects import ToolSelector
from toolbus.messages.records import (
    ToolMessage,
    ToolResponse,
    UserMessage,
    encode,
)
from toolbus.messages.text_walker import rewrite_message, rewrite_response
from toolbus.redaction.limits import ScanLimits, UnexaminedError
from toolbus.redaction.live_placeholders import live_placeholders
from toolbus.redaction.numbering import agree
from toolbus.redaction.personal.appraisal import MAX_CHARS, MAX_SECONDS, Appraisal
from toolbus.redaction.personal.record_examination import redact_record
from toolbus.redaction.personal.session_placeholders import Placeholders
from toolbus.redaction.personal.visitor import PersonalDataVisitor
from toolbus.redaction.record_walk import rewrite_record
from toolbus.redaction.withholding import stand_in, withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.adapters import AdapterContext
    from toolbus.components.components import Host
    from toolbus.components.state import State
    from toolbus.events.catalogue import RunStart, Scope
    from toolbus.messages.records import Message, ToolCall
    from toolbus.messages.text_walker import TextVisitor

Kind = Literal["email", "phone", "card", "iban", "national-id"]
KINDS: tuple[Kind, ...] = get_args(Kind)
T = TypeVar("T")

_NUMBERS = "redact-personal-data"
"""The name of what is kept for a session."""


class RedactPersonalData(AgentComponent):
    """Replaces personal data in results of tools and in stored messages.

    Args:
        kinds: what to look for; all if not given.
        countries: whose phone numbers, in national form, and whose national ids are looked for,
            as ISO 3166 has them (`DE`), without a word for them as well; if not given, the ids of
            all and the numbers of a few.
        allow: what is no secret: addresses, numbers as they are written, or own domains.
        tools: patterns of the names of tools whose results and arguments are examined.
        binary: "withhold" parts that hold no text, or "keep" them.
        max_chars: of text in one result; a larger one is withheld.
        max_seconds: of the processor's time for a million characters of one result, or fewer; what
            takes longer is withheld.
    """

    def __init__(
        self,
        *,
        kinds: Iterable[Kind] = KINDS,
        countries: Iterable[str] | None = None,
        allow: Iterable[str] = (),
        tools: Iterable[str] = ("*",),
        binary: Literal["withhold", "keep"] = "withhold",
        max_chars: int = MAX_CHARS,
        max_seconds: float = MAX_SECONDS,
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        # They need the extra, and the documentation does not.
        from toolbus.redaction.personal.detector import Detector  # noqa: PLC0415
        from toolbus.redaction.personal.identity_forms import COUNTRIES  # noqa: PLC0415
        from toolbus.redaction.personal.phones import supported_regions  # noqa: PLC0415

        wanted, chosen = tuple(kinds), None if countries is None else tuple(countries)
        _check("kinds", wanted, KINDS)
        known = {*COUNTRIES, *supported_regions()}
        _check("countries", chosen or (), known)
        _check("binary", (binary,), ("withhold", "keep"))
        for name, limit in (("max_chars", max_chars), ("max_seconds", max_seconds)):
            if limit <= 0:
                reason = f"{name} must be above 0, not {limit!r}"
                raise RegistrationError("RedactPersonalData", reason)
        self._limits = ScanLimits(max_chars, max_seconds)
        self._keep_binary = binary == "keep"
        allowed = tuple(allow)

        @cache
        def detector(region: str) -> Detector:
            return Detector(wanted, chosen, allowed, region)

        self._known, self._detector = known, detector
        detector("")
        self._placeholders = Placeholders()
        self._adapter = _Redaction(self, tools)
        self.register_tool_adapter(self._adapter)

    async def redacted(self, response: ToolResponse, scope: Scope) -> ToolResponse:
        """Return *response* without personal data, as the model of a session reads it.

        All processes of the session agree on the numbers. Raises `UnexaminedError`.
        """
        # What the tool ran with is for programs, until it is stored.
        walk = partial(rewrite_response, parameters=False)
        return await self._redact(response, walk, scope, keep_binary=self._keep_binary)

    async def concealed(self, record: T, scope: Scope) -> T | None:
        """Return *record* with marks in place of values; None if it could not be examined."""
        try:
            return await self._redact(
                record, rewrite_record, scope, keep_binary=True, shown=_marked
            )
        except UnexaminedError:
            return None

    def _numbers(self, scope: Scope) -> State | None:
        """Return where numbers are kept; all components of its kind share them."""
        return None if self.host is None else self.host.state(_NUMBERS, scope, shared=True)

    @on(RUN_BEFORE)
    def _on_run_before_number(self, ctx: EventContext[RunStart]) -> None:
        """Let numbers go on after the placeholders that a resumed session has."""
        messages, scope = ctx.value.messages, ctx.scope
        texts = (encode(message).decode() for message in messages)
        self._placeholders.resume(_session_of(scope), texts)

    async def keep_personal_data(self, ctx: EventContext[ToolCall]) -> Deny | None:
        """Deny a call that holds a placeholder of the session: its tool would lose the value."""
        live = await live_placeholders(ctx, self.host, self._numbers, KINDS)
        held = None if live is None else live.find(ctx.value.arguments)
        return Deny(held.reason(ctx.value, "personal data")) if held else None

    def subscribe(self, host: Host) -> None:  # noqa: ARG002 - its handlers are the component's
        """Subscribe the guard of placeholders."""
        # Not marked: a component for some tools alone keeps the data from all others as well.
        mark = Mark(TOOL_CALL_BEFORE, "guard", {})
        self.add_handler(mark, self.keep_personal_data, restricted=False)

    @on(MESSAGE_PERSIST_BEFORE, priority=50, on_error="closed")
    async def _on_message_persist_before_redact(
        self, ctx: EventContext[Message]
    ) -> Message | Deny | None:
        """Redact the copy for the store."""
        message = ctx.value
        if isinstance(message, ToolMessage) and not self._covers(message.tool_name):
            return None
        keep_binary = self._keep_binary or isinstance(message, UserMessage)
        try:
            changed = await self._redact(
                message, rewrite_message, ctx.scope, keep_binary=keep_binary
            )
        except UnexaminedError as error:
            return Deny(withheld(error, "personal data"))
        return None if changed is message else changed

    def _covers(self, tool_name: str) -> bool:
        return self.selector.matches(tool_name) and self._adapter.should_adapt(tool_name)

    async def _redact(
        self,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        scope: Scope,
        *,
        keep_binary: bool,
        shown: Callable[[str], str] = str,
    ) -> T:
        session = self._placeholders.session(_session_of(scope))
        detector = self._detector(self._region(scope))
        visitor = partial(PersonalDataVisitor, covers=self._covers, keep_binary=keep_binary)

        async def redact() -> T:
            appraisal = Appraisal(self._limits)

            def name(kind: str, value: str) -> str:
                return shown(session.of(kind, value))

            def replace(text: str, key: str) -> Generator[None, None, str]:
                return detector.replace(text, name, appraisal, key)

            return await redact_record(record, walk, visitor, replace, appraisal)

        return await agree(session, redact, self._numbers(scope))

    def _region(self, scope: Scope) -> str:
        """Return the country that the caller of the run named, or "" for none that is known."""
        region = scope.context.get("region")
        code = region.upper() if isinstance(region, str) else ""
        return code if code in self._known else ""


class _Redaction(ToolAdapter):
    """Redacts responses for a component."""

    name = "RedactPersonalData"

    def __init__(self, component: RedactPersonalData, tools: Iterable[str]) -> None:
        self._component = component
        self.tools = ToolSelector(tools).patterns

    async def adapt_response(
        self,
        response: ToolResponse,
        call: ToolCall,  # noqa: ARG002 - all tools' results alike
        ctx: AdapterContext,
    ) -> ToolResponse:
        try:
            return await self._component.redacted(response, ctx.scope)
        except UnexaminedError as error:
            return stand_in(response, withheld(error, "personal data"))


def _session_of(scope: Scope) -> str:
    """Return whose values are numbered: an agent's sub-agents share those of its session."""
    return scope.root_session_id or scope.session_id


def _marked(placeholder: str) -> str:
    """Return what a report has in place of a value: what came of it may hold placeholders."""
    return f"(personal {placeholder[1:-1]})"


def _check(name: str, values: Iterable[str], known: Iterable[str]) -> None:
    for value in values:
        if value not in known:
            reason = f"{name} has {value!r}; known: {', '.join(sorted(known))}"
            raise RegistrationError("RedactPersonalData", reason)
