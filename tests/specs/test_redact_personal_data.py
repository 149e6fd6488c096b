"""The scenarios of `specs/redact_personal_data.md`."""

import asyncio
import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode, encodebytes
from itertools import pairwise
from urllib.parse import quote

import phonenumbers
import pytest
from benchmarks.published import LOOK_ALIKES, PUBLISHED
from benchmarks.redaction.personal_noise import noise

from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Scope,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    on,
    tool,
)
from toolbus.components.participants import ComponentHost
from toolbus.config.targets import load_configuration
from toolbus.errors import ConfigurationError, RegistrationError
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_PERSIST_AFTER
from toolbus.formats.native import EndLine, HeaderLine, MessageLine, SessionLine, encode_line
from toolbus.messages import AudioPart, ImagePart, Resource, ResourcePart
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.placeholders import evened
from toolbus.redaction.redact_personal_data import RedactPersonalData
from toolbus.store.sqlite import SqliteStore
from toolbus.truncation.truncate_output import TruncateOutput

JANE = "jane.doe@example.com"
PLACEHOLDER = re.compile(r"\[[a-z-]+-[a-z][a-z2-7]{15}\]")
USE = "toolbus.redaction.redact_personal_data:RedactPersonalData"


async def shown(component, response, *, session="s"):
    """Return what is left of *response* past *component*."""
    if component.host is None:
        component.setup(ComponentHost(scope=Scope(agent_id="a")))
    if isinstance(response, str):
        response = ToolResponse.from_text(response)
    message = ToolMessage(id="m", tool_call_id="c", tool_name="t", tool_response=response)
    scope = Scope(agent_id="a", session_id=session)
    context = await component.host.bus.apply(MESSAGE_APPEND_BEFORE, message, scope=scope)
    assert not context.denied
    return context.value.tool_response


async def read(component, text, **options):
    return (await shown(component, text, **options)).text


def returning(value, name="get"):
    """Return a tool that returns *value*, or raises it."""

    @tool(name=name, description="Get it.", input_schema={"type": "object"})
    def get(**arguments):
        if isinstance(value, Exception):
            raise value
        return value

    return get


def agent_with(*components, tools=(), answers=(), **options):
    return Agent(ScriptedModel(answers), tools=tools, components=components, **options)


async def test_every_kind_is_found():
    text = (
        f"{JANE}, +49 30 901820, 4242 4242 4242 4242, DE89 3704 0044 0532 0130 00, SSN 123-45-6789"
    )
    async with agent_with(RedactPersonalData(), tools=[returning(text)]) as agent:
        await agent.call_tool("get")

    text = evened(agent.messages[-1].text)
    assert text == "[email-1], [phone-1], [card-1], [iban-1], SSN [national-id-1]"


async def test_published_examples_are_found():
    component = RedactPersonalData()

    left = {
        (kind, one): await read(component, f"It is {one}, and so on.")
        for kind, examples in PUBLISHED.items()
        for one in examples
    }

    missed = [key for key, text in left.items() if f"[{key[0]}-" not in text]
    assert missed == []


async def test_phone_numbers_of_every_country():
    component = RedactPersonalData()
    styles = (
        phonenumbers.PhoneNumberFormat.E164,
        phonenumbers.PhoneNumberFormat.INTERNATIONAL,
        phonenumbers.PhoneNumberFormat.RFC3966,
    )
    numbers = [
        phonenumbers.format_number(phonenumbers.example_number(region), style)
        for region in sorted(phonenumbers.SUPPORTED_REGIONS)
        for style in styles
    ]

    left = [await read(component, f"It is {one}, and so on.") for one in numbers]

    assert len(numbers) > 700
    missed = [one for one, text in zip(numbers, left, strict=True) if "[phone-" not in text]
    assert missed == []


async def test_look_alikes_stay():
    component = RedactPersonalData()
    responses = [ToolResponse.from_text(f"It is {one} here") for one in LOOK_ALIKES]
    responses.append(ToolResponse(structured={"at": 1700000000, "n": 12345678, "f": 1.5e9}))

    left = [await shown(component, one) for one in responses]

    changed = [new.text for old, new in zip(responses, left, strict=True) if new is not old]
    assert changed == []


async def test_bare_digits_need_a_word():
    component = RedactPersonalData()
    words = {
        "phone": "4155552671", "Tel.": "030901820", "mobile_number": "07400123456",
        "BSN": "111222333", "ssn": "219099998", "pesel": "44051401359", "cpf": "11144477735",
    }  # fmt: skip

    for word, number in words.items():
        bare = await read(component, f"It is {number}.")
        said = await read(component, f"The {word}: {number}.")
        structured = await shown(component, ToolResponse(structured={word: number, "n": number}))
        assert bare == f"It is {number}."
        assert number not in said
        assert number not in structured.structured[word]
        assert structured.structured["n"] == number


WEAK = {
    "ssn": "457-55-5462", "cpr": "211062-5629", "personnummer": "880320-0016",
    "phone": "030-901820", "card": "4222222222222", "social_security": "457 55 5462",
    "credit card": "122000000000003", "SSN": "457.55.5462", "tax file number": "123 456 782",
}  # fmt: skip


async def test_common_shapes_need_a_word_near_by():
    component = RedactPersonalData()

    for word, number in WEAK.items():
        alone = await read(component, f"closes {number}.")
        texts = [
            f"{word}: {number}",
            f"the {word} of Jane, who is 42, is {number}",
            f"id,name,{word}\n17,Jane,{number}\n",
            f"| name | {word} |\n|---|---|\n| Jane | {number} |",
            f"INSERT INTO t (name, {word}) VALUES ('Jane', '{number}');",
        ]
        left = [await read(component, text) for text in texts]
        structured = await shown(component, ToolResponse(structured={word: f"of Jane: {number}"}))
        assert alone == f"closes {number}."
        assert [text for text in left if number in text] == []
        assert number not in structured.structured[word]


NATIONAL = {
    "US": ("457-55-5462",),
    "JP": ("090-1234-5678", "09012345678"),
    "CN": ("13812345678", "138 1234 5678"),
    "IL": ("09-7625400", "050-234-5678"),
}


async def test_a_configured_country_replaces_the_word():
    unnamed = RedactPersonalData()

    for country, numbers in NATIONAL.items():
        component = RedactPersonalData(countries=[country])
        for number in numbers:
            text = f"It is {number}, and so on."
            assert number not in await read(component, text)
            if country != "IL":
                assert await read(unnamed, text) == text


async def test_a_run_names_its_region():
    component = RedactPersonalData()
    number = "It is 090-1234-5678."
    asks = AssistantMessage(id="1", tool_calls=(ToolCall(id="c1", name="get"),))
    again = AssistantMessage(id="2", tool_calls=(ToolCall(id="c2", name="get"),))
    tools, answers = [returning(number)], [asks, "done", again, "done"]
    async with agent_with(component, tools=tools, answers=answers) as agent:
        await agent.run("go")
        await agent.run("go", context={"region": "jp"})

    texts = [evened(one.text) for one in agent.messages if isinstance(one, ToolMessage)]
    assert texts == [number, "It is [phone-1]."]


async def test_lower_case_is_found_behind_a_word():
    component = RedactPersonalData()

    for text in ("NIE: x2482300w", "nif 54362315k", "NINO jg103759a"):
        assert "[national-id-" in await read(component, text)


async def test_unusual_addresses_are_found():
    component = RedactPersonalData()
    texts = {
        "jane@localhost.corp",
        '"j d"@corp.com',
        '{\\"to\\": \\"j\\"}, \\"j d\\"@corp.com',
        "Jane <jane@mail.zonez>",
        "e-mail: jane@mail.nowhereland",
        "写信给jane@corp.com请",
        "_jane@corp.com_",
    }

    left = {text: await read(component, text) for text in texts}

    assert [text for text, new in left.items() if "[email-" not in new or "corp" in new] == []


async def test_fictional_numbers_are_found():
    component = RedactPersonalData()

    for number in ("+1 555-111-2222", "+1-555-111-2222", "555.111.2222", "(555) 111-2222"):
        assert "555" not in await read(component, f"Call {number} now")


async def test_code_and_logs_stay_unchanged():
    component, lines = RedactPersonalData(), noise(2_000)

    changed = [line for _, line in lines if await read(component, line) != line]

    assert len(changed) <= len(lines) / 50, changed


async def test_a_value_has_one_placeholder():
    component = RedactPersonalData()
    spellings = {
        "email": ["Jane.Doe@Example.com", "jane.doe@example.com"],
        "phone": ["+1 415-555-2671", "(415) 555-2671", "+14155552671", "phone 4155552671"],
        "card": ["4242 4242 4242 4242", "4242-4242-4242-4242", "4242424242424242"],
        "iban": ["DE89 3704 0044 0532 0130 00", "de89370400440532013000"],
    }

    for kind, variants in spellings.items():
        names = PLACEHOLDER.findall(
            "".join([await read(component, f"<{one}>") for one in variants])
        )
        assert len(names) == len(variants)
        assert [name.startswith(f"[{kind}-") for name in {*names}] == [True]
    jane, phone = (
        await read(component, "jane.doe@example.com"),
        await read(component, "+14155552671"),
    )
    other = await read(component, f"john@example.com, {JANE}, +49 30 901820, {jane} {phone}")

    assert evened(other) == "[email-1], [email-2], [phone-1], [email-2] [phone-2]"


async def test_each_session_has_its_own_placeholders():
    component = RedactPersonalData()

    one = await read(component, "a@example.com and b@example.com", session="one")
    two = await read(component, "b@example.com", session="two")
    again = await read(component, "b@example.com", session="one")

    assert evened(f"{one} {two} {again}") == "[email-1] and [email-2] [email-3] [email-2]"


async def test_a_resumed_session_keeps_its_names(tmp_path):
    john, number = "john@example.com", "+49 30 901820"
    texts = []
    for result in (f"{JANE} {number}", f"{john} {JANE} {number}"):
        async with SqliteStore(tmp_path / "s.db") as store:
            options = {"tools": [returning(result)], "store": store, "session_id": "s"}
            async with agent_with(RedactPersonalData(), **options) as agent:
                texts.append((await agent.call_tool("get")).response.text)

    assert evened(" ".join(texts)) == "[email-1] [phone-1] [email-2] [email-1] [phone-1]"


PHONES = "+49 30 901820", "+1 415-555-2671"


async def test_two_processes_never_share_a_placeholder(tmp_path):
    path, read = tmp_path / "s.db", []

    async def redact(agent, number):
        scope = Scope(agent_id=agent.scope.agent_id, session_id="s")
        response = ToolResponse.from_text(f"jane{number}@example.com {PHONES[number % 2]}")
        facts = {"tool_call_id": "c", "tool_name": "get", "tool_response": response}
        message = ToolMessage(id=f"m{number}", **facts)
        read.append((await agent.bus.apply(MESSAGE_APPEND_BEFORE, message, scope=scope)).value.text)

    async with SqliteStore(path) as one, SqliteStore(path) as other:
        options = [{"store": store, "session_id": "s"} for store in (one, other)]
        async with (
            agent_with(RedactPersonalData(), **options[0]) as first,
            agent_with(RedactPersonalData(), **options[1]) as second,
        ):
            await asyncio.gather(*[redact((first, second)[at % 2], at) for at in range(20)])
        kept = await one.read_state("s", "redact-personal-data")

    emails, phones = zip(*map(str.split, read), strict=True)
    assert len(set(emails)) == 20
    assert len(set(phones)) == 2
    assert {name: len(value) for name, value in json.loads(kept).items()} == {"salt": 32}


async def test_results_are_redacted_everywhere():
    resource = Resource(uri=f"mailto:{JANE}", text=f"of {JANE}")
    response = ToolResponse(
        content=(TextPart(text=JANE), ResourcePart(resource=resource)),
        structured={JANE: [{"mail": JANE}, 4242424242424242], JANE.upper(): 1},
        is_error=True,
        error_type=f"no {JANE}",
        metadata={"by": JANE},
    )

    left = await shown(RedactPersonalData(), response)

    assert "jane" not in str(left).lower()
    assert "4242" not in str(left)
    jane, (_, card) = left.content[0].text, next(iter(left.structured.values()))
    assert left.structured == {jane: ({"mail": jane}, card), f"{jane} (2)": 1}
    assert evened(f"{jane} {card}") == "[email-1] [card-1]"
    assert left.content[1].resource.uri == f"mailto:{jane}"


PLAIN = (
    "4242 4242 4242 4242", "4242424242424242", "DE89 3704 0044 0532 0130 00", JANE,
    "+49 30 901820", "(415) 555-2671", "756.9217.0769.85", "111.444.777-35", "X2482300W",
)  # fmt: skip


def every(form):
    """Return what writes each letter as *form* has it."""
    return lambda text: "".join([form.format(ord(letter)) for letter in text])


DISGUISES = {
    "coloured": lambda text: f"\x1b[1;32m{text}\x1b[0m",
    "coloured inside": lambda text: f"{text[:6]}\x1b[01;31m\x1b[K{text[6:9]}\x1b[m\x1b[K{text[9:]}",
    "colours written out": lambda text: f"\\x1b[32m{text}\\x1b[0m and \\u001b[1m",
    "zero width": lambda text: f"{text[:6]}\u200b{text[6:]}",
    "soft hyphens": "\u00ad".join,
    "full width": lambda text: "".join(
        [chr(ord(one) + 0xFEE0) if one > " " else one for one in text]
    ),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "URL": lambda text: quote(text, safe=""),
    "URL, every letter": every("%{:02x}"),
    "HTML": lambda text: (
        text.replace("@", "&commat;").replace(" ", "&nbsp;").replace("+", "&plus;")
    ),
    "HTML, decimal": every("&#{};"),
    "HTML, hexadecimal": every("&#x{:X};"),
    "JSON": every("\\u{:04x}"),
    "JSON in JSON": every("\\\\u{:04X}"),
    "octets": every("\\x{:02x}"),
    "line breaks": lambda text: f"a\\n{text}\\nb\\t{text}\\t",
    "tags": lambda text: f"\\u003cb\\u003e{text}\\u003c/b\\u003e",
    "quotes": lambda text: f"%22{text}%22 &quot;{text}&quot;",
    "coloured URL": lambda text: f"\x1b[1m{quote(text)}\x1b[0m",
    "among other letters": lambda text: f"{'é😀' * 900} \x1b[1m{text}\x1b[0m é",
}


async def test_colours_and_escapes_hide_nothing():
    component = RedactPersonalData()

    for name, disguise in DISGUISES.items():
        for text in PLAIN:
            hidden = f"it is {disguise(text)} ."
            left = await read(component, hidden)
            assert disguise(text) not in left, (name, text)
            assert PLACEHOLDER.search(left), (name, text)


async def test_text_around_an_escape_stays():
    component = RedactPersonalData()
    texts = {
        f"\x1b[32m{JANE}\x1b[0m": "\x1b[32m[email-1]\x1b[0m",
        f'{{\\"to\\": \\"{JANE}\\"}}': '{\\"to\\": \\"[email-1]\\"}',
        f"to:\\n{JANE}\\n": "to:\\n[email-1]\\n",
        f"\\u003c{JANE}\\u003e": "\\u003c[email-1]\\u003e",
        f"?a=1%20{quote(JANE)}%20b": "?a=1%20[email-1]%20b",
    }

    left = {text: evened(await read(component, text)) for text in texts}

    assert left == texts


async def test_texts_in_base64_are_scanned():
    component = RedactPersonalData()
    text = f"From: Jane Doe <{JANE}>\nTo: all of us\n" * 3
    line = b64encode(text.encode()).decode()
    wrapped = encodebytes(text.encode()).decode()

    inline = await read(component, f'{{"data": "{line}"}}')
    mail = await read(component, f"Encoding: base64\n\n{wrapped}\nend\n")

    redacted = text.replace(JANE, "[email-1]")
    inner = b64decode(json.loads(inline)["data"]).decode()
    assert evened(inner) == redacted
    assert mail == f"Encoding: base64\n\n{encodebytes(inner.encode()).decode()}\nend\n"


async def test_failed_results_are_redacted():
    failing = returning(ValueError(f"no such user: {JANE}"))
    async with agent_with(RedactPersonalData(), tools=[failing]) as agent:
        await agent.call_tool("get")

    assert evened(agent.messages[-1].text) == "no such user: [email-1]"
    assert agent.messages[-1].tool_response.is_error


class Watch(AgentComponent):
    """Notes what is told of stored results."""

    def __init__(self):
        self.seen = []

    @on(TOOL_CALL_PERSIST_AFTER)
    def note(self, ctx):
        self.seen.append(str(ctx.value))


async def test_stored_copies_are_redacted(tmp_path):
    got, watch = [], Watch()

    @tool
    def send(to: str) -> str:
        """Send."""
        got.append(to)
        return f"sent to {to}"

    call = ToolCall(id="c", name="send", arguments={"to": JANE})
    asks = AssistantMessage(id="1", content=f"I write to {JANE}", tool_calls=(call,))
    model = ScriptedModel([asks, f"Done: {JANE}"])
    async with SqliteStore(tmp_path / "s.db") as store:
        components = [RedactPersonalData(), watch]
        async with Agent(model, tools=[send], components=components, store=store) as agent:
            await agent.run(f"Write to {JANE}")

    rows = b"".join([path.read_bytes() for path in tmp_path.glob("s.db*")])
    assert got == [JANE]
    assert JANE in model.requests[0].messages[-1].text
    (name,) = PLACEHOLDER.findall(model.requests[1].messages[-1].text)
    assert name.encode() in rows
    assert b"jane.doe" not in rows
    assert len(watch.seen) == 1
    assert JANE not in watch.seen[0]


async def test_text_files_are_scanned():
    text = f"name,mail\nZoé,{JANE}\n"

    for codec in ("utf-8", "latin-1", "utf-16"):
        blob = b64encode(text.encode(codec)).decode()
        resource = Resource(uri="file:///a.csv", mime_type="text/csv", blob=blob)
        response = ToolResponse(content=(ResourcePart(resource=resource),))
        left = (await shown(RedactPersonalData(), response)).content[0].resource.blob

        assert PLACEHOLDER.search(b64decode(left).decode(codec))
        assert JANE not in b64decode(left).decode(codec)


async def test_pictures_in_text_form_are_scanned():
    def encoded(text):
        return b64encode(text.encode()).decode()

    resource = Resource(uri="a.json", mime_type="application/json", blob=encoded(f'["{JANE}"]'))
    picture = ImagePart(data=encoded(f"<svg>{JANE}</svg>"), mime_type="image/svg+xml")
    response = ToolResponse(content=(picture, ResourcePart(resource=resource)))

    for binary in ("withhold", "keep"):
        left = (await shown(RedactPersonalData(binary=binary), response)).content

        assert evened(b64decode(left[0].data).decode()) == "<svg>[email-1]</svg>"
        assert evened(b64decode(left[1].resource.blob).decode()) == '["[email-1]"]'


async def test_pictures_are_withheld():
    pdf = Resource(uri="file:///a.pdf", mime_type="application/pdf", blob="AAAA")
    blob = b64encode(bytes(range(256))).decode()
    broken = Resource(uri="file:///a.txt", mime_type="text/plain", blob=blob)
    parts = (
        ImagePart(data="AAAA", mime_type="image/png"),
        AudioPart(data="AAAA", mime_type="audio/wav"),
        ResourcePart(resource=pdf),
        ResourcePart(resource=broken),
    )

    withheld = await shown(RedactPersonalData(), ToolResponse(content=parts))
    kept = await shown(RedactPersonalData(binary="keep"), ToolResponse(content=parts))

    assert all("withheld" in one.text for one in withheld.content)
    assert kept.content[:3] == parts[:3]
    assert "withheld" in kept.content[3].text


async def test_too_much_is_withheld():
    large = await shown(RedactPersonalData(max_chars=1_000), JANE + "x" * 1_000)
    slow = await shown(RedactPersonalData(max_seconds=1e-9), f"of {JANE}")

    assert "too large: more than 1,000 characters" in large.text
    assert "takes longer than 1e-09 seconds" in slow.text
    for left in (large, slow):
        assert left.is_error
        assert left.error_type == "withheld"
        assert "jane" not in str(left)
        assert len(str(left)) < 1000


async def test_too_much_is_not_stored(tmp_path):
    async with (
        SqliteStore(tmp_path / "s.db") as store,
        agent_with(RedactPersonalData(max_chars=1_000), answers=["done"], store=store) as agent,
    ):
        await agent.run(f"Write to {JANE}" + "x" * 1_000)

    rows = b"".join([path.read_bytes() for path in tmp_path.glob("s.db*")])
    assert b"jane.doe" not in rows
    assert b"done" in rows


async def test_other_tasks_run_meanwhile():
    turns, text = 0, "".join([f"call +49 30 9{number:05}\n" for number in range(2_000)])

    async def beat():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    heart = asyncio.create_task(beat())
    left = await read(RedactPersonalData(), text)
    heart.cancel()

    assert turns > 5
    assert "+49" not in left


async def test_a_failure_withholds(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError(JANE)

    monkeypatch.setattr("toolbus.redaction.personal.emails._is_known", fail)
    async with (
        SqliteStore(tmp_path / "s.db") as store,
        agent_with(
            RedactPersonalData(), tools=[returning(f"of {JANE}")], answers=["done"], store=store
        ) as agent,
    ):
        await agent.call_tool("get")
        result = agent.messages[-1]
        await agent.run(f"Write to {JANE}")

    rows = b"".join([path.read_bytes() for path in tmp_path.glob("s.db*")])
    assert result.tool_response.error_type == "withheld"
    assert JANE not in str(result)
    assert b"jane.doe" not in rows


async def test_only_configured_kinds_are_found():
    left = await read(RedactPersonalData(kinds=["card"]), f"4242424242424242 of {JANE}")

    assert evened(left) == f"[card-1] of {JANE}"


async def test_only_configured_countries_are_found():
    text = "86 095 742 719, 2 55 08 14 168 025 38, (030) 901820, 01 42 68 53 00"

    german = await read(RedactPersonalData(countries=["DE"]), text)
    french = await read(RedactPersonalData(countries=["FR"]), text)
    both = await read(RedactPersonalData(), text)

    assert evened(german) == "[national-id-1], 2 55 08 14 168 025 38, [phone-1], 01 42 68 53 00"
    assert evened(french) == "86 095 742 719, [national-id-1], (030) 901820, [phone-1]"
    assert evened(both) == "[national-id-1], [national-id-2], [phone-1], [phone-2]"


async def test_allowed_addresses_stay():
    component = RedactPersonalData(allow=["@Our.example", JANE, "+49 30 901820"])
    text = f"a@our.example b@mail.OUR.example {JANE} +49 30 901820 c@notour.example"

    left = await read(component, text)

    assert evened(left) == text.replace("c@notour.example", "[email-1]")


async def test_only_configured_tools_are_scanned(tmp_path):
    (tmp_path / "toolbus.toml").write_text(f'[[component]]\nuse = "{USE}"\ntools = "one"\n')
    configured = load_configuration(str(tmp_path / "toolbus.toml")).components[0]
    configured.teardown()

    for number, component in enumerate([RedactPersonalData(tools="one"), configured]):
        file = tmp_path / f"{number}.db"
        tools = [returning(JANE, "one"), returning(JANE, "two")]
        async with (
            SqliteStore(file) as store,
            agent_with(component, tools=tools, store=store) as agent,
        ):
            await agent.call_tool("one", {"to": "first@example.com"})
            first = agent.messages[-1].text
            await agent.call_tool("two", {"to": "second@example.com"})
            second = agent.messages[-1].text
        rows = b"".join([path.read_bytes() for path in tmp_path.glob(f"{number}.db*")])
        assert (evened(first), second) == ("[email-1]", JANE)
        assert b"first@example.com" not in rows
        assert b"second@example.com" in rows


def test_wrong_settings_are_refused(tmp_path):
    for settings, known in (
        ({"kinds": ["mail"]}, "email, iban"),
        ({"countries": ["Germany"]}, "DE, "),
        ({"binary": "maybe"}, "keep, withhold"),
        ({"max_chars": 0}, "max_chars must be"),
        ({"max_seconds": -1}, "max_seconds must be"),
    ):
        with pytest.raises(RegistrationError, match=known):
            RedactPersonalData(**settings)

    file = tmp_path / "toolbus.toml"
    for setting in ("kinds = ['mail']", "countries = ['Germany']", "binary = 3", "kind = ['card']"):
        file.write_text(f'[[component]]\nuse = "{USE}"\nsettings = {{ {setting} }}\n')
        with pytest.raises(ConfigurationError, match=r"kinds?|countries|binary"):
            load_configuration(str(file))


SERVER = f"""\
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "tools/list":
        result = {{"tools": [{{"name": "get", "inputSchema": {{"type": "object"}}}}]}}
    else:
        text = {{"type": "text", "text": "of {JANE}"}}
        result = {{"content": [text], "_meta": {{"to": "{JANE}"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": m["id"], "result": result}}), flush=True)
"""


def test_a_client_of_the_proxy_reads_placeholders(tmp_path, environment):
    here = tmp_path / "here"
    (here / "server.py").write_text(SERVER)
    (here / "toolbus.toml").write_text(f'[[component]]\nuse = "{USE}"\n')
    proxy = [sys.executable, "-m", "toolbus", "proxy", "--config", "toolbus.toml", "--"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get"}}

    process = subprocess.Popen(
        [*proxy, sys.executable, "server.py"],
        cwd=here, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        process.stdin.write(json.dumps(call) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        process.stdin.close()

    result = json.loads(answer)["result"]
    (part,) = result["content"]
    assert (part["type"], evened(part["text"])) == ("text", "of [email-1]")
    assert JANE not in answer


def test_a_rehearsal_shows_the_replacements(command, tmp_path):
    call = AssistantMessage(id="a", tool_calls=(ToolCall(id="c", name="get"),))
    response = ToolResponse.from_text(f"of {JANE}")
    result = ToolMessage(id="t", tool_call_id="c", tool_name="get", tool_response=response)
    lines = [HeaderLine(), SessionLine(id="s")]
    lines += [MessageLine(message=one) for one in (call, result)]
    lines += [EndLine(messages=2, records=0)]
    (tmp_path / "here" / "log.jsonl").write_bytes(b"".join([encode_line(one) for one in lines]))
    (tmp_path / "here" / "toolbus.toml").write_text(f'[[component]]\nuse = "{USE}"\n')

    for options in (("--json",), ()):
        run = command("replay", "log.jsonl", "--with", "toolbus.toml", *options)

        assert run.returncode == 0, run.stderr
        assert "RedactPersonalData" in run.stdout
        assert PLACEHOLDER.search(run.stdout)
        assert "(personal email)" in run.stdout
        assert JANE not in run.stdout + run.stderr


async def test_stored_outputs_hold_no_personal_data(tmp_path):
    lines = [f"line {n}\n" for n in range(3000)]
    lines[1500] = f"line of {JANE}\n"
    size = TruncateOutput(characters=1000, folder=tmp_path / "kept")
    components = [size, RedactPersonalData()]
    async with agent_with(*components, tools=[returning("".join(lines))]) as agent:
        await agent.call_tool("get")

    (kept,) = (tmp_path / "kept").rglob("output-*")
    assert "line of [email-1]\n" in evened(kept.read_text())
    assert JANE not in kept.read_text()


async def test_redaction_is_idempotent():
    component = RedactPersonalData()
    texts = [" ".join(pair) for group in PUBLISHED.values() for pair in pairwise(group)]

    for text in texts:
        response = ToolResponse(content=(TextPart(text=text),), structured={text: [text]})
        first = await shown(component, response)
        assert await shown(component, first) is first
