"""The scenarios of `specs/anchors.md`."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zlib import crc32

import psycopg
import pytest

from small_records import record
from toolbus import AssistantMessage, ToolCall, UserMessage
from toolbus.agent import Agent
from toolbus.approvals.webhook_signatures import WebhookSecret
from toolbus.cli import main
from toolbus.models import ScriptedModel
from toolbus.policy import Policy
from toolbus.store import AppendRequest, PostgresStore, SqliteStore
from toolbus.store.chain import BATCHES, MESSAGES, Chains, commitment
from toolbus.workspace.shell_tool import ShellTool

KEY = "k" * 32


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the current folder, with the user's folders beside it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLBUS_ANCHOR_KEY", KEY)
    return tmp_path / "here"


@pytest.fixture
def run(here, capsys):
    """Return a function that runs `toolbus` and returns the exit code, and what was printed."""

    def run(*words):
        code = main([*map(str, words)])
        printed = capsys.readouterr()
        return code, f"{printed.out}{printed.err}"

    return run


@pytest.fixture
def anchor(run):
    """Return a function that anchors a store, by default to `list.jsonl`."""

    def anchor(*words, store="agent.db", to="list.jsonl"):
        code, printed = run("anchor", store, "--to", to, *words)
        assert code == 0, printed
        return lines_of(to)

    return anchor


@pytest.fixture
def check(run):
    """Return a function that checks a store's chains, with a list; it returns code and text."""

    def check(*words, store="agent.db"):
        code, shown = run("check", store, "--chain", *words)
        return code, shown if "--json" in words else " ".join(shown.split())

    return check


def lines_of(file):
    return [json.loads(line) for line in Path(file).read_bytes().splitlines()]


async def _write(store, session_id, names):
    for name in names:
        message = UserMessage(id=name, content=f"pay {name}")
        await store.append(session_id, AppendRequest(message=message, records=[record(name)]))


def write(session_id, *names, path="agent.db"):
    """Append a message and a record for each of *names*."""

    async def append():
        opened = PostgresStore(path) if "://" in str(path) else SqliteStore(path)
        async with opened as store:
            await _write(store, session_id, names)

    asyncio.run(append())


_MESSAGES = """SELECT key, body, seal, seq, version, id FROM {}messages
    WHERE session = ? ORDER BY seq"""
_BATCHES = """SELECT batch.key, batch.body, batch.seal, one.seq, batch.seq, records, batch.version
    FROM {}ledger AS batch JOIN {}messages AS one ON one.key = batch.key
    WHERE one.session = ? ORDER BY batch.seq"""


def _label(values):
    return ":".join(map(str, values))


class Attacker:
    """A writer of a store's tables who has no key; *schema* is "toolbus." on a server."""

    def __init__(self, connection, schema=""):
        self._connection, self._schema = connection, schema

    def do(self, statement, *values):
        """Execute *statement*; `{}` is the schema, and each ? a value."""
        statement = statement.replace("{}", self._schema)
        if self._schema:
            statement = statement.replace("?", "%s")
        done = self._connection.execute(statement, values)
        rows = done.fetchall() if done.description else []
        self._connection.commit()
        return rows

    def change(self, name, old, new):
        """Change the text of the message *name*, with its checksum."""
        ((body,),) = self.do("SELECT body FROM {}messages WHERE id = ?", name)
        changed = body.replace(old, new)
        assert changed != body
        values = (changed, crc32(changed.encode()), name)
        self.do("UPDATE {}messages SET body = ?, checksum = ? WHERE id = ?", *values)

    def cut(self, name):
        """Remove the message *name*, the last one, with its record and their counts."""
        ((key, session),) = self.do("SELECT key, session FROM {}messages WHERE id = ?", name)
        self.do("DELETE FROM {}ledger WHERE key = ?", key)
        self.do("DELETE FROM {}messages WHERE key = ?", key)
        counts = "messages = messages - 1, records = records - 1"
        self.do(f"UPDATE {{}}sessions SET {counts} WHERE key = ?", session)

    def remove(self, session_id):
        """Remove all of a session."""
        ((key,),) = self.do("SELECT key FROM {}sessions WHERE id = ?", session_id)
        mine = "key IN (SELECT key FROM {}messages WHERE session = ?)"
        self.do(f"DELETE FROM {{}}ledger WHERE {mine}", key)
        for table in ("messages", "links", "states"):
            self.do(f"DELETE FROM {{}}{table} WHERE session = ?", key)
        self.do("DELETE FROM {}sessions WHERE key = ?", key)

    def relink(self, session_id):
        """Make all links of a session's messages and records anew, under its old name."""
        row = self.do("SELECT key, chain FROM {}sessions WHERE id = ?", session_id)
        ((session, column),) = row
        chains = Chains(session_id, column[:16] + bytes(len(column) - 16))
        messages = self.do(_MESSAGES, session)
        batches = self.do(_BATCHES, session)
        for kind, table, rows in ((MESSAGES, "messages", messages), (BATCHES, "ledger", batches)):
            for key, body, seal, *label in rows:
                link = chains.extend(kind, commitment(seal[:16], body.encode()), _label(label))
                self.do(f"UPDATE {{}}{table} SET seal = ? WHERE key = ?", seal[:16] + link, key)
        self.do("UPDATE {}sessions SET chain = ? WHERE key = ?", chains.column, session)


@contextmanager
def attacker(path="agent.db"):
    with closing(sqlite3.connect(path)) as connection:
        yield Attacker(connection)


@pytest.fixture
def anchored(here, anchor):
    """Return the current folder, with a store of two sessions and a list with its heads."""
    write("monday", "m1", "m2", "m3")
    write("tuesday", "t1")
    anchor()
    return here


def test_a_line_has_what_changed(anchored, anchor):
    write("tuesday", "t2")

    first, second = anchor()

    assert (len(first["chains"]), len(second["chains"])) == (2, 1)
    assert second["chains"].keys() < first["chains"].keys()
    assert (first["previous"], second["previous"]) == ("", first["signature"])
    text = (anchored / "list.jsonl").read_text()
    assert "monday" not in text
    assert "tuesday" not in text
    assert (anchored / "list.jsonl").stat().st_mode & 0o777 == 0o600


def test_an_untouched_store_agrees_with_its_list(anchored, anchor, check):
    write("tuesday", "t2")
    write("wednesday", "w1")
    *_, last = anchor()
    write("monday", "m4")

    code, shown = check("--anchor", "list.jsonl")
    json_code, document = check("--anchor", "list.jsonl", "--json")

    assert (code, json_code) == (0, 0)
    moment = last["time"].replace("T", " ").replace("+00:00", " UTC")
    newest = f"2 anchored lines, the last one of {moment}, signature {last['signature']}"
    assert newest in shown
    assert (json.loads(document)["problems"], json.loads(document)["notes"]) == ([], [newest])


def test_a_forgotten_session_is_listed(anchored, anchor, check, run):
    moment = datetime.now(UTC).isoformat()
    write("tuesday", "t2")
    assert run("forget", "agent.db", "--before", moment)[0] == 0

    before, told = check("--anchor", "list.jsonl")
    first, second = anchor()
    after, shown = check("--anchor", "list.jsonl")

    assert (before, after) == (0, 0), shown
    assert "1 session forgotten since the last line" in told
    assert "since" not in shown
    assert (len(second["chains"]), len(second["forgotten"])) == (1, 1)
    assert second["forgotten"][0] in first["chains"].keys() - second["chains"].keys()


def test_an_older_store_begins_later(here, anchor, check):
    for file in (Path(__file__).parents[1] / "fixtures").glob("store-0.1.0.db*"):
        shutil.copyfile(file, here / file.name.replace("store-0.1.0", "agent"))

    anchor()
    write("plain", "new")
    first, second = anchor()

    assert (len(first["chains"]), len(second["chains"])) == (0, 1)
    code, shown = check("--anchor", "list.jsonl")
    assert code == 0, shown


def test_a_rewritten_message_is_found(anchored, check):
    with attacker() as writer:
        writer.change("m2", "pay", "see")
        writer.relink("monday")

    code, shown = check("--anchor", "list.jsonl")

    assert check()[0] == 0
    assert code == 1
    assert "session 'monday' lacks" in shown
    assert "line 1" in shown


def test_a_removed_end_is_found(anchored, check):
    with attacker() as writer:
        writer.cut("m3")
        writer.relink("monday")

    code, shown = check("--anchor", "list.jsonl")

    assert check()[0] == 0
    assert code == 1
    assert "session 'monday' lacks" in shown


def test_a_removed_session_is_found(anchored, check):
    with attacker() as writer:
        writer.remove("tuesday")

    code, shown = check("--anchor", "list.jsonl")

    assert check()[0] == 0
    assert code == 1
    assert "a chain without a session, first in line 1" in shown


def test_a_replaced_file_is_found(anchored, check):
    write("monday", "m1", "m2", "m3", path="new.db")
    write("tuesday", "t1", path="new.db")
    Path("new.db").replace("agent.db")

    code, shown = check("--anchor", "list.jsonl")

    assert code == 1
    assert "2 chains without a session, first in line 1" in shown


def test_a_removed_session_is_told_when_anchored(anchored, run):
    with attacker() as writer:
        writer.remove("tuesday")

    code, shown = run("anchor", "agent.db", "--to", "list.jsonl")

    assert code == 0
    assert "warning: 1 anchored chain not in the store, and not forgotten" in shown


def test_a_forged_tombstone_shows_as_forgotten(anchored, check):
    with attacker() as writer:
        (row,) = writer.do("SELECT chain FROM sessions WHERE id = 'tuesday'")
        writer.remove("tuesday")
        writer.do("INSERT INTO forgotten VALUES (?, 0)", *row)

    code, shown = check("--anchor", "list.jsonl")

    assert code == 0, shown
    assert "1 session forgotten, the last one on 1970-01-01" in shown
    assert "1 session forgotten since the last line" in shown


def test_a_session_put_back_is_found(anchored, anchor, check, run):
    shutil.copy("agent.db", "old.db")
    moment = datetime.now(UTC).isoformat()
    write("tuesday", "t2")
    assert run("forget", "agent.db", "--before", moment)[0] == 0
    anchor()
    Path("old.db").replace("agent.db")

    code, shown = check("--anchor", "list.jsonl")

    assert code == 1
    assert "session 'monday' was forgotten by line 2, and is in the store again" in shown


@pytest.fixture
def three_lines(anchored, anchor):
    """Return the three lines of a list, and how to write others in their place."""
    for name in ("t2", "t3"):
        write("tuesday", name)
        anchor()
    file = anchored / "list.jsonl"
    return file.read_bytes().splitlines(keepends=True), lambda lines: file.write_bytes(
        b"".join(lines)
    )


def test_a_removed_line_is_found(three_lines, check):
    (first, _, third), replace = three_lines
    replace([first, third])

    code, shown = check("--anchor", "list.jsonl")

    assert code == 1
    assert "line 2 does not follow the line before" in shown


def test_reordered_lines_are_found(three_lines, check):
    (first, second, third), replace = three_lines
    replace([first, third, second])

    code, shown = check("--anchor", "list.jsonl")

    assert code == 1
    assert "line 2 does not follow the line before" in shown


def test_a_changed_line_is_found(three_lines, check, run):
    (first, second, third), replace = three_lines
    replace([first, second.replace(b'"time":"20', b'"time":"19'), third])

    code, shown = check("--anchor", "list.jsonl")
    refused = run("anchor", "agent.db", "--to", "list.jsonl")

    assert code == 1
    assert "line 2 has a wrong signature: it was changed" in shown
    assert refused[0] == 2
    assert "line 2 has a wrong signature" in refused[1]
    assert len(lines_of("list.jsonl")) == 3


def test_a_wrong_key_fits_no_line(anchored, check):
    code, shown = check("--anchor", "list.jsonl", "--key", "env:TOOLBUS_ANCHOR_KEY")

    assert code == 1
    assert "line 1 has a wrong signature: it was changed, or another key signed it" in shown


def test_a_check_makes_no_key(anchored, check):
    file = next((anchored.parent / "state").rglob("*.key"))
    file.unlink()

    code, shown = check("--anchor", "list.jsonl")

    assert code == 2
    assert f"there is no key '{file}'; name the list's key" in shown
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [("", 1, "has no lines"), ("pass\n", 1, "not a list"), (None, 2, "no such file")],
)
def test_a_list_without_lines_is_found(anchored, check, text, code, told):
    file = anchored / "list.jsonl"
    file.unlink() if text is None else file.write_text(text)

    found, shown = check("--anchor", "list.jsonl")

    assert found == code
    assert told in shown


def test_a_cut_end_shows_in_the_report(three_lines, check):
    lines, replace = three_lines
    replace(lines[:2])

    code, shown = check("--anchor", "list.jsonl")

    assert code == 0
    assert "2 anchored lines" in shown
    assert json.loads(lines[1])["signature"] in shown


@pytest.mark.full
def test_a_hostile_list_is_refused(anchored, run):
    files = {name: anchored / name for name in ("text", "other", "long", "open", "link", "pipe")}
    files["text"].write_text("notes without an end")
    files["other"].write_text('{"a": 1}\n' * 3)
    with files["long"].open("wb") as stream:
        stream.write(b'{"toolbus_anchor":1')
        stream.truncate(200_000_000)
    shutil.copy("list.jsonl", files["open"])
    files["open"].chmod(0o666)
    files["link"].symlink_to("list.jsonl")
    os.mkfifo(files["pipe"])
    (anchored / "folder").mkdir()
    before = {name: files[name].read_bytes()[:1000] for name in ("text", "other", "open", "link")}

    for name in (*files, "folder"):
        code, shown = run("anchor", "agent.db", "--to", name)
        assert code in {1, 2}, name
        assert shown.startswith("error: "), name
        if name != "open":
            code, shown = run("check", "agent.db", "--chain", "--anchor", name)
            assert code in {1, 2}, name
            assert "Traceback" not in shown, name

    assert {name: files[name].read_bytes()[:1000] for name in before} == before
    assert files["long"].stat().st_size == 200_000_000


def test_the_list_of_another_store_is_refused(anchored, run):
    write("monday", "m1", path="other.db")

    code, shown = run("anchor", "other.db", "--to", "list.jsonl")

    assert code == 2
    assert "the list of another store" in shown
    assert len(lines_of("list.jsonl")) == 1


@contextmanager
def staying(*words):
    """Run `toolbus anchor agent.db` with *words* until the end of the block."""
    command = [sys.executable, "-m", "toolbus", "anchor", "agent.db", *map(str, words)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_lines_follow_the_counted_writes(anchored):
    with staying("--to", "list.jsonl", "--every", 6) as process:
        begun = process.stdout.readline()
        write("tuesday", "t2", "t3")
        write("tuesday", "t4")
        grown = process.stdout.readline()
        process.terminate()
        ended = process.stdout.read()

    assert begun.startswith("line 2: 0 changed chains")
    assert grown.startswith("line 3: 1 changed chain,")
    assert ended.startswith("line 4: 0 changed chains")
    assert len(lines_of("list.jsonl")) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_with_a_last_line(anchored, check, number):
    with staying("--to", "list.jsonl", "--every", 1000) as process:
        process.stdout.readline()
        write("tuesday", "t2")
        process.send_signal(number)
        ended, errors = process.communicate(timeout=30)

    assert (process.returncode, errors) == (0, "")
    assert ended.startswith("line 3: 1 changed chain,")
    with attacker() as writer:
        writer.cut("t2")
        writer.relink("tuesday")
    assert "line 3" in check("--anchor", "list.jsonl")[1]


def test_a_list_cut_meanwhile_ends_it(anchored):
    with staying("--to", "list.jsonl", "--every", 1) as process:
        process.stdout.readline()
        first = (anchored / "list.jsonl").read_bytes().splitlines(keepends=True)[0]
        (anchored / "list.jsonl").write_bytes(first)
        write("tuesday", "t2")
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 2
    assert "line 2 was changed or removed after it was written" in errors


class Receiver:
    """A server on this machine that keeps what it takes; *replies* are its first statuses."""

    def __init__(self, replies=(), port=0):
        self.got, self.replies = [], list(replies)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.replies.pop(0) if receiver.replies else 204
                receiver.got.append((status, dict(self.headers.items()), body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/anchors?token=secret"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    @property
    def taken(self):
        """The bodies of the messages that were taken."""
        return [body for status, _, body in self.got if status == 204]


KEY_WORDS = ("--key", "env:TOOLBUS_ANCHOR_KEY")


def test_a_webhook_gets_signed_lines(anchored, run, check):
    with Receiver() as receiver:
        code, shown = run("anchor", "agent.db", "--to", receiver.url, *KEY_WORDS)

    ((_, headers, body),) = receiver.got
    headers = {name.lower(): value for name, value in headers.items()}
    assert code == 0, shown
    assert WebhookSecret(KEY.encode()).refusal(headers, body, time.time()) is None
    assert headers["webhook-id"] == f"anchor_{json.loads(body)['signature']}"
    (anchored / "received.jsonl").write_bytes(body)
    assert check("--anchor", "received.jsonl", *KEY_WORDS)[0] == 0


@pytest.mark.full
def test_a_failed_message_is_repeated_unchanged(anchored, check):
    with Receiver([503]) as receiver:
        words = ("--to", receiver.url, "--every", 1, *KEY_WORDS)
        with staying(*words) as process:
            refused = process.stderr.readline()
            receiver.__exit__()
            gone = process.stderr.readline()
            write("tuesday", "t2")
            with Receiver(port=receiver.port) as again:
                process.stdout.readline()
                process.stdout.readline()
                process.terminate()
                process.communicate(timeout=30)
                assert process.returncode == 0

    assert "it replied 503; the next attempt is in 5 seconds" in refused
    assert "the next attempt is in 5 seconds" in gone
    assert "secret" not in refused + gone
    (_, first_headers, first_body), (_, headers, body), *_ = [*receiver.got, *again.got]
    assert first_body == body
    assert first_headers["webhook-id"] == headers["webhook-id"]
    (anchored / "received.jsonl").write_bytes(b"".join(again.taken))
    code, shown = check("--anchor", "received.jsonl", *KEY_WORDS)
    assert code == 0, shown
    assert len(lines_of("received.jsonl")[1]["chains"]) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["ftp://127.0.0.1/x"], "an address with https://"),
        (["http://127.0.0.1:9/x"], "a webhook needs --key"),
        (["https://me:word@127.0.0.1/x", *KEY_WORDS], "a user name, password"),
        (["http://example.com/x", *KEY_WORDS], "unencrypted to 'example.com'"),
    ],
)
def test_a_webhook_without_a_key_is_refused(anchored, run, words, reason):
    code, shown = run("anchor", "agent.db", "--to", *words)

    assert code == 2
    assert reason in shown
    assert "word" not in shown.replace("password", "")


def test_no_judged_tool_may_sign(anchored, tmp_path):
    key = tmp_path / "config/toolbus/anchor.key"
    key.parent.mkdir(parents=True)
    key.write_text(KEY)
    (anchored / "rules.toml").write_text('default = "allow"\nfolder = "."\n')
    before = (anchored / "list.jsonl").read_bytes()
    commands = [
        "toolbus anchor agent.db --to new.jsonl",
        f"cat {key}",
        f"cat {tmp_path}/state/toolbus/hidden-values.key",
        "echo > list.jsonl",
        "rm list.jsonl",
        "head -1 list.jsonl > cut && mv cut list.jsonl",
        "tail -1 list.jsonl",
    ]
    calls = [
        ToolCall(id=f"c{number}", name="shell", arguments={"command": command})
        for number, command in enumerate(commands)
    ]
    model = ScriptedModel([AssistantMessage(tool_calls=tuple(calls)), "done"])
    components = [ShellTool(), Policy.read("rules.toml")]

    asyncio.run(Agent(model, components=components).run("hide it"))

    answers = [str(each) for each in model.requests[1].messages if each.role == "tool"]
    denied = ["a protection that no rule lifts" in answer for answer in answers]
    assert denied == [True] * 6 + [False]
    assert (anchored / "list.jsonl").read_bytes() == before


@pytest.mark.full
def test_a_rewritten_database_is_found(here, database, anchor, check):
    write("monday", "m1", "m2", path=database)
    anchor(store=database)
    with closing(psycopg.connect(database)) as connection:
        writer = Attacker(connection, "toolbus.")
        writer.change("m1", "pay", "see")
        writer.relink("monday")

    code, shown = check("--anchor", "list.jsonl", store=database)

    assert check(store=database)[0] == 0
    assert code == 1
    assert "session 'monday' lacks" in shown
