"""The scenarios of `specs/redact_secrets.md`. Every credential here is made while the tests run."""

import asyncio
import hashlib
import json
import logging
import re
import shutil
import sqlite3
import subprocess
import sys
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections import Counter
from functools import partial
from textwrap import dedent
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from tests.plugins.three_stores import StorePlace

from toolbus import (
    Agent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.components import State
from toolbus.components.participants import ComponentHost
from toolbus.config import load
from toolbus.errors import ConfigurationError, ModelError, RegistrationError
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
)
from toolbus.events.values import ModelDelta
from toolbus.formats.native import EndLine, HeaderLine, MessageLine, SessionLine, encode_line
from toolbus.messages import ImagePart, Resource, ResourcePart, decode, encode
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.placeholders import evened
from toolbus.redaction.redact_personal_data import RedactPersonalData
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.redaction.secrets import assigned, plausibility
from toolbus.redaction.secrets.secret_registry import MAX_SECRETS, MAX_SESSIONS
from toolbus.settings import user_key
from toolbus.settings.user_folders import value_key_file
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.tools.calls import ToolRunner


def letters(number, count):
    """Return letters and digits that look random, the same for the same *number*."""
    digest = b"".join([hashlib.sha512(b"%d %d" % (number, at)).digest() for at in range(4)])
    return "".join([one for one in b64encode(digest).decode() if one.isalnum()])[:count]


def pat(number=0):
    return "ghp_" + letters(number, 36)


def webhook(number=0):
    return "T0AB12CD3/B0EF45GH6/" + letters(number, 24)


PLACEHOLDER = re.compile(r"\[[a-z-]+-[a-z][a-z2-7]{15}\]")
USE = [{"tool": "use", "arguments": ["key", "header", "keys"]}]
VAULT = '[{ tool = "use", arguments = ["key"] }]'
HOOKS = "https://hooks.slack.com/services/"
PASSWORD = "correct-horse-" + letters(7, 12)


def calling(*calls, last="done"):
    """Return a model that makes *calls*, one an answer: a name and arguments.

    Where its script says `[github-pat-1]`, it quotes the first placeholder of that kind.
    """
    answers = [
        AssistantMessage(
            id=f"m-{at}", tool_calls=(ToolCall(id=f"c-{at}", name=name, arguments=arguments),)
        )
        for at, (name, arguments) in enumerate(calls)
    ]
    last = AssistantMessage(id="last", content=last, stop_reason="stop")
    return ScriptedModel([partial(quoting, answer) for answer in (*answers, last)])


def quoting(answer, request):
    """Return *answer* with the placeholders that *request* shows, each with its letters."""
    read = dict.fromkeys(PLACEHOLDER.findall(encode(request.messages).decode()))
    shown = dict(zip(evened(" ".join(read)).split(), read, strict=True))
    text = re.sub(
        r"\[[a-z-]+-\d+\]", lambda name: shown.get(name[0], name[0]), encode(answer).decode()
    )
    return decode(text)


def giving(*results):
    """Return a tool `give` that returns the next of *results* at each call."""
    left = iter(results)

    def give() -> object:
        """Give something."""
        result = next(left)
        if isinstance(result, Exception):
            raise result
        return result

    return give


async def given_by(component, *results, **options):
    """Return what the model reads of each of the *results* of a tool."""
    async with Agent(ScriptedModel([]), tools=[giving(*results)], components=[component]) as agent:
        outcomes = [await agent.call_tool("give") for _ in results]
    return [outcome.response for outcome in outcomes]


def passed(component, *messages, session="s", event=MESSAGE_APPEND_BEFORE):
    """Return what is left of *messages* when they have passed *component*."""

    async def run():
        agent = Agent(ScriptedModel([]), components=[component])
        scope = Scope(agent_id=agent.scope.agent_id, session_id=session)
        left = [(await agent.bus.apply(event, one, scope=scope)).value for one in messages]
        component.teardown()
        return left

    return asyncio.run(run())


def answering(response, tool="read", own="m"):
    if isinstance(response, str):
        response = ToolResponse.from_text(response)
    return ToolMessage(id=own, tool_call_id="c", tool_name=tool, tool_response=response)


async def test_a_result_s_text_is_redacted():
    text = f"export TOKEN={pat()}\ncurl {HOOKS}{webhook()}\n# {pat()}"

    (response,) = await given_by(RedactSecrets(), text)

    clean = "export TOKEN=[github-pat-1]\ncurl [slack-webhook-url-1]\n# [github-pat-1]"
    assert evened(response.text) in {clean, clean.replace("[slack", f"{HOOKS}[slack")}


async def test_structured_values_and_keys_are_redacted():
    secrets = {"a": pat(1), pat(2): {"deep": [1, [{"url": HOOKS + webhook()}]]}}
    told = {"database_password": PASSWORD, "size": 3, "none": None}

    (response,) = await given_by(RedactSecrets(), {**secrets, **told})

    left = encode(response.structured).decode()
    assert not any(one in left for one in (pat(1), pat(2), webhook(), PASSWORD))
    even = json.loads(evened(left))
    assert even["a"] == "[github-pat-1]"
    assert even["[github-pat-2]"]["deep"][0] == 1
    assert even["database_password"].startswith("[assigned-secret-")
    assert (even["size"], even["none"]) == (3, None)


async def test_resources_and_errors_are_redacted():
    blob = b64encode(f"key: {pat(3)}\nname: ü".encode()).decode()
    resource = Resource(uri=f"file:///{pat(1)}.txt", text=f"see {pat(2)}", blob=blob)
    given = ToolResponse(
        content=(ResourcePart(resource=resource),),
        metadata={"seen": [pat(4)]},
        is_error=True,
        error_type=pat(5),
    )

    (response,) = await given_by(RedactSecrets(), given)

    left = encode(response).decode()
    assert not any(pat(number) in left for number in range(1, 6))
    (part,) = response.content
    assert part.resource.uri.startswith("file:///[github-pat-")
    assert b64decode(part.resource.blob).decode().endswith("]\nname: ü")


async def test_pictures_in_text_form_are_redacted():
    picture = b64encode(f"<svg><text>{pat(1)}</text></svg>".encode()).decode()
    blob = b64encode(pat(2).encode()).decode()
    resource = Resource(uri="file:///a", mime_type="application/octet-stream", blob=blob)
    parts = ImagePart(data=picture, mime_type="image/svg+xml"), ResourcePart(resource=resource)

    (response,) = await given_by(RedactSecrets(), ToolResponse(content=parts))

    left, file = response.content
    assert evened(b64decode(left.data).decode()) == "<svg><text>[github-pat-1]</text></svg>"
    assert evened(b64decode(file.resource.blob).decode()) == "[github-pat-1]"


async def test_a_tool_s_exception_is_redacted(caplog):
    caplog.set_level(logging.DEBUG)

    (response,) = await given_by(RedactSecrets(), ValueError(f"bad token {pat()} for user"))

    assert response.is_error
    assert evened(response.text) == "bad token [github-pat-1] for user"
    assert pat() not in caplog.text


def test_a_clean_result_stays_the_same():
    clean = answering(ToolResponse(structured={"a": ["b", {"c": 1.5}]}, content=(), metadata={}))

    (after,) = passed(RedactSecrets(vault=USE), clean)

    assert after is clean


async def test_look_alikes_stay():
    digest = hashlib.sha256(b"x").hexdigest()
    text = "\n".join(
        [
            "id = 919108f7-52d1-4320-9bac-f847db4148a8",
            f"commit {digest[:40]}",
            f"FooProject == 1.2 --hash=sha256:{digest}",
            f'"integrity": "sha512-{b64encode(hashlib.sha512(b"x").digest()).decode()}"',
            "password = ${POSTGRES_PASSWORD} token: <YOUR-TOKEN> key=xxxxxxxxxxxxxxxxxxxx",
            "aws_access_key_id = " + "AKIA" + "IOSFODNN7" + "EXAMPLE",
        ]
    )

    (response,) = await given_by(RedactSecrets(), text)

    assert response.text == text


BESIDE = ("my key is {}, keep it", "it is {}. Next", "({})", "<t>{}</t>", "_{}_", "钥{}是", "…{}…")
ESCAPED = ("line\\n{}\\nline", "\\u003e{}\\u003c", "%22{}%22", "=3D{}=")


@pytest.mark.parametrize("beside", [*BESIDE, *ESCAPED])
async def test_punctuation_and_tags_hide_nothing(beside):
    key = "sk-ant-api03-" + letters(11, 93) + "AA"

    (response,) = await given_by(RedactSecrets(), beside.format(key))

    before, after = beside.split("{}")
    assert response.text.startswith(f"{before}[anthropic-api-key-")
    assert response.text.endswith(f"]{after}")


UNSEEN = ("\x1b[31m", "\x1b[1;31m\x1b[K", "\\u001b[0m", "\\x1b[32m", "\u200b", "\u00ad", "\\\n")


@pytest.mark.parametrize("unseen", UNSEEN)
async def test_colours_and_invisible_characters_hide_nothing(unseen):
    secret = unseen.join([pat()[:9], pat()[9:20], pat()[20:]])
    text = f"é the key: {unseen}{secret}{unseen} is here"

    (response,) = await given_by(RedactSecrets(), text)

    before, after = text.split(secret)
    assert response.text.startswith(f"{before}[github-pat-")
    assert response.text.endswith(f"]{after}")


ENVIRONMENT = f"# written by ünknown\nGITHUB_TOKEN={pat()}\nDATABASE=postgres at the usual place\n"
IN_BASE64 = b64encode(ENVIRONMENT.encode()).decode()


def in_lines(data, width=76, line_break="\n"):
    return line_break.join([data[at : at + width] for at in range(0, len(data), width)])


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        ("content: ", IN_BASE64, " end"),
        ("?state=", urlsafe_b64encode(ENVIRONMENT.encode()).decode().rstrip("="), "&x=1"),
        ("$ base64 .env\n", in_lines(IN_BASE64), "\n$ "),
        ('{"file": "', in_lines(IN_BASE64, 60, "\\n"), '\\n"}'),
        ("data:text/plain;base64,", IN_BASE64, ")"),
    ],
)
async def test_base64_of_a_text_is_redacted(before, written, after):
    (response,) = await given_by(RedactSecrets(), before + written + after)

    left = response.text.removeprefix(before).removesuffix(after).replace("\\n", "\n")
    letters = left.replace("\n", "").replace("-", "+").replace("_", "/")
    plain = b64decode(letters + "=" * (-len(letters) % 4)).decode()
    widths = {len(line) for line in written.replace("\\n", "\n").split("\n")[:-1]}
    start, end = ENVIRONMENT.split(pat())
    assert plain.startswith(f"{start}[github-pat-")
    assert plain.endswith(end)
    assert {len(line) for line in left.split("\n")[:-1]} == widths


@pytest.mark.parametrize("codec", ["utf-16", "latin-1"])
async def test_blobs_of_other_codecs_are_redacted(codec):
    blob = b64encode(ENVIRONMENT.encode(codec)).decode()
    resource = Resource(uri="file:///.env", blob=blob)

    (response,) = await given_by(
        RedactSecrets(), ToolResponse(content=(ResourcePart(resource=resource),))
    )

    plain = b64decode(response.content[0].resource.blob).decode(codec)
    start, end = ENVIRONMENT.split(pat())
    assert plain.startswith(f"{start}[github-pat-")
    assert plain.endswith(end)


PASSPHRASE = "Falcon" + letters(5, 9) + "47!"
ASSIGNED = [
    'password: str = "{}"',
    "export DB_PASSWORD={}",
    "'password' => '{}',",
    'password = os.getenv("DB_PASSWORD", "{}")',
    "db:\n  password: {}\n",
    r'{{"SecretString": "{{\"password\": \"{}\"}}"}}',
]
PAIRED = [
    '{{"name": "DB_PASSWORD", "value": "{}"}}',
    "- name: DB_PASSWORD\n  value: {}\n",
    "<property><name>db.password</name><value>{}</value></property>",
    '<add key="SmtpPassword" value="{}" />',
    "<password>{}</password>",
]
STATED = [
    "mysql -u root -p{} shop",
    "sshpass -p {} ssh root@10.0.0.1",
    "docker login -u ci -p {} registry.example.com",
    "postgresql+asyncpg://app:{}@db/shop",
    "Server=db;Uid=sa;Pwd={};",
    "ALTER USER app IDENTIFIED BY '{}';",
]
LINKED = [
    "https://b.s3.amazonaws.com/a?X-Amz-Expires=60&X-Amz-Signature={}",
    "https://x.example.com/reset?token={}",
    "X-Auth-Token: {}",
    "Set-Cookie: session={}; Path=/",
]
TABLES = [
    " id | login | password\n----+-------+---\n  1 | admin | {}\n(1 row)",
    "| login | password |\n|---|---|\n| admin | {} |\n",
    "login,password,size\nadmin,{},3\n",
]
SAID = [
    "The new password for the database is {}, please change it.",
    "Passwort: {}",
    "Contraseña: {}",
    "Mot de passe : {}",
    "пароль — {}",
    "密码：{}",
    "パスワードは {} です",
    "비밀번호: {}",
    "كلمة المرور: {}",
    "पासवर्ड: {}",
]


async def without(secret, shapes):
    """Return *shapes* around a secret as the model reads them, each in a session of its own."""
    texts = [shape.format(secret) for shape in shapes]
    reads = [(await given_by(RedactSecrets(), text))[0].text for text in texts]
    return [PLACEHOLDER.sub("{}", text) for text in reads]


async def test_assignments_of_all_languages_are_read():
    read = await without(PASSPHRASE, ASSIGNED)

    assert read == [shape.replace("{{", "{").replace("}}", "}") for shape in ASSIGNED]


async def test_pairs_and_elements_are_read():
    structure = {"env": [{"name": "HOST", "value": "db"}, {"name": "DB_PASS", "value": PASSPHRASE}]}

    read = await without(PASSPHRASE, PAIRED)
    (response,) = await given_by(RedactSecrets(), structure)

    assert read == [shape.replace("{{", "{").replace("}}", "}") for shape in PAIRED]
    assert response.structured["env"][0] == structure["env"][0]
    assert response.structured["env"][1]["value"].startswith("[assigned-secret-")


async def test_commands_and_statements_are_read():
    assert await without(PASSPHRASE, STATED) == STATED


async def test_links_headers_and_cookies_are_read():
    assert await without(letters(6, 40), LINKED) == LINKED


async def test_columns_under_a_heading_are_read():
    assert await without(PASSPHRASE, TABLES) == TABLES


async def test_sentences_of_many_languages_are_read():
    assert await without(PASSPHRASE, SAID) == SAID


async def unchanged(*results):
    """Assert that the model reads each of the *results* as it is."""
    responses = await given_by(RedactSecrets(), *results)
    assert [response.text for response in responses] == [*results]


async def test_paths_stay():
    paths = [f"services/api{number}/handlers_v{number}.py" for number in range(300)]
    hits = [{"file_path": path, "line": 12, "patch": f"+ {path}:7"} for path in paths]
    text = "\n".join(
        [f"- file_path: {path}\n  path: charts/app-1.2.3/{path}\n  --path {path}" for path in paths]
    )

    await unchanged(json.dumps(hits), text)
    (response,) = await given_by(RedactSecrets(), {"hits": hits})
    assert json.loads(encode(response.structured)) == {"hits": hits}


ABOUT_SECRETS = """
    kms_key_id: arn:aws:kms:eu-central-1:123456789012:key/919108f7-52d1-4320-9bac-f847db4148a8
    SecretId=arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-1a2B3c
    secret_id: projects/12/secrets/db-password/versions/3
    access_key_arn = arn:aws:iam::123456789012:user/x9y8z7
    secretName: app-tls-7d9f8b6c5d-x2x4q
    token_url: https://login.example.com/oauth2/v2.0/token
    token_type=urn:ietf:params:oauth:token-type:id_token2
    password_changed_at=2026-01-31T12:00:00.123456Z
    password_hash_version: v2.10.3-rc.1+build.20260131
    primary_key=customer_4f3c2b1a9d8e7f60  object_key: 2024/01/31/1a2b3c4d5e6f7a8b.json
    cache_key="user:4f3c2b1a9d8e7f60a1b2c3d4"  routing_key: orders.v2.created.eu1
    idempotency_key: 919108f7-52d1-4320-9bac-f847db4148a8
    tokenizer: gpt2-medium-355m-fp16  max_tokens=4096  total_tokens: 123456789012
    checksum/session-key: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    GPG_KEY=A035C8C19219BA821ECEA86B64E628F8D684696D
    image_path=registry.corp/app:1.2.3-rc.4
    patient: 4f3c2b1a9d8e7f60  compat: v8.1.2  pattern: [a-z0-9]{8}
"""


async def test_texts_about_secrets_stay():
    await unchanged(ABOUT_SECRETS)


HANDED_BACK = f"""
    {{"id": "resp_{letters(1, 50)}", "batch": "batch_{letters(2, 32)}", "name": "run"}}
    {{"id": "cs_test_{letters(3, 58)}", "projectId": "prj_{letters(4, 32)}"}}
    cd build_{letters(5, 40)}/out && tar x -f layer_{letters(6, 64)}.tar
    <script src="/assets/chunk_{letters(7, 32)}.js">; DROP INDEX idx_{letters(8, 32)};
    https://api.example.com/files?page_size=50&page_token={letters(9, 48)}
    https://graph.example.com/v1.0/me/drive/root/delta?token={letters(10, 90)}
    https://graph.example.com/v1.0/users?$skiptoken={letters(11, 90)}
    {{"taskToken": "{letters(12, 90)}", "progressToken": "{letters(13, 24)}"}}
    {{"confirmation_token": "{letters(14, 32)}", "resourceKey": "0-{letters(15, 22)}"}}
    {{"file_key": "{letters(16, 22)}", "dedup_key": "{letters(17, 32)}"}}
    Lock-Token: <opaquelocktoken:{letters(18, 32)}>
"""


async def test_ids_for_the_next_call_stay():
    await unchanged(HANDED_BACK)


PROGRAM = """
    timeout := s.AcceptanceTimeoutSeconds
    password = getpass.getpass(); token = secrets.token_urlsafe(nbytes=32)
    f.pass = &emptyPass2; char *password, *protocol2, *host;
    const token = this.options.oauth2TokenProvider2.accessToken1
    password: str = Field(min_length=8); secret: Optional[SecretStr256] = None
    password = os.environ["DB_PASSWORD_1"]; apiKey: process.env.API_KEY_V2,
    names = ["USERPWD", "HTTP200ALIASES", "KEYPASSWD", "KRB4LEVEL", "X509_HASH_DIR_CTX"]
    token: ${{ secrets.GITHUB_TOKEN_2 }}  password: {{ .Values.db.password2 }}
    password: !vault_prod2  api_key: <your-api-key-123>  secret: "changeme-123456"
    curl -u "$USER:$PASSWORD" https://example.com; mysql --password="$DB_PASS_1"
    aws_session_token=self._bedrock_state.aws_session_token,
    method: "scram-sha-256", algorithm: "pbkdf2-sha512"
"""


async def test_words_of_programs_stay():
    await unchanged(PROGRAM)


NO_TABLES = (
    "foo(x, pwd)\nfoo(y, items[0])",
    "self.assertEqual(entry.sp_pwdp, pwd)\nself.assertEqual(entry.sp_max, entry[5])",
    "INSERT INTO users (name, password)\nVALUES (name, items[0])",
    "return user, password\nyield x, hunter2024",
    "All 14 pass: checkout2024 works",
    "Second pass: optimise42",
    "host pass: *whole*",
    "Your boarding pass: K7XQ2M-2024",
    "pw: 800x600",
    "wrong password: Error1045",
    "a;z.Processor=z.SubWalks9x=z.MatchRecord7q=void 0;b",
)


async def test_code_is_not_a_table_or_a_sentence():
    await unchanged(*NO_TABLES)


CHOSEN = ("Summer2019!", "hunter22", "admin123", "super$ecret", "purple-dragon-47", "Pa55w0rd.x")


async def test_passwords_chosen_by_people_are_redacted():
    names = "DB_PASSWORD", "mysqlPass", "requirepass", "SMTP_PWD", "old_password"
    uuid = "919108f7-52d1-4320-9bac-" + letters(3, 40).encode().hex()[:12]
    text = "\n".join(
        [f"{name} = {value}" for name in names for value in CHOSEN]
        + [f"client_secret: {uuid}", f"_authToken={uuid}"]
    )

    (response,) = await given_by(RedactSecrets(), text)

    assert not [value for value in (*CHOSEN, uuid) if value in response.text]


async def test_an_assumed_value_is_hidden_throughout_its_record():
    value = letters(4, 24)
    text = f"login {value} failed\nDB_PASSWORD={value}\n{value} {value.encode().hex()}"
    structure = {"password": value, "log": [f"login {value} failed"]}
    weak = "DB_PASSWORD=hunter2024\nhunter2024\npassword: src/app.py\nsrc/app.py"

    first, second, third = await given_by(RedactSecrets(), text, structure, weak)

    hidden = "[assigned-secret-1]"
    assert evened(first.text) == f"login {hidden} failed\nDB_PASSWORD={hidden}\n{hidden} {hidden}"
    assert value not in encode(second.structured).decode()
    assert evened(third.text) == weak.replace("=hunter2024", f"={hidden}")


async def test_an_assumed_secret_is_not_remembered():
    value = letters(4, 24)

    first, second = await given_by(RedactSecrets(), f"session_secret={value}", f"at {value}.")

    assert evened(first.text) == "session_secret=[assigned-secret-1]"
    assert second.text == f"at {value}."


async def test_many_assumed_secrets_share_a_placeholder():
    values = [letters(number, 24) for number in range(300)]
    text = "\n".join([f"token: {value}" for value in values])

    (response,) = await given_by(RedactSecrets(), text)

    assert not response.is_error
    assert not [value for value in values if value in response.text]
    counts = Counter(response.text.split("\n"))
    assert sorted(counts.values()) == [1] * 200 + [100]


@pytest.mark.full
async def test_a_repeated_token_is_one_secret():
    text = f"login with {pat()} failed\n" * 70_000

    (response,) = await given_by(RedactSecrets(max_seconds=600), text)

    assert evened(response.text) == "login with [github-pat-1] failed\n" * 70_000


async def test_the_same_secret_has_the_same_placeholder():
    results = f"{pat(1)} {pat(2)}", f"again {pat(2)}"

    first, second = await given_by(RedactSecrets(), *results)

    assert evened(first.text) == "[github-pat-1] [github-pat-2]"
    assert second.text == f"again {first.text.split()[1]}"


async def test_a_placeholder_never_collides():
    results = "a log says [github-pat-1]", f"and here is {pat()}"

    first, second = await given_by(RedactSecrets(), *results)

    assert first.text == "a log says [github-pat-1]"
    assert re.fullmatch(r"and here is \[github-pat-[a-z][a-z2-7]{15}\]", second.text)


async def test_a_resumed_session_keeps_its_names():
    store = MemoryStore()
    first = Agent(
        calling(("give", {})),
        tools=[giving(pat(1))],
        components=[RedactSecrets()],
        store=store,
        session_id="s",
    )
    await first.run("begin")
    await first.aclose()

    second = Agent(
        calling(("give", {})),
        tools=[giving(f"{pat(2)} {pat(1)}")],
        components=[RedactSecrets()],
        store=store,
        session_id="s",
    )
    await second.run("go on")

    said = " ".join([one.text for one in second.messages if isinstance(one, ToolMessage)])
    assert evened(said) == "[github-pat-1] [github-pat-2] [github-pat-1]"


async def test_a_resumed_session_recognizes_a_secret(place):
    first = await read_in_a_process(place, f"{pat(1)} {pat(2)}")
    second = await read_in_a_process(place, pat(2))
    third = await read_in_a_process(place, f"{pat(3)} {pat(1)}")

    assert evened(f"{first} {second} {third}") == " ".join(
        [f"[github-pat-{number}]" for number in (1, 2, 2, 3, 1)]
    )
    assert len({*f"{first} {second} {third}".split()}) == 3


async def read_in_a_process(place, *results, **options):
    """Return what the model reads of *results* in session `s`, in a process of its own."""
    options = {"components": [RedactSecrets()], "store": place.open(), "session_id": "s"} | options
    async with Agent(ScriptedModel([]), tools=[giving(*results)], **options) as agent:
        texts = [(await agent.call_tool("give")).response.text for _ in results]
    return " ".join(texts)


async def test_a_vault_gives_a_value_that_returns(place):
    got = []

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    placeholder = await read_in_a_process(place, pat())
    options = {"components": [RedactSecrets(vault=USE)], "store": place.open(), "session_id": "s"}
    async with Agent(ScriptedModel([]), tools=[use, giving(pat())], **options) as agent:
        outcomes = [
            await agent.call_tool(name, {"key": placeholder} if name == "use" else {})
            for name in ("use", "give", "use")
        ]

    assert [outcome.status for outcome in outcomes] == ["denied", "ok", "ok"]
    assert "repeat the call that returned it" in outcomes[0].response.text
    assert got == [pat()]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_two_processes_never_share_a_placeholder(tmp_path, kind):
    given, got = {}, []

    def read(number: int) -> str:
        """Read."""
        return pat(number)

    def use(number: int, key: str) -> str:
        """Use a key."""
        got.append((number, key))
        return "fine"

    async def clean(agent, number):
        scope = Scope(agent_id=agent.scope.agent_id, session_id="s")
        runner = ToolRunner(agent.bus, agent.tools, scope)
        found = (await runner.call("read", {"number": number})).response.text
        given[found] = number
        await runner.call("use", {"number": number, "key": found})

    path = tmp_path / "store.db"
    stores = [MemoryStore()] * 2 if kind == "memory" else [SqliteStore(path), SqliteStore(path)]
    options = {"tools": [read, use], "session_id": "s"}
    agents = [
        Agent(ScriptedModel([]), components=[RedactSecrets(vault=USE)], store=store, **options)
        for store in stores
    ]
    await asyncio.gather(*[clean(agents[number % 2], number) for number in range(20)])
    for agent, store in zip(agents, stores, strict=True):
        await agent.aclose()
        await store.close()

    assert len(given) == 20
    assert sorted(got) == [(number, pat(number)) for number in range(20)]


PINS = {"pin": r"PIN (\d{4})"}


async def test_no_secret_is_stored(tmp_path):
    async with SqliteStore(tmp_path / "store.db") as store:
        results, component = (pat(1), pat(2), "PIN 7391"), RedactSecrets(rules=PINS)
        options = {"components": [component], "store": store, "session_id": "s"}
        async with Agent(ScriptedModel([]), tools=[giving(*results)], **options) as agent:
            before = [(await agent.call_tool("give")).response.text for _ in (1, 2)]
            nothing = await store.read_state("s", "redact-secrets")
            shown = (await agent.call_tool("give")).response.text
        kept = json.loads(await store.read_state("s", "redact-secrets"))

    assert all(map(PLACEHOLDER.fullmatch, before))
    assert nothing is None
    assert PLACEHOLDER.search(shown)
    assert {name: len(value) for name, value in kept.items()} == {"salt": 32}
    files = b"".join([one.read_bytes() for one in tmp_path.glob("store.db*")])
    key = value_key_file().read_bytes()
    assert key not in files
    assert key.hex().encode() not in files
    for secret in (pat(1), pat(2)):
        assert secret.encode() not in files
        digest = hashlib.sha256(secret.encode()).digest()
        assert digest.hex()[:16].encode() not in files
        assert urlsafe_b64encode(digest)[:20] not in files


async def test_values_of_small_sets_cannot_be_tried_out(tmp_path):
    texts = "PIN 7391", f"password: {PASSWORD}"
    here, there = StorePlace("sqlite", tmp_path / "s.db"), StorePlace("sqlite", tmp_path / "t.db")

    reads = [
        await read_in_a_process(place, *texts, components=[RedactSecrets(rules=PINS)])
        for place in (here, here, there)
    ]
    await here.close()
    await there.close()

    (pin, word), again, (other, same) = [PLACEHOLDER.findall(read) for read in reads]
    assert again == [pin, word]
    assert other != pin
    assert same == word


async def test_a_copied_store_is_useless_without_its_key(tmp_path, monkeypatch):
    here, there = StorePlace("sqlite", tmp_path / "s.db"), StorePlace("sqlite", tmp_path / "t.db")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    before = await read_in_a_process(here, f"password = {PASSWORD}")
    await here.close()
    shutil.copy(tmp_path / "s.db", tmp_path / "t.db")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "there"))
    after = await read_in_a_process(there, f"password = {PASSWORD}", f"password = {PASSWORD}x")
    await there.close()

    names = re.findall(PLACEHOLDER, f"{before} {after}")
    assert len({*names}) == len(names) == 3


async def test_a_session_without_secrets_reads_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = StorePlace("sqlite", tmp_path / "s.db")

    await read_in_a_process(place, "no secret", "none at all")
    kept = await place.open().read_state("s", "redact-secrets")
    await place.close()

    assert kept is None
    assert not (tmp_path / "state").exists()


def no_folder(file):
    file.parent.parent.mkdir()
    file.parent.write_text("a file")


def key_file(file, data=b"k" * 32, mode=0o600):
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    file.chmod(mode)


def link(file):
    key_file(file.with_name("other"))
    file.symlink_to("other")


NO_KEYS = [
    lambda file: key_file(file, b"k" * 31),
    lambda file: key_file(file, mode=0o644),
    link,
    no_folder,
]


@pytest.mark.parametrize("make", NO_KEYS, ids=["short", "for all", "link", "no folder"])
async def test_another_user_s_key_is_not_used(tmp_path, monkeypatch, caplog, make):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = value_key_file()
    make(file)
    before = [(path, path.lstat()) for path in sorted(tmp_path.rglob("state/**/*"))]
    place = StorePlace("sqlite", tmp_path / "s.db")

    names = []
    for _ in range(2):
        user_key._key_of_process.cache_clear()
        names.append(await read_in_a_process(place, pat()))
    await place.close()

    assert evened(" ".join(names)) == "[github-pat-1] [github-pat-2]"
    assert "cannot be recognized by another process" in caplog.text
    after = [(path, path.lstat()) for path in sorted(tmp_path.rglob("state/**/*"))]
    assert [(path, one.st_mtime_ns) for path, one in after] == [
        (path, one.st_mtime_ns) for path, one in before
    ]


@pytest.mark.parametrize("source", ["variable", "file"])
async def test_machines_share_a_named_key(tmp_path, monkeypatch, source):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("STORE_KEY", "k" * 40)
    key_file(tmp_path / "config/toolbus/store.key", b"k" * 40 + b"\n")
    key = 'key = "env:STORE_KEY"' if source == "variable" else 'key = "store.key"'
    uses = '[[component]]\nuse = "redact-secrets"\n'
    (tmp_path / "toolbus.toml").write_text(f"[store]\n{key}\n{uses}")
    (tmp_path / "without.toml").write_text(uses)
    place, names = StorePlace("sqlite", tmp_path / "s.db"), []
    for machine, file in (("a", "toolbus"), ("b", "toolbus"), ("b", "without"), ("a", "without")):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
        components = load(tmp_path / f"{file}.toml")
        names.append(await read_in_a_process(place, pat(), components=components))
    await place.close()

    assert evened(" ".join(names)) == " ".join([f"[github-pat-{at}]" for at in (1, 1, 2, 3)])


UNFIT_KEYS = {
    "env:MISSING": "the environment has no variable 'MISSING'",
    "env:SHORT": "variable 'SHORT': expected 32 to 64 bytes, got 5; make one: openssl rand -hex 32",
    "open.key": "store.key': others may write it|open.key': .*others",
    "gone.key": "gone.key' cannot be read: No such file or directory",
    "/tmp/store.key": "file '/tmp/store.key' may be read by tools; name a file ",
    "../store.key": "may be read by tools; name a file ",
    "store.txt": "may be read by tools; name a file ",
}


@pytest.mark.parametrize("key", UNFIT_KEYS)
def test_an_invalid_named_key_is_refused(tmp_path, monkeypatch, key):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SHORT", "short")
    key_file(tmp_path / "config/toolbus/open.key", b"secret-" * 6, mode=0o666)
    file = tmp_path / "toolbus.toml"
    file.write_text(f'[store]\nkey = "{key}"\n')

    with pytest.raises(ConfigurationError, match=UNFIT_KEYS[key]) as raised:
        load(file)

    assert f"{file.name}:2" in str(raised.value)
    assert "secret-" not in str(raised.value)


async def test_a_session_of_0_3_continues(tmp_path):
    got, quoted = [], "see [github-pat-1-x7k2m5]"

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    place = StorePlace("sqlite", tmp_path / "s.db")
    store = place.open()
    state = State(store, "s", "redact-secrets")
    digest = hashlib.blake2b(f"value:{pat()}".encode(), key=state.digest_key(), digest_size=16)
    values = {"github-pat": {urlsafe_b64encode(digest.digest()).rstrip(b"=").decode(): 1}}
    fields = {"numbers": {"github-pat": 1}, "suffix": "x7k2m5", "values": values}
    await state.update(lambda _: fields)
    personal = {"numbers": {"email": 1}, "values": {"email": {"x" * 22: 1}}}
    await State(store, "s", "redact-personal-data").update(lambda _: personal)
    components = [RedactSecrets(vault=USE), RedactPersonalData()]
    options = {"components": components, "store": store, "session_id": "s"}
    async with Agent(ScriptedModel([]), tools=[use, giving(quoted, pat())], **options) as agent:
        calls = [
            ("use", {"key": "[github-pat-1-x7k2m5]"}), ("give", {}), ("use", {"key": "[email-1]"}),
            ("give", {}), ("use", {"key": "[github-pat-1-x7k2m5]"}),
        ]  # fmt: skip
        outcomes = [await agent.call_tool(name, arguments) for name, arguments in calls]
    await place.close()

    assert [outcome.status for outcome in outcomes] == ["denied", "ok", "denied", "ok", "ok"]
    assert outcomes[1].response.text == "see [github-pat-1-(quoted)]"
    assert got == [pat()]


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(["=", " ", '": "', "\n", "/"]))
def test_redacting_twice_changes_nothing(before, after, sign):
    component = RedactSecrets()
    text = f"{before} token{sign}{pat()}{sign}{after} password={PASSWORD} {after}"

    (once,) = passed(component, answering(text))
    (twice,) = passed(component, once)

    assert pat() not in once.text
    assert twice is once


FORMS = {
    "base64": lambda raw: b64encode(raw).decode(),
    "base64url": lambda raw: urlsafe_b64encode(raw).decode(),
    "hexadecimal": lambda raw: raw.hex(),
    "capital hexadecimal": lambda raw: raw.hex().upper(),
}


@given(
    st.binary(max_size=12),
    st.binary(max_size=12),
    st.text('abcXYZ019-_+/=.~ \n"\\ü€', min_size=10, max_size=24),
)
def test_encoded_secrets_are_found(before, after, odd):
    secret = letters(5, 10) + odd + letters(6, 6)
    component = RedactSecrets(rules={"odd": r"(?s)<<(.*?)>>"})
    encoded = {name: encode(before + secret.encode() + after) for name, encode in FORMS.items()}
    escaped = {
        "json": json.dumps(secret)[1:-1],
        "json in json": json.dumps(json.dumps(secret))[3:-3],
        "unicode json": json.dumps(secret, ensure_ascii=False)[1:-1],
        "url": quote(secret, safe=""),
        "url with slashes": quote(secret),
        "form": quote_plus(secret),
        "every byte": "".join([f"%{byte:02X}" for byte in secret.encode()]),
    }
    text = "\n".join([f"<<{secret}>>", *encoded.values(), *escaped.values()])

    (message,) = passed(component, answering(text))

    left = message.text
    core = {
        name: form[len(FORMS[name](before)) // 4 * 4 + 4 :][:12] for name, form in encoded.items()
    }
    assert secret not in left
    assert not [name for name, form in escaped.items() if form in left]
    assert not [name for name, form in core.items() if len(form) == 12 and form in left]


async def test_wrapped_secrets_are_found():
    secret = "hunter-" + letters(8, 30)
    component = RedactSecrets(rules={"word": r"the word is (\S+)"})
    binary = b64encode(bytes(range(20)) + secret.encode() + bytes(range(20))).decode()
    wrapped = [
        f"the password of today is {secret[:12]}\n{secret[12:]} and so on",
        f"at:\n  - {secret[:9]}\n    {secret[9:20]}\n    {secret[20:]}\n",
        in_lines(binary, 64),
        in_lines(binary, 20, "\r\n"),
    ]

    responses = await given_by(component, f"the word is {secret}", *wrapped)

    for response in responses[1:]:
        assert "[word-" in response.text
        assert secret[:9] not in response.text
        assert secret[12:18] not in response.text
    assert binary[32:40] not in responses[-2].text.replace("\n", "")


@given(st.data())
def test_adjoining_parts_are_read_together(data):
    text = f"the token is {pat()}, keep it\nand {HOOKS}{webhook()}"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), min_size=1, max_size=12)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    response = ToolResponse(content=tuple([TextPart(text=one) for one in pieces]))

    (message,) = passed(RedactSecrets(), answering(response))

    joined = "".join([part.text for part in message.tool_response.content])
    assert len(message.tool_response.content) == len(pieces)
    assert "[github-pat-1]" in evened(joined)
    assert not any(one in joined for one in (pat(), pat()[8:], webhook(), webhook()[8:]))


SERVER = """
import json, sys
def send(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
def block(text):
    return {"content": [{"type": "text", "text": text}]}
for line in sys.stdin:
    m = json.loads(line)
    own, method, params = m.get("id"), m.get("method"), m.get("params") or {}
    if method == "tools/list":
        tool = {"inputSchema": {"type": "object"}}
        send(id=own, result={"tools": [{"name": "leak", **tool}, {"name": "use", **tool}]})
    elif method == "tools/call" and params["name"] == "use":
        with open("used.json", "w") as file:
            json.dump(params["arguments"], file)
        send(id=own, result=block("used " + params["arguments"]["key"]))
    elif method == "tools/call":
        send(method="notifications/progress", params={"progressToken": 1, "message": SECRETS[0]})
        send(method="notifications/message", params={"level": "info", "data": SECRETS[1][:20]})
        send(method="notifications/message", params={"level": "info", "data": SECRETS[1][20:]})
        send(id=own, result={**block("token " + SECRETS[2]), "structuredContent": {SECRETS[3]: 1}})
    elif method == "resources/read":
        uri = "file:///" + SECRETS[4]
        send(id=own, result={"contents": [{"uri": uri, "text": SECRETS[5]}]})
    elif method == "prompts/get":
        message = {"role": "user", "content": {"type": "text", "text": SECRETS[6]}}
        send(id=own, result={"messages": [message]})
    elif own is not None:
        send(id=own, error={"code": -1, "message": SECRETS[7], "data": [SECRETS[8]]})
"""


class Client:
    """An MCP client of the proxy with *settings* of the component, as TOML."""

    def __init__(self, here, environment, settings=""):
        secrets = [pat(number) for number in range(20, 29)]
        (here / "server.py").write_text(f"SECRETS = {secrets!r}\n{SERVER}")
        (here / "toolbus.toml").write_text(f'[[component]]\nuse = "redact-secrets"\n{settings}')
        command = [sys.executable, "-m", "toolbus", "proxy", "--config", "toolbus.toml"]
        command += ["--log", "calls.log", "--store", "calls.db"]
        self.errors = (here / "errors.txt").open("w")
        self.process = subprocess.Popen(
            [*command, "--", sys.executable, "server.py"],
            cwd=here,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.heard = ""

    def ask(self, own, method, **params):
        line = json.dumps({"jsonrpc": "2.0", "id": own, "method": method, "params": params})
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        while answer := self.process.stdout.readline():
            self.heard += answer
            if json.loads(answer).get("id") == own:
                return json.loads(answer)
        raise AssertionError(self.heard)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.heard += self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(60)
        self.errors.close()


def test_the_next_piece_of_a_stream_is_joined(tmp_path, environment):
    first, second = pat(21)[:20], pat(21)[20:]

    with Client(tmp_path / "here", environment) as client:
        client.ask(1, "tools/call", name="leak", arguments={})

    assert first in client.heard
    assert second not in client.heard


async def test_pages_of_one_file_are_joined():
    key = pat(4)
    pages = iter([f"A=1\nTOKEN={key[:6]}", f"{key[6:]}\nB=2\n"])

    def read_page() -> str:
        """Read the next page."""
        return next(pages)

    def look() -> str:
        """Look elsewhere."""
        return "elsewhere"

    tools = [read_page, look]
    async with Agent(ScriptedModel([]), tools=tools, components=[RedactSecrets()]) as agent:
        texts = [
            (await agent.call_tool(name)).response.text
            for name in ("read_page", "look", "read_page")
        ]

    assert texts == [f"A=1\nTOKEN={key[:6]}", "elsewhere", "\nB=2\n"]


@pytest.mark.parametrize("end", ["Enter the password:", "password=", "sk_live_" + letters(13, 24)])
async def test_separate_results_are_not_joined(end):
    word = "Summer2019forEver!9x and so on"

    responses = await given_by(RedactSecrets(), end, word)

    assert responses[1].text == word


async def test_a_known_secret_is_remembered():
    results = f"postgres://app:{PASSWORD}@db/shop", f"it said {PASSWORD} and ended"

    first, second = await given_by(RedactSecrets(), *results)

    assert evened(first.text) == "postgres://app:[generic-credential-uri-1]@db/shop"
    assert evened(second.text) == "it said [generic-credential-uri-1] and ended"


async def test_every_role_is_stored_without_secrets(tmp_path):
    path = tmp_path / "agent.db"
    model = calling(("use", {"key": pat(2)}), last=f"I used {pat(2)}")

    def use(key: str) -> str:
        """Use a key."""
        return f"{key} opened {pat(3)}"

    store = SqliteStore(path)
    async with Agent(model, tools=[use], components=[RedactSecrets()], store=store) as agent:
        await agent.run(f"please use {pat(1)}")
        stored = [encode(one).decode() for one in await store.read(agent.scope.session_id)]
    await store.close()

    with sqlite3.connect(path) as database:
        rows = "\n".join(database.iterdump())
    database.close()
    assert len(stored) == 4
    assert not [number for number in (1, 2, 3) if pat(number) in "\n".join(stored)]
    assert not [number for number in (1, 2, 3) if pat(number) in rows]


async def test_the_model_reads_what_users_write():
    open_model, closed_model = ScriptedModel(["ok"]), ScriptedModel(["ok"])

    await Agent(open_model, components=[RedactSecrets()]).run(f"use {pat()}")
    await Agent(closed_model, components=[RedactSecrets(prompts=True)]).run(f"use {pat()}")

    assert open_model.requests[0].messages[-1].text == f"use {pat()}"
    assert evened(closed_model.requests[0].messages[-1].text) == "use [github-pat-1]"


async def test_answers_are_held_only_with_a_vault():
    vault = [{"tool": "deploy", "arguments": ["token"]}]

    class Waiting:
        name = "waiting"

        def __init__(self, *, waits):
            self.heard, self.waits = asyncio.Event(), waits

        async def stream(self, _):
            yield ModelDelta(kind="text", text="Well, ")
            if self.waits:
                await self.heard.wait()
            said.append("all")
            yield ModelDelta(kind="text", text="yes.")
            yield AssistantMessage(content="Well, yes.")

    for settings, waits, order in (
        ({}, True, ["Well, ", "all", "yes."]),
        ({"vault": vault}, False, ["all", "Well, yes."]),
    ):
        said, model = [], Waiting(waits=waits)
        agent = Agent(model, components=[RedactSecrets(**settings)])
        async with asyncio.timeout(60):
            async for piece in agent.stream("go"):
                if isinstance(piece, ModelDelta):
                    said.append(piece.text)
                    model.heard.set()
        assert said == order


async def test_the_tool_s_arguments_stay():
    got = []

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    agent = Agent(calling(("use", {"key": pat()})), tools=[use], components=[RedactSecrets()])
    await agent.run("go")

    assert got == [pat()]
    assert evened(agent.messages[2].tool_response.parameters["key"]) == "[github-pat-1]"


async def test_the_tool_gets_the_value():
    got = []

    def use(header: str, keys: list[str]) -> str:
        """Use keys."""
        got.append((header, keys))
        return "fine"

    header, keys = "Bearer [github-pat-1]!", ["x", "[github-pat-1]"]
    model = calling(("give", {}), ("use", {"header": header, "keys": keys}), last=f"gave {pat()}")
    agent = Agent(model, tools=[giving(pat()), use], components=[RedactSecrets(vault=USE)])
    await agent.run("go")

    assert got == [(f"Bearer {pat()}!", ["x", pat()])]
    assert pat() not in encode(list(agent.messages)).decode()


async def test_no_canary_is_left_behind(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    path, records, calls, asked, canary = tmp_path / "agent.db", [], [], [], pat(9)
    store = SqliteStore(path)

    def approve(ask, call, scope):
        asked.append((ask, call))
        return True

    def use(key: str, how: str) -> str:
        """Use a key."""
        if how == "raise":
            raise ValueError(f"cannot use {key}")
        return f"{key} {b64encode(key.encode()).decode()} {key.encode().hex()} {quote(key)}"

    model = calling(
        ("give", {}),
        ("use", {"key": "[github-pat-1]", "how": "return"}),
        ("use", {"key": "[github-pat-1]", "how": "raise"}),
        ("use", {"key": "[github-pat-1]", "wrong": "[github-pat-1]"}),
        ("missing", {"key": "[github-pat-1]"}),
        last="I used [github-pat-1]",
    )
    agent = Agent(
        model,
        tools=[giving(f"the key: {canary}"), use],
        components=[RedactSecrets(vault=USE)],
        store=store,
        approver=approve,
    )
    agent.bus.tap(records.append)
    agent.bus.tap(calls.append, values=True)
    agent.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask(f"may it {ctx.value}?"))
    async with agent:
        result = await agent.run("go")
        with pytest.raises(ModelError) as raised:
            await agent.run("once more")
    await store.close()

    with sqlite3.connect(path) as database:
        rows = "\n".join(database.iterdump())
    database.close()
    texts = {
        "messages": encode(list(agent.messages)).decode(),
        "result": encode(result).decode(),
        "requests": encode(model.requests).decode(),
        "rows": rows,
        "records": encode([one.without_values() for one in records]).decode(),
        "calls": encode([one for one in calls if one.event == TOOL_CALL_BEFORE.name]).decode(),
        "questions": encode(asked).decode(),
        "log": caplog.text,
        "raised": repr(raised.value),
        "file": path.read_bytes().decode("latin-1"),
    }
    forms = [canary, b64encode(canary.encode()).decode(), canary.encode().hex()]
    assert evened(result.text) == "I used [github-pat-1]"
    assert len(asked) == 3
    assert [name for name, text in texts.items() if any(form in text for form in forms)] == []


async def test_a_refused_result_keeps_no_value():
    def use(key: str) -> str:
        """Use a key."""
        return key

    model = calling(("give", {}), ("use", {"key": "[github-pat-1]"}))
    agent = Agent(model, tools=[giving(pat()), use], components=[RedactSecrets(vault=USE)])

    @agent.on(MESSAGE_APPEND_BEFORE, priority=500)
    def refuse(ctx):
        return Deny("refused") if getattr(ctx.value, "tool_name", "") == "use" else None

    await agent.run("go")

    assert agent.messages[4].text == "refused"
    assert evened(agent.messages[4].tool_response.parameters["key"]) == "[github-pat-1]"


async def test_only_named_tools_get_values():
    got = {}

    def deploy(key: str) -> str:
        """Deploy."""
        got["deploy"] = key
        return "fine"

    def post(key: str) -> str:
        """Post."""
        got["post"] = key
        return "fine"

    key = {"key": "[github-pat-1]"}
    agent = Agent(
        calling(("give", {}), ("deploy", key), ("post", key)),
        tools=[giving(pat()), deploy, post],
        components=[RedactSecrets(vault=[{"tool": "deploy", "arguments": ["key"]}])],
    )
    await agent.run("go")

    assert got == {"deploy": pat()}
    assert agent.messages[-2].tool_response.error_type == "denied"


async def test_only_named_arguments_get_values():
    got = []

    def deploy(token: str, note: str, options: dict[str, Any]) -> str:
        """Deploy."""
        got.append((token, note, options))
        return "fine"

    name = "[github-pat-1]"
    options = {"auth": {"key": name}, "env": [{"value": name}], "other": "x"}
    others = [
        {"token": "x", "note": name, "options": {}},
        {"token": "x", "note": "x", "options": {"env": {"cmd": name}}},
        {"token": "x", "note": "x", "options": {"other": name}},
    ]
    entry = {"tool": "dep*", "arguments": ["token", "options.auth", "options.env"]}
    agent = Agent(
        calling(
            ("give", {}),
            *[("deploy", other) for other in others],
            ("deploy", {"token": name, "note": "x", "options": options}),
        ),
        tools=[giving(pat()), deploy],
        components=[RedactSecrets(vault=[entry])],
    )
    await agent.run("go")

    filled = {"auth": {"key": pat()}, "env": [{"value": pat()}], "other": "x"}
    results = [one.tool_response for one in agent.messages if isinstance(one, ToolMessage)]
    assert got == [(pat(), "x", filled)]
    assert [one.error_type for one in results] == [None, *["denied"] * 3, None]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"tool": "bash", "arguments": ["command"]}, "reads its argument 'command'"),
        ({"tool": "run", "arguments": ["job.shellScript"]}, "reads its argument 'shellScript'"),
        ({"tool": "run", "arguments": ["source_code"]}, "reads its argument 'source_code'"),
        ({"tool": "db", "arguments": ["query"]}, "reads its argument 'query'"),
        ({"tool": "*", "arguments": ["token"]}, "does not name a tool"),
        ({"tool": "deploy", "arguments": ["*"]}, "does not name an argument of 'deploy'"),
        ({"tool": "deploy"}, "does not name an argument of 'deploy'"),
        ({"tool": "deploy", "arguments": ["token"], "argument": 1}, "unknown key 'argument'"),
    ],
)
def test_arguments_that_are_run_are_refused(entry, reason):
    with pytest.raises(RegistrationError) as raised:
        RedactSecrets(vault=[entry])
    known = {"tool": "bash", "arguments": ["command", "query", "code"], "i_know": True}

    assert reason in str(raised.value)
    assert RedactSecrets(vault=[known]).adapters[-1].tools == ("bash",)


async def test_a_tool_that_runs_commands_gets_nothing():
    got = []

    def bash(command: str, env: dict[str, str]) -> str:
        """Run a command."""
        got.append(env)
        return "done"

    call = "bash", {"command": "echo $KEY | rev", "env": {"KEY": "[github-pat-1]"}}
    entry = {"tool": "bash", "arguments": ["env"]}
    for known in (False, True):
        agent = Agent(
            calling(("give", {}), call),
            tools=[giving(pat()), bash],
            components=[RedactSecrets(vault=[{**entry, "i_know": known}])],
        )
        await agent.run("go")
        if not known:
            refused = agent.messages[-2]

    assert got == [{"KEY": pat()}]
    assert refused.tool_response.error_type == "denied"
    assert "which has an argument 'command'" in refused.text


@pytest.mark.parametrize(
    ("setting", "way_out"),
    [
        ("true", '[{ tool = "deploy", arguments = ["token"] }]'),
        ('"*"', '[{ tool = "deploy", arguments = ["token"] }]'),
        ('["release"]', '[{ tool = "release", arguments = ["token"] }]'),
        ('"release"', '[{ tool = "release", arguments = ["token"] }]'),
    ],
)
def test_former_settings_show_the_new_form(tmp_path, setting, way_out):
    file = tmp_path / "toolbus.toml"
    file.write_text(f'[[component]]\nuse = "redact-secrets"\nsettings = {{ vault = {setting} }}\n')

    with pytest.raises(ConfigurationError) as raised:
        load(file)

    assert way_out in str(raised.value)
    assert "toolbus.toml:" in str(raised.value)
    for nothing in (False, []):
        names = [adapter.name for adapter in RedactSecrets(vault=nothing).adapters]
        assert "RedactSecrets.vault" not in names


async def test_a_value_is_filled_in_last():
    asked, records, got = [], [], []

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    def approve(ask, call, scope):
        asked.append((ask, call))
        return True

    agent = Agent(
        calling(("give", {}), ("use", {"key": "[github-pat-1]"})),
        tools=[giving(pat()), use],
        components=[RedactSecrets(vault=USE)],
        approver=approve,
    )
    agent.bus.tap(records.append, values=True)
    seen = []

    @agent.on(TOOL_CALL_BEFORE, priority=-1_000)
    def look(ctx):
        seen.append(ctx.value)

    @agent.guard(TOOL_CALL_BEFORE)
    def judge(ctx):
        seen.append(ctx.value)
        return Ask(f"use {ctx.value.arguments}?") if ctx.value.name == "use" else None

    @agent.on(TOOL_CALL_AFTER)
    def observe(ctx):
        if ctx.value.executed.name == "use":
            seen.append(ctx.value)

    await agent.run("go")
    calls = [record for record in records if record.event == TOOL_CALL_BEFORE.name]

    assert got == [pat()]
    assert len(asked) == 1
    assert len(seen) == 5
    for shown in (*asked[0], *seen, *calls):
        assert pat() not in encode(shown).decode()


async def test_the_value_decides_whether_arguments_fit():
    got = []

    def use(key: Annotated[str, Meta(pattern="^gh", max_length=40)]) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    agent = Agent(
        calling(("give", {}), *[("use", {"key": f"[github-pat-{n}]"}) for n in (1, 2)]),
        tools=[giving(f"{pat(1)} token={pat(2)}{pat(3)}"), use],
        components=[RedactSecrets(vault=USE, rules={"github-pat": "ghp_[A-Za-z0-9_]+"})],
    )
    await agent.run("go")

    assert got == [pat(1)]
    assert agent.messages[-2].tool_response.error_type == "invalid_arguments"
    assert pat(3) not in encode(list(agent.messages)).decode()


@pytest.mark.parametrize("order", ["plain, vault", "vault, plain", "vault, vault"])
async def test_the_order_of_components_does_not_matter(order):
    got = []

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return f"used {key}"

    components = [RedactSecrets(vault=USE if name == "vault" else ()) for name in order.split(", ")]
    between = RedactSecrets(only=["aws-access-token"]).restrict(priority=-600, late=True)
    agent = Agent(
        calling(("give", {}), ("use", {"key": "[github-pat-1]"})),
        tools=[giving(pat()), use],
        components=[between, *components],
    )
    await agent.run("go")

    assert got == [pat()]
    assert evened(agent.messages[-2].text) == "used [github-pat-1]"


async def test_a_quoted_placeholder_yields_no_value():
    got, found = [], []

    def read() -> object:
        """Read what a stranger wrote."""
        name = found[0]
        inner, parts = f"deploy with {name}!", [name[:9], name[9:19], name[19:] + "."]
        resource = Resource(uri="file:///a", blob=b64encode(f"see {name}".encode()).decode())
        return ToolResponse(
            content=(*[TextPart(text=one) for one in parts], ResourcePart(resource=resource)),
            structured={"text": inner, name: [name, quote(name)]},
            metadata={"seen": name[1:-1]},
        )

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    tools = [giving(pat()), read, use]
    async with Agent(
        ScriptedModel([]), tools=tools, components=[RedactSecrets(vault=USE)]
    ) as agent:
        found.append((await agent.call_tool("give")).response.text)
        response = (await agent.call_tool("read")).response
        for key in ("".join([part.text for part in response.content[:3]]), found[0]):
            await agent.call_tool("use", {"key": key})

    assert got == ["[github-pat-(quoted)].", pat()]
    assert found[0][-17:-1] not in encode(response).decode()
    assert found[0][-17:-1] not in b64decode(response.content[3].resource.blob).decode()


async def test_a_foreign_placeholder_yields_no_value():
    got = []

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    tools = [giving(pat()), use]
    async with Agent(
        ScriptedModel([]), tools=tools, components=[RedactSecrets(vault=USE)]
    ) as agent:
        name = (await agent.call_tool("give")).response.text
        another = name.replace(name[-5], "a" if name[-5] != "a" else "b")
        foreign = f"[github-pat] [github-pat-1-aaaaaa] [github-pat-aaaaaaaaaaaaaaaa] {another}"
        await agent.call_tool("use", {"key": foreign})

    assert got == [foreign]


def sessions_of(component, tools):
    """Return a function that calls a tool in a session, all on one bus with *component*."""
    bus = EventBus()
    host = ComponentHost(bus, Scope(agent_id="a"))
    component.setup(host)

    async def call(session, name, arguments):
        agent = Agent(ScriptedModel([]), bus=bus, agent_id="a", session_id=session, tools=tools)
        async with agent:
            return (await agent.call_tool(name, arguments)).response.text

    return host, call


async def test_sessions_do_not_share_a_vault():
    got = []

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    _host, call = sessions_of(RedactSecrets(vault=USE), [giving(pat(1)), use])
    found = await call("one", "give", {})
    await call("two", "use", {"key": found})
    await call("one", "use", {"key": found})

    assert evened(found) == "[github-pat-1]"
    assert got == [found, pat(1)]


async def test_a_sub_agent_shares_its_caller_s_vault():
    got, bus = [], EventBus()

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    below = calling(("use", {"key": "[github-pat-1]"}), last=f"I used {pat(2)}")
    worker = Agent(below, bus=bus, tools=[use])
    chief = Agent(
        calling(("give", {}), ("work", {"prompt": "use [github-pat-2]"})),
        bus=bus,
        tools=[giving(f"{pat(1)} {pat(2)}"), worker.as_tool("work")],
        components=[RedactSecrets(vault=USE)],
    )
    await chief.run("go")

    _, name = chief.messages[2].text.split()
    assert below.requests[0].messages[-1].text == f"use {name}"
    assert got == [pat(2)]
    assert chief.messages[-2].text == f"I used {name}"


async def test_a_sub_agent_s_answer_can_be_used():
    got, bus = [], EventBus()

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    worker = Agent(
        calling(("give", {}), last="it is [github-pat-1]"), bus=bus, tools=[giving(pat())]
    )
    chief = Agent(
        calling(("work", {"prompt": "find it"}), ("use", {"key": "[github-pat-1]"})),
        bus=bus,
        tools=[use, worker.as_tool("work")],
        components=[RedactSecrets(vault=USE)],
    )
    await chief.run("go")

    assert evened(chief.messages[2].text) == "it is [github-pat-1]"
    assert got == [pat()]


async def test_parallel_calls_find_their_values():
    got = {}
    many = range(20)

    async def use(number: int, key: str) -> str:
        """Use a key."""
        await asyncio.sleep(0)
        got[number] = key
        return f"used {key}"

    calls = [
        ToolCall(
            id=f"c-{at}", name="use", arguments={"number": at, "key": f"[github-pat-{at + 1}]"}
        )
        for at in many
    ]
    model = ScriptedModel(
        [
            AssistantMessage(id="m-0", tool_calls=(ToolCall(id="g", name="give"),)),
            partial(quoting, AssistantMessage(id="m-1", tool_calls=tuple(calls))),
            "done",
        ]
    )
    secrets = " ".join([pat(at) for at in many])
    agent = Agent(model, tools=[giving(secrets), use], components=[RedactSecrets(vault=USE)])
    await agent.run("go")

    assert got == {at: pat(at) for at in many}
    assert not any(pat(at) in encode(list(agent.messages)).decode() for at in many)


@pytest.mark.full
async def test_the_vault_is_bounded():
    got = []

    def use(key: str) -> str:
        """Use a key."""
        got.append(key)
        return "fine"

    count, batch = MAX_SECRETS + 40, 50
    batches = [range(at, min(at + batch, count)) for at in range(0, count, batch)]
    results = [" ".join([pat(number) for number in numbers]) for numbers in batches]
    _host, call = sessions_of(RedactSecrets(vault=USE), [giving(*results, pat(0)), use])

    found = " ".join([await call("0", "give", {}) for _ in results]).split()
    await call("0", "use", {"key": found[0]})
    await call("0", "use", {"key": found[-1]})
    again = await call("0", "give", {})
    for number in range(1, MAX_SESSIONS + 1):
        await call(f"{number}", "use", {"key": "none"})
    await call("0", "use", {"key": found[-1]})

    used = [key for key in got if key != "none"]
    assert len(set(found)) == count
    assert used == [pat(count - 1)]
    assert again == found[0]


async def test_a_large_result_is_withheld():
    text = "x" * 50_000_000

    (response,) = await given_by(RedactSecrets(), text)

    assert response.is_error
    assert response.error_type == "withheld"
    assert response.text == (
        "withheld because it could not be scanned for secrets: "
        "it is too large: more than 8,000,000 characters"
    )


async def test_a_deep_result_is_withheld():
    deep = pat()
    for _ in range(10_000):
        deep = [deep]
    text = "[" * 10_000 + f'"{pat()}"' + "]" * 10_000

    values, told = await given_by(RedactSecrets(), deep, text)

    assert values.is_error
    assert "is not JSON" in values.text
    assert evened(told.text) == text.replace(pat(), "[github-pat-1]")


async def test_a_failing_engine_withholds():
    component = RedactSecrets(max_seconds=1e-12)
    message = answering("a text " * 1_000)

    (shown,) = await given_by(component, "a text " * 1_000)
    component.teardown()
    agent = Agent(ScriptedModel([]), components=[component])
    scope = Scope(agent_id=agent.scope.agent_id, session_id="s")
    stored = await agent.bus.apply(MESSAGE_PERSIST_BEFORE, message, scope=scope)

    assert shown.error_type == "withheld"
    assert shown.text.endswith("scanning it takes longer than 1e-12 seconds")
    assert stored.denied.reason == shown.text


async def test_too_many_secrets_are_withheld():
    text = " ".join([pat(number) for number in range(3_000)])

    (response,) = await given_by(RedactSecrets(), text)

    assert response.error_type == "withheld"
    assert response.text.endswith("it holds more than 200 secrets")


REPEATED = {
    "one value": lambda _: f"token={letters(1, 40)} failed\n",
    "a chain of names": lambda _: "token=",
    "chains of names": lambda number: "token=" + "\n" * (number % 300 == 0),
    "names without values": lambda _: "password: ",
    "harmless values": lambda number: f"api_token_{number} = value_{number}\n",
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=[] if kind in {"one value", "chains of names"} else pytest.mark.full
        )
        for kind in REPEATED
    ],
)
async def test_a_repeated_value_is_never_withheld(kind, monkeypatch):
    steps, read, judge = Counter(), assigned._value, plausibility.random_length

    def value(shape, data, window):
        steps["letters"] += min(len(data), window[1]) - window[0]
        if (span := read(shape, data, window)) is not None:
            steps["letters"] += span[1] - min(len(data), window[1])
        return span

    def random_length(text):
        steps["letters"] += len(text)
        return judge(text)

    monkeypatch.setattr(assigned, "_value", value)
    monkeypatch.setattr(plausibility, "random_length", random_length)
    work = []
    for size in (25_000, 100_000):
        text = "".join([REPEATED[kind](number) for number in range(size // 6)])[:size]
        steps.clear()
        (response,) = await given_by(RedactSecrets(max_seconds=600), text)
        assert not response.is_error
        work.append(steps["letters"] / len(text))

    # Letters that are read for each letter of the text.
    assert work[1] <= 1.1 * work[0]
    assert work[1] <= 200


def test_expressions_cannot_explode():
    component = RedactSecrets(rules={"boom": r"((?:a+)+)$|boom(\d+)"})
    hostile = "a" * 300_000 + "!"

    (message,) = passed(component, answering(f"{hostile} {pat()}"))

    assert evened(message.text) == f"{hostile} [github-pat-1]"


def told(agent, session, text):
    """Return what is left of what a user says in a *session* of the *agent*."""
    scope = Scope(agent_id=agent.scope.agent_id, session_id=session)
    message = UserMessage(id="u", content=text)
    return agent.bus.apply(MESSAGE_APPEND_BEFORE, message, scope=scope)


async def told_at_once(*texts):
    """Return what is left of the *texts*, each with its session, as they become clean."""
    clean = {}
    async with Agent(ScriptedModel([]), components=[RedactSecrets(prompts=True)]) as agent:

        async def tell(number, session, text):
            applied = await told(agent, session, text)
            clean[number] = evened(applied.value.content)

        async with asyncio.TaskGroup() as tasks:
            for number, (session, text) in enumerate(texts):
                tasks.create_task(tell(number, session, text))
    return clean


async def counting(turns):
    """Count the turns of the loop in *turns*."""
    while True:
        turns[0] += 1
        await asyncio.sleep(0)


LARGE = "the key of a token is no secret: if key in keys then return token\n" * 80_000


async def test_the_loop_runs_during_a_scan():
    turns = [0]
    async with Agent(ScriptedModel([]), components=[RedactSecrets(prompts=True)]) as agent:
        counter = asyncio.create_task(counting(turns))
        await told(agent, "s", "a small one")
        before = turns[0]
        applied = await told(agent, "s", LARGE)
        counter.cancel()

    assert len(LARGE) > 5_000_000
    assert applied.value.content == LARGE
    assert turns[0] - before > before + 5


async def test_results_of_a_session_keep_their_order():
    clean = await told_at_once(("s", LARGE[-1_000_000:] + pat(1)), ("s", pat(2)))

    assert [*clean] == [0, 1]
    assert clean[0].endswith("\n[github-pat-1]")
    assert clean[1] == "[github-pat-1]"


@pytest.mark.full
async def test_sessions_do_not_wait_for_each_other():
    texts = [
        (f"s-{at}", f"{LARGE[: 600_000 + at]}\n{pat(at)} and {pat(at + 1)}") for at in range(6)
    ]

    clean = await told_at_once(*texts, ("small", pat(99)))

    assert next(iter(clean)) == len(texts)
    alone = [(await told_at_once(text))[0] for text in texts]
    assert [clean[at] for at in range(len(texts))] == alone
    assert all(text.endswith("[github-pat-1] and [github-pat-2]") for text in alone)


async def test_a_cancelled_scan_leaves_nothing_behind():
    turns = [0]
    async with Agent(ScriptedModel([]), components=[RedactSecrets(prompts=True)]) as agent:
        task = asyncio.create_task(told(agent, "s", pat(1) + LARGE))
        counter = asyncio.create_task(counting(turns))
        while turns[0] < 5:
            await asyncio.sleep(0)
        counter.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        clean = [(await told(agent, "s", pat(number))).value.content for number in (2, 1, 2)]

    assert evened(" ".join(clean)) == "[github-pat-1] [github-pat-2] [github-pat-1]"


async def test_a_custom_rule_finds_secrets():
    component = RedactSecrets(rules={"ticket": "TICKET-([0-9]{6})"})

    (response,) = await given_by(component, "see TICKET-482915 now")

    assert evened(response.text) == "see TICKET-[ticket-1] now"


async def test_allowed_values_pass():
    component = RedactSecrets(allow=[pat(1), pat(2)[:10] + "*"])

    (response,) = await given_by(component, f"{pat(1)} {pat(2)} {pat(3)}")

    assert evened(response.text) == f"{pat(1)} {pat(2)} [github-pat-1]"


async def test_rules_can_be_chosen():
    text = f"{pat()} sk_{hashlib.sha256(b'k').hexdigest()[:48]}"

    (only,) = await given_by(RedactSecrets(only=["github-pat"]), text)
    rules = ["github-pat", "prefixed-token"]
    (without,) = await given_by(RedactSecrets(without=rules), text)

    assert evened(only.text).startswith("[github-pat-1] sk_")
    assert without.text.startswith(f"{pat()} [")


async def test_other_tools_are_not_scanned():
    def read_key() -> str:
        """Read a key."""
        return pat(1)

    tools = [read_key, giving(pat(2), pat(1))]
    component = RedactSecrets(tools="read_*")
    async with Agent(ScriptedModel([]), tools=tools, components=[component]) as agent:
        names = ["read_key", "give", "give"]
        texts = [(await agent.call_tool(name)).response.text for name in names]

    assert [evened(text) for text in texts] == ["[github-pat-1]", pat(2), "[github-pat-1]"]


def test_wrong_settings_teach(tmp_path):
    wrong = {
        'only = ["github-pta"]': "rule 'github-pta': unknown rule; did you mean 'github-pat'",
        'rules = { mine = "(" }': "rule 'mine': RE2 cannot read it: missing ): (",
        'rules = { mine = "x*" }': "rule 'mine': it matches the empty text",
        'rules = { "My Own" = "x" }': "use lower-case letters, digits and -",
        "max_chars = 0": "max_chars must be above 0, not 0",
        'alow = ["x"]': "unknown setting 'alow'; did you mean 'allow'",
    }

    errors = {}
    for number, settings in enumerate(wrong):
        file = tmp_path / f"{number}.toml"
        use = "toolbus.redaction.redact_secrets:RedactSecrets"
        file.write_text(f'[[component]]\nuse = "{use}"\nsettings = {{ {settings} }}\n')
        with pytest.raises(ConfigurationError) as raised:
            load(file)
        errors[settings] = str(raised.value)

    assert all(wrong[settings] in error for settings, error in errors.items()), errors
    assert all(".toml:" in error for error in errors.values())


async def test_a_configuration_file_installs_it(tmp_path):
    file = tmp_path / "toolbus.toml"
    file.write_text(
        dedent("""
            [[component]]
            use = "redact-secrets"
            [component.settings]
            vault = [{ tool = "use", arguments = ["key"] }]
            allow = ["x*"]
            rules = { mine = "<(.+?)>" }
        """)
    )

    (component,) = load(file)
    (response,) = await given_by(component, f"{pat()} <abc>")

    assert evened(response.text) == "[github-pat-1] <[mine-1]>"


def test_the_proxy_passes_no_secret(tmp_path, environment):
    here = tmp_path / "here"

    with Client(here, environment, f"settings = {{ vault = {VAULT} }}\n") as client:
        client.ask(1, "resources/read", uri="file:///x")
        client.ask(2, "prompts/get", name="x")
        client.ask(3, "something/else")
        leaked = client.ask(4, "tools/call", name="leak", arguments={})
        shown = leaked["result"]["content"][0]["text"].removeprefix("token ")
        used = client.ask(5, "tools/call", name="use", arguments={"key": shown})

    kept = [here / "calls.log", here / "errors.txt", *here.glob("calls.db*")]
    texts = [client.heard, *[file.read_bytes().decode("latin-1") for file in kept]]
    assert [number for number in range(20, 29) if any(pat(number) in text for text in texts)] == []
    assert len(kept) > 2
    assert shown.startswith("[github-pat-")
    assert used["result"]["content"][0]["text"] == f"used {shown}"
    assert json.loads((here / "used.json").read_text()) == {"key": pat(22)}


def recorded(here, *messages):
    lines = [HeaderLine(), SessionLine(id="s"), *[MessageLine(message=one) for one in messages]]
    lines.append(EndLine(messages=len(messages), records=0))
    (here / "log.jsonl").write_bytes(b"".join(map(encode_line, lines)))


def test_a_replay_shows_what_would_change(tmp_path, command):
    here = tmp_path / "here"
    (here / "toolbus.toml").write_text('[[component]]\nuse = "redact-secrets"\n')
    asked = AssistantMessage(id="a", tool_calls=(ToolCall(id="c", name="read"),))
    recorded(here, UserMessage(id="u", content="go"), asked, answering(f"key {pat()}", own="t"))

    done = command("replay", "log.jsonl", "--with", "toolbus.toml")

    assert done.returncode == 0, done.stderr
    assert "[github-pat-1]" in evened(done.stdout)


JUDGE = """
from toolbus import Agent, Deny, UserMessage
from toolbus.events.values import ModelDelta
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.redaction.secrets import assigned, plausibility

agent = Agent(ScriptedModel([]), components=[RedactSecrets()])

@agent.guard(TOOL_CALL_BEFORE)
def judge(ctx):
    return Deny(f"not with {ctx.value.arguments}") if ctx.value.name == "post" else None

@agent.on(MESSAGE_APPEND_BEFORE)
def greet(ctx):
    if ctx.value.role == "user":
        return UserMessage(id=ctx.value.id, content=ctx.value.content + "!")
"""


def test_a_replay_shows_no_secret(tmp_path, command):
    here = tmp_path / "here"
    (here / "judge.py").write_text(JUDGE)
    calls = [
        ToolCall(id="c", name="read", arguments={"key": pat(1)}),
        ToolCall(id="d", name="post", arguments={"key": pat(2)}),
    ]
    told = {"database_password": PASSWORD, pat(3): [pat(4), 1], "long": f"{pat(7)} " + "x" * 900}
    result = ToolResponse(
        content=(TextPart(text=f"line\nexport TOKEN={pat(5)}\nand [github-pat-aaaaaaaaaaaaaaaa]"),),
        structured=told,
        parameters={"key": pat(1)},
    )
    refused = ToolMessage(
        id="r", tool_call_id="d", tool_name="post", tool_response=ToolResponse.from_text("done")
    )
    messages = answering(result, own="t"), refused
    asked = AssistantMessage(id="a", content="I call", tool_calls=tuple(calls))
    recorded(here, UserMessage(id="u", content=f"use {pat(6)}"), asked, *messages)

    (here / "broken.jsonl").write_text(f'{{"{pat(8)}": 1}}\n')

    replay = partial(command, "replay", "log.jsonl", "--with", "judge.py")
    check = "--check", "expected.json"
    outputs = [replay(), replay("--json"), replay(*check, "--update"), replay(*check)]
    (here / "expected.json").write_text((here / "expected.json").read_text().replace("denied", "x"))
    outputs.append(replay(*check, "--json"))
    outputs.append(command("replay", "broken.jsonl", "--with", "judge.py"))

    codes = [done.returncode for done in outputs]
    written = (here / "expected.json").read_text()
    shown = "".join([done.stdout + done.stderr for done in outputs]) + written
    secrets = [PASSWORD, *[pat(number) for number in range(1, 9)]]
    assert codes == [0, 0, 0, 0, 1, 1], shown
    assert [secret for secret in secrets if secret in shown] == []
    assert "- export TOKEN=(secret github-pat)" in outputs[0].stdout
    assert "+ export TOKEN=[github-pat-" in outputs[0].stdout
    assert "{'key': '(secret github-pat)" in outputs[0].stdout
    assert not PLACEHOLDER.search(written)
