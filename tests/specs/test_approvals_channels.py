"""The scenarios of `specs/approvals_channels.md`."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import ssl
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.servers.terminal import Terminal, run_as_person

import toolbus
from http_stubs import http, http_stub
from toolbus import Ask, EventBus, Scope, ToolRunner, Toolset, tool
from toolbus.approvals import StoredApprovals, Webhook, read_secret, receive_answer
from toolbus.approvals.answer_server import MOST_CONNECTIONS, serving_answers
from toolbus.approvals.records import questions_of
from toolbus.approvals.webhook import WebhookError
from toolbus.errors import RegistrationError
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.store import SqliteStore
from toolbus.store.memory import MemoryStore
from toolbus.testing.fakes import FakeClock

SOURCE = str(Path(toolbus.__file__).parents[1])
KEY = bytes(range(32))
NOW = 1_800_000_000
HIDDEN = "rm\u202e -rf /"


@pytest.fixture
def secret_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text("whsec_" + base64.b64encode(KEY).decode())
    file.chmod(0o600)
    return file


class Program:
    """A program whose guard asks about each call of the tool `pay`."""

    def __init__(self, store, **options):
        self.store, self.effects, self.clock = store, [], FakeClock(NOW * 10**9)
        self.bus = EventBus()
        self.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("pay it?"), name="till")
        self.approvals = StoredApprovals(store=store, clock=self.clock, **options)

        @tool
        def pay(what: str) -> str:
            """Pay."""
            self.effects.append(what)
            return "paid"

        self.tools = Toolset([pay])

    async def pay(self, what=HIDDEN):
        self.clock.advance(1)
        runner = ToolRunner(self.bus, self.tools, Scope(session_id="s"), approver=self.approvals)
        return await runner.call("pay", {"what": what})

    async def asked(self):
        return await questions_of(self.store, "s")

    async def receive(self, headers, body, **options):
        secret = options.pop("secret")
        return await receive_answer(self.store, secret, headers, body, clock=self.clock, **options)


def signed(name, body, *, seconds=NOW, key=KEY):
    """Return the headers of a message, as the specification says and another program would."""
    text = f"{name}.{seconds}.".encode() + body
    signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": name,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1,{signature}",
    }


def answer_to(question, decision="approve", *, seconds=NOW, key=KEY, **fields):
    """Return headers and body of an answer to *question*; *fields* stand in place of its own."""
    own = {"id": question.id, "digest": question.digest, "decision": decision, "by": "ann"} | fields
    body = json.dumps(own).encode()
    return signed(f"answer_{own['id']}_{own['digest']}", body, seconds=seconds, key=key), body


async def test_a_question_is_sent_signed(secret_file):
    async with http_stub(lambda *_: http({})) as (origin, seen):
        channel = Webhook(f"{origin}/ask?to=ann", secret_file=secret_file, clock=lambda: NOW)
        program = Program(MemoryStore(), notify=[channel])
        outcome = await program.pay()

    (question,) = await program.asked()
    ((method, target, headers, body),) = seen
    data = json.loads(body)["data"]
    assert (method, target) == ("POST", "/ask?to=ann")
    assert outcome.pending == (data["id"],) == (question.id,)
    assert (data["digest"], data["whole"]) == (question.digest, True)
    assert data["may_have_run"] is None
    assert r"rm\u202e -rf /" in data["text"]
    assert HIDDEN not in json.dumps(data, ensure_ascii=False)
    expected = signed(f"question_{question.id}_{question.digest}", body)
    assert {name: headers[name] for name in expected} == expected


async def test_a_long_question_is_only_a_notice(secret_file):
    secret = read_secret(secret_file)
    async with http_stub(lambda *_: http({})) as (origin, seen):
        program = Program(
            MemoryStore(), notify=[Webhook(origin, secret_file=secret_file, limit=300)]
        )
        await program.pay("attack " * 50)
    (question,) = await program.asked()

    yes = await program.receive(*answer_to(question), secret=secret, limit=300)
    state = (await program.asked())[0].state
    no = await program.receive(*answer_to(question, "deny"), secret=secret, limit=300)

    data = json.loads(seen[0][3])["data"]
    assert data["whole"] is False
    assert "attack" not in data["text"]
    assert (yes.status, state) == (403, "pending")
    assert (no.status, (await program.asked())[0].state) == (200, "denied")


SILENT = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_failing_address_changes_nothing(secret_file, caplog):
    async with http_stub(lambda *_: http({})) as (elsewhere, missed):
        answers = [
            http(status="302 Found", location=f"{elsewhere}/"),
            http(status="500 No"),
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
            SILENT,
        ]
        for answer in answers:
            async with http_stub(lambda *_, answer=answer: answer) as (origin, seen):
                seconds = 0.2 if answer is SILENT else 60
                channel = Webhook(f"{origin}/private", secret_file=secret_file, seconds=seconds)
                program = Program(MemoryStore(), notify=[channel])
                await program.pay()
            assert len(seen) == 1
            assert [question.state for question in await program.asked()] == ["pending"]
        gone = Webhook(f"{origin}/private", secret_file=secret_file)
        await Program(MemoryStore(), notify=[gone]).pay()

    assert missed == []
    assert len(caplog.records) == len(answers) + 1
    assert "it replied 302; redirects are not followed" in caplog.text
    assert "no reply within 0.2 seconds" in caplog.text
    assert "private" not in caplog.text


async def test_a_failed_message_is_repeated(secret_file, caplog):
    tries = {"/late": [503, 429, 200], "/never": [500] * 9, "/no": [400] * 9}
    sent = {target: [] for target in tries}

    def take(_, target, headers, body):
        sent[target].append((headers["webhook-id"], body))
        return http({}, status=f"{tries[target][len(sent[target]) - 1]} x")

    class Answered:
        pauses, count = (0, 0), 0

        async def notify(self, question):
            self.count += 1
            await program.receive(*answer_to(question), secret=read_secret(secret_file))
            raise WebhookError("here", "it fails", may_retry=True)

    answered = Answered()
    caplog.set_level("CRITICAL", "toolbus")
    async with http_stub(take) as (origin, _):
        others = asyncio.all_tasks()
        options = {"secret_file": secret_file, "pauses": [0, 0, 0]}
        for channel in [*[Webhook(f"{origin}{target}", **options) for target in tries], answered]:
            program = Program(MemoryStore(), notify=[channel])
            await program.pay()
            while again := [each for each in asyncio.all_tasks() - others if is_again(each)]:
                await asyncio.wait(again)

    counts = {target: len(messages) for target, messages in sent.items()}
    assert counts == {"/late": 3, "/never": 4, "/no": 1}
    assert [len(set(messages)) for messages in sent.values()] == [1, 1, 1]
    assert (answered.count, [each.state for each in await program.asked()]) == (1, ["approved"])


def is_again(task):
    """Tell whether *task* is one that tells a channel again."""
    return "tell_again" in task.get_coro().__qualname__


def certificate(folder):
    """Make a certificate of its own authority for `localhost`; return its file and its key."""
    key, file = folder / "key.pem", folder / "cert.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    run = ["openssl", *words, "-keyout", key, "-out", file, *names]
    subprocess.run(run, check=True, capture_output=True)
    return file, key


@pytest.mark.full
async def test_only_a_known_certificate_is_accepted(secret_file, tmp_path, monkeypatch, caplog):
    file, key = certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(file, key)
    taken = []

    async def serve(reader, writer):
        taken.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(http({}))
        writer.close()

    caplog.set_level("CRITICAL", "toolbus")
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        port, counts = server.sockets[0].getsockname()[1], []
        for name, known in (("localhost", True), ("127.0.0.1", True), ("localhost", False)):
            if known:
                monkeypatch.setenv("SSL_CERT_FILE", str(file))
            else:
                monkeypatch.delenv("SSL_CERT_FILE")
            channel = Webhook(f"https://{name}:{port}/ask", secret_file=secret_file)
            await Program(MemoryStore(), notify=[channel]).pay()
            counts.append(len(taken))

    assert counts == [1, 1, 1]
    assert taken[0].startswith(b"POST /ask HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/private",
        "http://127.0.0.1.example.com/private",
        "http://[2001:db8::1]/private",
        "https://ann@example.com/private",
        "ftp://127.0.0.1/private",
        "//127.0.0.1/private",
        "https:///private",
        "https://example.com/private#x",
        "https://example.com/private\r\nx: y",
        "https://example.com/private x",
        "https://ex\u0430mple.com/private",
        "https://example.com:99999/private",
    ],
)
def test_unsafe_addresses_are_refused(secret_file, url):
    with pytest.raises(RegistrationError) as raised:
        Webhook(url, secret_file=secret_file)

    assert "private" not in str(raised.value)


def test_a_shared_secret_file_is_refused(secret_file, tmp_path):
    text = secret_file.read_text()

    def refusal(file=secret_file):
        with pytest.raises(RegistrationError) as raised:
            Webhook("https://example.com", secret_file=file)
        assert text.removeprefix("whsec_") not in str(raised.value)
        return str(raised.value)

    for mode in (0o640, 0o604, 0o622):
        secret_file.chmod(mode)
        assert "others may use it" in refusal()
    secret_file.chmod(0o600)
    (tmp_path / "link").symlink_to(secret_file)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    shared = secret_file.rename(tmp_path / "shared/secret")
    assert "others may write its folder" in refusal(shared)
    assert "symbolic" in refusal(tmp_path / "link")
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path)
    assert "no such file" in refusal()
    for broken, reason in (("x" * 23, "not of 23"), ("whsec_!", "not base64"), ("", "not of 0")):
        secret_file.write_text(broken)
        secret_file.chmod(0o600)
        assert reason in refusal()
    secret_file.write_text("x" * 2_000)
    assert "it is longer than" in refusal()


@asynccontextmanager
async def post_answers(program, secret_file):
    """Give a function that sends an answer to a server, and returns status and text."""
    async with serving_answers(program.store, read_secret(secret_file)) as address:

        async def post(headers, body):
            lines = [f"{name}: {value}" for name, value in headers.items()]
            head = [
                "POST /any HTTP/1.1",
                "Host: x",
                "Connection: close",
                f"Content-Length: {len(body)}",
                *lines,
            ]
            return await send(address, "\r\n".join([*head, "", ""]).encode() + body)

        post.address = address
        yield post


async def send(address, data):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["text"] if body.startswith(
        b"{"
    ) else body.decode()


async def test_a_signed_answer_counts(store, secret_file):
    program = Program(store)
    await program.pay()
    (question,) = await program.asked()

    async with post_answers(program, secret_file) as post:
        told = await post(*answer_to(question, seconds=int(time.time())))
    await program.pay()

    (done,) = await program.asked()
    assert told == (200, f"question {question.id!r} is approved")
    assert (program.effects, done.state) == ([HIDDEN], "done")
    assert (done.answered_by, done.answered_from) == ("ann", "webhook")


async def test_a_signed_refusal_has_its_reason(store, secret_file):
    program = Program(store)
    await program.pay()
    (question,) = await program.asked()

    message = answer_to(question, "deny", reason="not today")
    told = await program.receive(*message, secret=read_secret(secret_file))
    outcome = await program.pay()

    assert told.status == 200
    assert "not today" in outcome.response.text
    assert program.effects == []


async def test_a_replayed_answer_changes_nothing(store, secret_file):
    secret = read_secret(secret_file)
    program = Program(store)
    await program.pay()
    (question,) = await program.asked()
    message = answer_to(question)
    assert (await program.receive(*message, secret=secret)).status == 200
    await program.pay()
    await program.pay()

    again = await program.receive(*message, secret=secret)

    assert again.status == 409
    assert "was answered already by 'ann', and is done" in again.text
    assert [each.state for each in await program.asked()] == ["done", "pending"]
    assert program.effects == [HIDDEN]


async def test_an_answer_to_another_question_is_refused(store, secret_file):
    secret = read_secret(secret_file)
    program = Program(store)
    await program.pay("one")
    await program.pay("two")
    one, two = await program.asked()

    other_digest = answer_to(one, digest=two.digest)
    headers, _ = answer_to(one)
    _, body = answer_to(two)
    name = f"answer_{one.id}_{one.digest}"
    messages = [other_digest, (signed(name, body), body), (headers, body), answer_to(one, id="x")]
    told = [await program.receive(*message, secret=secret) for message in messages]

    assert [each.status for each in told] == [409, 400, 401, 404]
    assert [each.state for each in await program.asked()] == ["pending", "pending"]


async def test_a_late_signed_answer_is_refused(store, secret_file):
    secret = read_secret(secret_file)
    program = Program(store, expires_after=600.0)
    await program.pay()
    (question,) = await program.asked()
    now = program.clock() // 10**9

    early, late = [
        await program.receive(*answer_to(question, seconds=now + seconds), secret=secret)
        for seconds in (302, -302)
    ]
    program.clock.advance(601)
    expired = await program.receive(*answer_to(question, seconds=now + 601), secret=secret)

    assert [each.status for each in (early, late, expired)] == [401, 401, 410]
    assert "its time is more than 300 seconds from ours" in late.text
    assert "the answer came too late" in expired.text


async def test_a_forged_answer_has_no_effect(secret_file):
    secret = read_secret(secret_file)
    async with http_stub(lambda *_: http({})) as (origin, seen):
        channel = Webhook(origin, secret_file=secret_file, clock=lambda: NOW)
        program = Program(MemoryStore(), notify=[channel])
        await program.pay()
    (question,) = await program.asked()
    headers, body = answer_to(question)
    without = {name: value for name, value in headers.items() if "signature" not in name}

    messages = [
        ({}, body),
        (without, body),
        (headers | {"webhook-signature": ""}, body),
        (headers | {"webhook-signature": "v1,"}, body),
        (headers | {"webhook-signature": "\u00e9"}, body),
        (headers | {"webhook-signature": "\ud800", "webhook-id": "\ud800"}, body),
        (headers | {"webhook-timestamp": str(NOW + 1)}, body),
        (headers, body.replace(b"ann", b"eve")),
        (headers | {"webhook-id": headers["webhook-id"] + "0"}, body),
        answer_to(question, key=b"another key" * 3),
        answer_to(question, seconds="9" * 5_000),
        (seen[0][2], seen[0][3]),
    ]
    told = [await program.receive(*message, secret=secret) for message in messages]

    assert [each.status for each in told] == [401] * 11 + [400]
    assert [each.state for each in await program.asked()] == ["pending"]


async def test_only_answers_are_read(secret_file):
    secret = read_secret(secret_file)
    program = Program(MemoryStore())
    await program.pay()
    (question,) = await program.asked()
    name = f"answer_{question.id}_{question.digest}"

    bodies = [b"", b"no", b"[]", b"{}", b'{"id": "\xff"}', b"[" * 10_000]
    messages = [
        *[(signed(name, body), body) for body in bodies],
        answer_to(question, "approved"),
        answer_to(question, more=1),
        answer_to(question, by=" "),
        answer_to(question, by="x" * 5_000),
        answer_to(question, reason="x" * 5_000),
        answer_to(question, by=None),
    ]
    told = [await program.receive(*message, secret=secret) for message in messages]
    long = await program.receive(*answer_to(question, reason="x" * 70_000), secret=secret)

    assert [each.status for each in told] == [400] * len(messages)
    assert long.status == 413
    assert [each.state for each in await program.asked()] == ["pending"]


async def test_the_server_is_bounded(secret_file):
    program = Program(MemoryStore())
    await program.pay()
    (question,) = await program.asked()
    post_head = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    requests = {
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n": 405,
        b"POST / SSH-2\r\n\r\n": 400,
        b"\r\n\r\n": 400,
        post_head + b"\r\n": 401,
        post_head + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n": 400,
        post_head + b"content-length: 65537\r\n\r\n": 413,
        post_head + b"content-length: " + b"9" * 5_000 + b"\r\n\r\n": 400,
        post_head + b"content-length: -1\r\n\r\n": 400,
        post_head + b"content-length: 1\r\nwebhook-id: a\r\nwebhook-id: a\r\n\r\n": 400,
        post_head + b"content-length : 1\r\n\r\n": 400,
        b"POST / HTTP/1.1\r\nx: y\r\n content-length: 1\r\n\r\n": 400,
        b"POST / HTTP/1.1\r\nx: " + b"y" * 70_000: 431,
    }

    async with post_answers(program, secret_file) as post:
        told = [(await send(post.address, request))[0] for request in requests]
        answered = await post(*answer_to(question, seconds=int(time.time())))

    assert told == list(requests.values())
    assert answered[0] == 200


async def test_idle_connections_give_way(secret_file, monkeypatch):
    # So none of them is closed because its time is over.
    for name in ("_HEAD_SECONDS", "_BODY_SECONDS"):
        monkeypatch.setattr(f"toolbus.approvals.answer_server.{name}", 600)
    program = Program(MemoryStore())
    for what in ("a", "b"):
        await program.pay(what)

    async with post_answers(program, secret_file) as post:
        idle, counts = [], []
        for question in await program.asked():
            while len(idle) < MOST_CONNECTIONS + len(counts):
                idle.append(await asyncio.open_connection(*post.address))
                idle[-1][1].write(b"POST / HTTP/1.1\r\n")
            status, _ = await post(*answer_to(question, seconds=int(time.time())))
            while not (ended := sum(reader.at_eof() for reader, _ in idle)) > len(counts):
                await asyncio.sleep(0)
            counts.append((status, ended))
        for _, writer in idle:
            writer.close()

    assert counts == [(200, 1), (200, 2)]


def test_a_command_serves_answers(tmp_path, secret_file):
    home, store = tmp_path / "home", tmp_path / "agent.db"
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": SOURCE, "COLUMNS": "200"}
    words = ["approvals", "serve", "--store", store, "--listen", "127.0.0.1:0"]

    async def ask():
        async with SqliteStore(store) as opened:
            program = Program(opened)
            program.clock.now_ns = time.time_ns()
            await program.pay()
            return await program.asked()

    (question,) = asyncio.run(ask())
    unready = run_as_person(words, env=env, cwd=tmp_path, capture_output=True, text=True)
    secret = home / ".config/toolbus/approvals.secret"
    secret.parent.mkdir(parents=True)
    secret_file.rename(secret)
    wrong = [*words[:-1], "here"]
    misled = run_as_person(wrong, env=env, cwd=tmp_path, capture_output=True, text=True)
    judged = subprocess.run(
        [sys.executable, "-m", "toolbus", *words],
        env=env | {"TOOLBUS_JUDGED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    with Terminal(words, cwd=tmp_path, env=env, columns=200) as person:
        person.expect("answers are taken at 127.0.0.1:")
        address = "127.0.0.1", int(person.expect("\n"))
        headers, body = answer_to(question, seconds=int(time.time()))
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = [
            "POST / HTTP/1.1",
            "host: x",
            "connection: close",
            f"content-length: {len(body)}",
            *lines,
            "",
            "",
        ]
        told = asyncio.run(send(address, "\r\n".join(head).encode() + body))
        person.expect(f"200: question '{question.id}' is approved")
        person.process.terminate()
        code, _ = person.end()

    assert (told[0], code) == (200, 0)
    assert "no such file" in unready.stderr
    assert "expected HOST:PORT" in misled.stderr
    assert "the variable TOOLBUS_JUDGED marks a process of an agent" in judged.stderr
    assert [unready.returncode, misled.returncode, judged.returncode] == [2, 2, 2]
