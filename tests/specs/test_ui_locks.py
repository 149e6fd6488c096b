"""The scenarios of `specs/ui_locks.md`."""

import asyncio
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from tests.servers.terminal import PROGRAM, Terminal, without_agents

import toolbus
from toolbus import UserMessage
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.ui.locks import LINK_SECONDS, UiLocks
from ui_server import running_ui

ADDRESSES = [
    *("/", "/sessions/private-session", "/messages/private-session/m", "/calls/private-session/c"),
    *("/questions", "/figures", "/replay/private-session", "/diff?left=a&right=b", "/events", "/x"),
]
SOURCE = str(Path(toolbus.__file__).parents[1])
PERSON = [sys.executable, "-c", PROGRAM]
WAY_OUT = "press Enter at the terminal of `toolbus ui` for a new link"
NEW_LINK = re.compile(r"(http://(\S+\.localhost:(\d+))/enter\?code=([\w-]+))")
CODE = re.compile(r"answer code\b.*: ([A-Z2-9]{4}-[A-Z2-9]{4})\n")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return the file of a store with one session."""
    path = tmp_path_factory.mktemp("store") / "agent.db"

    async def fill():
        async with SqliteStore(path) as opened:
            message = UserMessage(id="m", content="the private text")
            await opened.append("private-session", AppendRequest(message=message))

    asyncio.run(fill())
    return path


@pytest.fixture(scope="module")
def ui(store):
    """Return a running page for the tests that leave it as it was."""
    with running_ui(store) as running:
        yield running


@pytest.fixture
def public_folder():
    """Return a folder that all can read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def code_of(link):
    return link.query.removeprefix("code=")


def raw(port, data, *, seconds=20):
    """Return what a connection answers to *data*."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        received = b""
        with suppress(ConnectionError):
            while piece := connection.recv(65_536):
                received += piece
    return received.decode("latin-1")


@contextmanager
def shown(*arguments, store, tmp_path, **variables):
    """Give `toolbus ui` at a terminal, without a browser, and what it has printed first."""
    env = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
    env |= {"TMPDIR": str(tmp_path), "PYTHONPATH": SOURCE}
    env.pop("BROWSER", None)
    with Terminal(["ui", store, *arguments], cwd=tmp_path, env=env | variables) as terminal:
        yield terminal, terminal.expect("Ctrl-C ends.\n")
        with suppress(OSError):
            terminal.type("\x04")
        terminal.end()


# --- a link logs in one browser ------------------------------------------------------------------


def test_a_link_logs_in_once(ui):
    code = code_of(ui.link())

    first = ui.post("/enter", {"code": code}, cookie=None)
    second = ui.post("/enter", {"code": code}, cookie=None)

    assert (first.status, first.headers["location"]) == (303, "/")
    assert first.headers["set-cookie"].startswith(f"toolbus-{ui.port}=")
    assert first.headers["set-cookie"].endswith("; HttpOnly; Path=/; SameSite=strict")
    assert second.status == 403
    assert f"this link has been used; {WAY_OUT}" in second.text
    assert "set-cookie" not in second.headers


def test_opening_a_link_uses_nothing_up(ui):
    link = ui.link()
    path = f"{link.path}?{link.query}"

    opened = [
        ui.get(path, cookie=None),
        ui.send("HEAD", path, cookie=None),
        ui.get(path, cookie=None, sec_purpose="prefetch;prerender", sec_fetch_site="none"),
    ]

    assert [answer.status for answer in opened] == [200] * 3
    assert not any("set-cookie" in answer.headers for answer in opened)
    assert f'value="{code_of(link)}"' in opened[0].text
    assert ui.post("/enter", {"code": code_of(link)}).status == 303


def test_an_old_link_says_why(store):
    clock = Clock()
    with running_ui(store, clock=clock) as ui:
        expired = code_of(ui.link())
        clock.now = LINK_SECONDS + 1
        answers = [ui.post("/enter", {"code": expired})]
        replaced, _ = code_of(ui.link()), ui.link()
        answers.append(ui.post("/enter", {"code": replaced}))
        answers.append(ui.post("/enter", {"code": UiLocks(1).new_links()[0]}))

    assert [answer.status for answer in answers] == [403] * 3
    reasons = ("this link has expired", "a newer link was made", "this link is unknown")
    for reason, answer in zip(reasons, answers, strict=True):
        assert f"{reason}; {WAY_OUT}" in answer.text


def test_wrong_links_end_the_link(store):
    with running_ui(store) as ui:
        code = code_of(ui.link())
        tries = [ui.post("/enter", {"code": f"wrong{number}"}).status for number in range(100)]
        late, renewed = ui.post("/enter", {"code": code}), code_of(ui.link())

        assert set(tries) == {403}
        assert f"too many wrong links were tried; {WAY_OUT}" in late.text
        assert ui.post("/enter", {"code": renewed}).status == 303


def test_without_a_login_nothing_is_shown(ui, store):
    with running_ui(store) as other:
        cookie = f"toolbus-{ui.port}={other.cookie.partition('=')[2]}"

    for address in ADDRESSES:
        for held in (None, cookie, "", f"toolbus-{ui.port}=", f"toolbus-{ui.port}=é", "a=b; ; =;"):
            answer = ui.get(address, cookie=held)

            assert (address, answer.status) == (address, 401)
            assert "private" not in answer.text
            assert "press Enter" in answer.text
            # After a link on another page, a browser sends its cookie with this one.
            assert '<a href="/">' in answer.text


@pytest.mark.full
def test_chromium_follows_the_private_file(store, open_page, tmp_path, public_folder):
    for scripts in (True, False):
        with shown(store=store, tmp_path=tmp_path) as (_, printed):
            (private,) = tmp_path.glob("toolbus-ui-*/open.html")
            # Chromium may run as another user here.
            (public_folder / "open.html").write_text(private.read_text())
            page = open_page(scripts=scripts, innocent=False)
            page.goto((public_folder / "open.html").as_uri())
            page.wait_for_url("**/enter?code=*")
            page.get_by_role("button").press("Enter")
            page.wait_for_url(re.compile(r"localhost:\d+/$"))

            (cookie,) = page.context.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
            assert cookie["domain"] == NEW_LINK.search(printed)[2].partition(":")[0]


# --- only the page's addresses answer ------------------------------------------------------------


def test_another_host_name_is_refused(ui):
    number = ui.port
    hosts = ["evil.example", f"evil.example:{number}", f"localhost:{number}", f"[::1]:{number}"]
    hosts += [ui.host.partition(":")[0], f"{ui.host}.", f"x.{ui.host}", f"127.0.0.1:{number + 1}"]

    assert [ui.get("/", host=host).status for host in hosts] == [421] * len(hosts)
    assert [ui.get("/enter", host=host).status for host in hosts] == [421] * len(hosts)
    twice = f"GET / HTTP/1.1\r\nhost: {ui.host}\r\nhost: evil\r\ncookie: {ui.cookie}\r\n\r\n"
    assert raw(number, twice.encode()).startswith("HTTP/1.1 400 ")
    none = f"GET / HTTP/1.0\r\ncookie: {ui.cookie}\r\n\r\n"
    assert raw(number, none.encode()).startswith("HTTP/1.1 421 ")
    forwarded = ui.get("/", host="evil", x_forwarded_host=ui.host, forwarded=f"host={ui.host}")
    assert forwarded.status == 421


def test_a_login_holds_at_its_host(ui):
    entered = ui.post("/enter", {"code": code_of(ui.link())}, host=ui.locks.numeric_host)
    numeric = entered.headers["set-cookie"].partition(";")[0]

    assert ui.get("/x", cookie=numeric, host=ui.locks.numeric_host).status == 404
    assert ui.get("/x", cookie=numeric).status == 401
    assert ui.get("/x", host=ui.locks.numeric_host).status == 401


def test_at_127_0_0_1_the_page_only_reads(store):
    with running_ui(store, numeric=True) as ui:
        read = ui.get("/x")
        posts = [
            ui.post(path, origin=ui.url)
            for path in ("/questions", "/replay/private-session", "/x", "/")
        ]

    assert read.status == 404
    assert [answer.status for answer in posts] == [403] * 4
    assert "at 127.0.0.1 this page only reads" in posts[0].text


def test_odd_requests_are_refused(ui):
    for method in ("TRACE", "OPTIONS", "PUT", "DELETE", "PATCH", "CONNECT", "QUERY", "get"):
        assert ui.send(method, "/enter").status in {400, 403}
        own = {"origin": ui.url, "sec_fetch_site": "same-origin"}
        assert ui.send(method, "/enter", **own).status in {400, 405}
    override = {"x_http_method_override": "POST", "x_method_override": "POST"}
    assert ui.get("/enter?_method=POST&code=x", **override).status == 200
    websocket = {"connection": "upgrade", "upgrade": "websocket", "sec_websocket_key": "eHg="}
    assert ui.get("/x", sec_websocket_version="13", **websocket).status == 404

    odd = ["//evil.example/", "//evil.example/..", f"http://{ui.host}/", "http://evil.example/"]
    odd += [
        "*",
        "/..//x",
        "/sessions/../../x",
        "/%2e%2e/x",
        "/enter/",
        "/enter/..",
        "/\\evil",
        "/;/x",
        "/calls%2Fx",
        "/messages/",
    ]
    for target in odd:
        answer = ui.get(target)
        assert (target, answer.status) in {(target, 400), (target, 404)}
        assert "location" not in answer.headers
        assert ui.get(target, cookie=None).status in {400, 401}


def test_ids_put_nothing_into_headers(ui):
    hostile = "%0d%0aset-cookie:%20a=b%0d%0a%0d%0a<script>alert(1)</script>%22%27%00%E2%80%AE"
    usual = set(ui.get("/x").headers)

    for path in ("/x", "/sessions/", "/messages/a/", "/enter?code="):
        answer = ui.get(f"{path}{hostile}")
        assert set(answer.headers) == usual
        assert "<script>alert" not in answer.text
    assert ui.get("/x", cookie=f"{ui.cookie}; x=\x00<script>").status in {400, 404}


def test_large_requests_are_refused(ui):
    form = {"content_type": "application/x-www-form-urlencoded"}

    for head in (f"GET /{'x' * 2**20}", f"GET / HTTP/1.1\r\nx-large: {'x' * 2**20}"):
        # The connection may be closed before all of it is sent.
        with suppress(ConnectionError):
            assert raw(ui.port, head.encode()).startswith("HTTP/1.1 400 ")
    assert ui.post("/questions", {"a": "x" * 70_000}).status == 413
    assert ui.post("/questions", {f"a{number}": "" for number in range(101)}).status == 400
    assert ui.post("/questions", [("a", "1"), ("a", "2")]).status == 400
    for content_type in ("text/plain", "multipart/form-data; boundary=x", "application/json", ""):
        assert ui.post("/questions", content_type=content_type).status == 415
    assert ui.send("POST", "/questions", "é=1", origin=ui.url, **form).status == 400
    endless = f"POST /x HTTP/1.1\r\nhost: {ui.host}\r\ncookie: {ui.cookie}\r\norigin: {ui.url}\r\n"
    endless += f"content-type: {form['content_type']}\r\ntransfer-encoding: chunked\r\n\r\n"
    endless += f"10000\r\n{'x' * 2**16}\r\n" * 2
    assert raw(ui.port, endless.encode()).startswith("HTTP/1.1 413 ")
    assert ui.get("/x").status == 404


@pytest.mark.full
def test_slow_requests_are_cut_off(store):
    with running_ui(store) as ui:
        head = f"POST /x HTTP/1.1\r\nhost: {ui.host}\r\ncookie: {ui.cookie}\r\norigin: {ui.url}\r\n"
        head += "content-type: application/x-www-form-urlencoded\r\ncontent-length: 9\r\n\r\na"
        begun, answers = time.monotonic(), []
        slow = threading.Thread(target=lambda: answers.append(raw(ui.port, head.encode())))
        slow.start()
        time.sleep(0.2)  # Until it is accepted.
        idle = [socket.create_connection(("127.0.0.1", ui.port)) for _ in range(100)]
        for each in idle[1:]:
            each.sendall(b"GET / HTTP/1.1\r\n")
        assert ui.get("/x").status == 503

        for each in idle:
            each.settimeout(20)
            with suppress(ConnectionError):
                assert each.recv(1) == b""
            each.close()
        slow.join()

        assert 4 < time.monotonic() - begun < 15
        assert answers == [""]
        assert ui.get("/x").status == 404


# --- other pages get nothing ---------------------------------------------------------------------


def test_a_foreign_page_sends_nothing(ui):
    other_port = f"http://{ui.host.partition(':')[0]}:1"
    posts = [
        {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
        {"origin": "https://evil.example", "sec_fetch_site": None},
        {"origin": other_port, "sec_fetch_site": "same-site"},
        {"origin": other_port, "sec_fetch_site": None},
        {"origin": f"http://{ui.locks.numeric_host}", "sec_fetch_site": "cross-site"},
        {"origin": f"https://{ui.host}", "sec_fetch_site": None},
        {"origin": "null", "sec_fetch_site": "cross-site"},  # A file, or a frame in a sandbox.
        {"origin": "null", "sec_fetch_site": None},
        {"origin": None, "sec_fetch_site": None},
        {"origin": ui.url, "sec_fetch_site": "same-site"},
        {"origin": ui.url, "sec_fetch_site": "none"},
        {"origin": None, "sec_fetch_site": "same-origin"},
        {"origin": "", "sec_fetch_site": "same-origin"},
    ]
    page = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    gets = [
        {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": purpose}
        for site in ("cross-site", "same-site")
        for mode, purpose in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"))
    ]
    gets += [{"origin": "https://evil.example"}, {"origin": other_port, "sec_fetch_site": None}]

    for path in ("/enter", "/questions", "/x"):
        assert {ui.post(path, **headers).status for headers in posts} == {403}
        assert {ui.get(path, **headers).status for headers in gets} == {403}
    for site in ("cross-site", "same-site"):
        assert ui.get("/events", sec_fetch_site=site, **page).status == 403
        # A link on another page may lead here.
        assert ui.get("/x", sec_fetch_site=site, **page).status == 404


def test_our_own_page_may_send(ui):
    own = [
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"origin": ui.url, "sec_fetch_site": "same-origin"},
        {"origin": ui.url, "sec_fetch_site": None},  # A browser that does not send it.
        {"content_type": "application/x-www-form-urlencoded;charset=UTF-8"},
    ]

    assert {ui.post("/x", **headers).status for headers in own} == {404}
    assert ui.get("/x", sec_fetch_site="same-origin", sec_fetch_dest="empty").status == 404


def test_each_response_has_its_headers(ui):
    answers = [
        *(ui.get("/enter?code=x"), ui.get("/x"), ui.get("/x", cookie=None), ui.send("PUT", "/x")),
        *(ui.get("/x", host="evil"), ui.get("//x"), ui.send("HEAD", "/x"), ui.get("/")),
        *(ui.post("/x", origin="evil"), ui.post("/enter"), ui.post("/x", {"a": "x" * 70_000})),
        ui.post("/enter", {"code": code_of(ui.link())}),
    ]

    for answer in answers:
        headers = answer.headers
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers
        policy = set(headers["content-security-policy"].split("; "))
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= policy
        assert "unsafe" not in headers["content-security-policy"]
        if "html" in headers.get("content-type", ""):
            own = {"connect-src 'self'", "form-action 'self'", "base-uri 'none'"}
            assert own <= policy
            assert re.search(r"<style nonce=|^$", answer.text)
            assert not re.search(r"\s(style|on\w+)=", answer.text)
    nonces = [
        re.search(r"'nonce-([^']+)'", answer.headers["content-security-policy"])
        for answer in answers[:3]
    ]
    assert len({nonce[1] for nonce in nonces}) == 3


def test_a_form_token_fits_one_form(ui, store):
    locks = ui.locks
    login = locks.enter(code_of(ui.link()), ui.host)
    other = locks.enter(code_of(ui.link()), ui.host)
    token = locks.form_token(login, "answer", "id", "digest")

    assert locks.check_form_token(token, login, "answer", "id", "digest")
    assert not locks.check_form_token(token, other, "answer", "id", "digest")
    for subject in (("replay", "id", "digest"), ("answer", "iddigest"), ("answer", "id", "other")):
        assert not locks.check_form_token(token, login, *subject)
    for wrong in ("", "é", token.upper(), f"{token} "):
        assert not locks.check_form_token(wrong, login, "answer", "id", "digest")
    assert not UiLocks(ui.port).check_form_token(token, login, "answer", "id", "digest")


# --- answers need the person at the terminal -----------------------------------------------------


def test_five_wrong_codes_end_answers(store):
    with running_ui(store) as ui:
        lock, results = ui.locks.answer_lock, []
        threads = [
            threading.Thread(target=lambda: results.append(lock.check("AAAA-AAAA")))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert not any(result.accepted for result in results)
        assert sum("tries remain" in result.text for result in results) == 4
        off = "answers are off after 5 wrong codes; press Enter at the terminal of `toolbus ui`"
        assert lock.check(ui.code).text == f"{off} for a new code"
        renewed = lock.show()
        assert renewed != ui.code
        assert not lock.check(ui.code).accepted
        assert lock.check(renewed.lower().replace("-", " ")).accepted


def logged_in(link):
    """Return the connection and headers of a browser that has followed *link*."""
    _, host, port, code = NEW_LINK.search(link).groups()
    headers = {"host": host, "origin": f"http://{host}"}
    headers["content-type"] = "application/x-www-form-urlencoded"
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    connection.request("POST", "/enter", f"code={code}", headers)
    answer = connection.getresponse()
    answer.read()
    cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
    return connection, {"host": host, "cookie": cookie}, answer.status


def everything_in(folder):
    return b"".join([path.read_bytes() for path in folder.rglob("*") if path.is_file()]).decode(
        errors="replace"
    )


def test_the_code_is_on_the_terminal_alone(store, tmp_path):
    ours, theirs = os.openpty()
    command = [*PERSON, str(os.getpid()), str(theirs), "toolbus", "ui", store, "--no-open"]
    env = without_agents(os.environ) | {"TMPDIR": str(tmp_path), "PYTHONPATH": SOURCE}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs],
            start_new_session=True,
        )
    os.close(theirs)
    printed = ""
    while "Ctrl-C ends." not in printed:
        printed += os.read(ours, 65_536).decode().replace("\r\n", "\n")
    code, (link, _, _, secret) = CODE.search(printed)[1], NEW_LINK.search(printed).groups()
    connection, headers, status = logged_in(printed)
    pages = ""
    for address in ADDRESSES:
        if address != "/events":
            connection.request("GET", address, headers=headers)
            answer = connection.getresponse()
            pages += str(answer.getheaders()) + answer.read().decode()
    process_files = [Path(f"/proc/{process.pid}/{name}") for name in ("cmdline", "environ")]
    known = "".join([path.read_text() for path in process_files if path.exists()])
    known += (tmp_path / "log").read_text()
    files = everything_in(tmp_path)
    process.terminate()
    process.wait()
    os.close(ours)

    assert status == 303
    for text in (code, code.replace("-", "")):
        assert text not in known + files + pages
    for text in (link, secret, headers["host"]):
        assert text not in known
    assert secret in files  # In the private file.
    assert secret not in pages
    assert "Traceback" not in (tmp_path / "log").read_text()


READERS = {"TMUX": ("/tmp/tmux-0/default,1,0", "tmux"), "TERM_PROGRAM": ("vscode", "the editor")}


@pytest.mark.parametrize("variable", [*READERS, None])
def test_a_terminal_that_others_read_is_named(store, tmp_path, monkeypatch, variable):
    others = "STY ZELLIJ KITTY_LISTEN_ON WEZTERM_UNIX_SOCKET ASCIINEMA_REC INSIDE_EMACS NVIM"
    for name in (*READERS, *others.split()):
        monkeypatch.delenv(name, raising=False)
    variables = {} if variable is None else {variable: READERS[variable][0]}
    with shown(store=store, tmp_path=tmp_path, **variables) as (_, printed):
        before_code = printed.partition("The answer code")[0]

    if variable is None:
        assert "shell can read this terminal" not in printed
    else:
        warning = f"A model's shell can read this terminal by {READERS[variable][1]}"
        assert before_code.startswith(warning)


def test_enter_prints_a_new_link(store, tmp_path):
    with shown(store=store, tmp_path=tmp_path) as (terminal, first):
        terminal.type("\n")
        second = terminal.expect("Ctrl-C ends.\n")
        (private,) = tmp_path.glob("toolbus-ui-*/open.html")
        text = private.read_text()

        assert NEW_LINK.search(second)[1] in text
        assert NEW_LINK.search(first)[4] not in text
        assert logged_in(first)[2] == 403
        assert logged_in(second)[2] == 303
        assert CODE.search(first)[1] == CODE.search(second)[1]


@pytest.mark.parametrize("reason", ["no terminal", "AI_AGENT"])
def test_without_a_person_the_page_only_reads(store, tmp_path, reason):
    env = dict(os.environ) | {"TMPDIR": str(tmp_path), "PYTHONPATH": SOURCE}
    if reason == "AI_AGENT":
        env["AI_AGENT"] = "1"
    program = [sys.executable, "-m", "toolbus", "ui", store, "--no-open"]
    with subprocess.Popen(
        program, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        printed = "".join([process.stdout.readline() for _ in range(2)])
        (private,) = tmp_path.glob("toolbus-ui-*/open.html")
        connection, headers, status = logged_in(private.read_text())
        connection.request("GET", "/x", headers=headers)
        read = connection.getresponse().status
        process.terminate()
        printed += process.stdout.read()

    assert "the page only reads: answers need a person at the terminal of `toolbus ui`: " in printed
    assert str(private) in printed
    assert not re.search("localhost|127.0.0.1|code=|answer code", printed)
    assert (status, read) == (303, 404)


# --- the command begins and ends cleanly ---------------------------------------------------------


def test_a_private_file_leads_the_browser(store, tmp_path):
    browser, called = tmp_path / "browser", tmp_path / "called"
    browser.write_text(
        f'#!/bin/sh\nstat -L -c "%a" "${{1#file://}}" > {called}.mode\necho "$@" >> {called}\n'
    )
    browser.chmod(0o700)
    with shown("--no-open", store=store, tmp_path=tmp_path, BROWSER=str(browser)):
        pass
    assert not called.exists()

    with shown(store=store, tmp_path=tmp_path, BROWSER=str(browser)):
        (private,) = tmp_path.glob("toolbus-ui-*/open.html")
        until(called.exists)
        modes = [path.stat().st_mode & 0o777 for path in (private, private.parent)]

    assert called.read_text() == f"{private.as_uri()}\n"
    assert modes == [0o600, 0o700]


def until(condition, seconds=10):
    """Wait until *condition* holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def other_user():
    """Be another user, where the tests may become one."""
    if os.geteuid():
        yield False
        return
    os.seteuid(65534)
    try:
        yield True
    finally:
        os.seteuid(0)


def test_other_users_reach_no_page(store, tmp_path):
    with shown(store=store, tmp_path=tmp_path) as (_, printed):
        (private,) = tmp_path.glob("toolbus-ui-*/open.html")
        _, host, port, code = NEW_LINK.search(printed).groups()
        got, statuses = "", []
        with other_user() as is_other:
            for address in ("127.0.0.1", "::1"):
                for name in (f"127.0.0.1:{port}", f"localhost:{port}", "x.localhost"):
                    connection = http.client.HTTPConnection(address, int(port))
                    connection.request("GET", "/", headers={"host": name})
                    answer = connection.getresponse()
                    statuses.append(answer.status)
                    got += f"{answer.getheaders()}{answer.read().decode()}"
                    connection.close()
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                with pytest.raises(OSError, match="Address already in use"):
                    socket.create_server((address, int(port)), family=family)
            with suppress(PermissionError):
                got += private.read_text() if is_other else ""
        mode = private.stat().st_mode & 0o777

    assert (statuses, mode) == ([401, 421, 421] * 2, 0o600)
    assert not any(secret in got for secret in (code, host, "private"))


@pytest.mark.parametrize("number", ["\x03", "\x04", signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_page(store, tmp_path, number):
    with shown(store=store, tmp_path=tmp_path) as (terminal, printed):
        connection, headers, _ = logged_in(printed)
        slow = [socket.create_connection((connection.host, connection.port)) for _ in range(8)]
        slow[0].sendall(b"GET / HTTP/1.1\r\n")
        fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        for path, each in zip(("/", "/events", "/events", "/events"), slow[1:], strict=False):
            each.sendall(f"GET {path} HTTP/1.1\r\n{fields}\r\n".encode())
        assert slow[2].recv(12) == b"HTTP/1.1 200"
        begun = time.monotonic()
        if isinstance(number, str):
            terminal.type(number)
        else:
            terminal.process.send_signal(number)
        code, shown_at_last = terminal.end()
        seconds = time.monotonic() - begun
        for each in slow:
            each.close()

    assert (code, shown_at_last.replace("^C", "").strip()) == (0, "")
    assert seconds < 1
    assert not list(tmp_path.glob("toolbus-ui-*"))


def test_a_failure_shows_nothing(store, caplog):
    with running_ui(store) as ui:

        def fail(*_):
            raise RuntimeError("inner text")

        ui.locks.find_login = fail
        link = ui.link()
        ui.locks.enter = fail
        answer = ui.post("/enter", {"code": code_of(link)})

    assert answer.status == 500
    assert "the page failed; the terminal of `toolbus ui` shows the error" in answer.text
    assert not re.search("Traceback|inner text|RuntimeError", answer.text)
    assert "inner text" in caplog.text
    secrets = (code_of(link), ui.cookie.partition("=")[2], ui.code, ui.host)
    assert not any(secret in caplog.text for secret in secrets)


def test_what_is_wrong_is_an_error(store, tmp_path, command):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        in_use = command("ui", store, "--port", port)
    with closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as taken:
        six = taken.getsockname()[1]
        in_use_by_another = command("ui", store, "--port", six)
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')")
    path = f"{tmp_path}{os.pathsep}{SOURCE}"
    results = {
        f"port {port} is in use; give another --port, or none": in_use,
        f"port {six} is in use; give another --port, or none": in_use_by_another,
        "there is no such file; give the path of a store": command("ui", "none.db"),
        "the page needs starlette; install the extra, `pip install '.[ui]'": command(
            "ui", store, PYTHONPATH=path
        ),
        "there is no file 'none.py'": command("ui", store, "--with", "none.py"),
        "expected a port from 1 to 65535, got 65536": command("ui", store, "--port", "65536"),
        "expected a port from 1 to 65535, got '0'": command("ui", store, "--port", "0"),
    }

    for text, done in results.items():
        assert (done.returncode, done.stdout) == (2, "") or "no such file" in text
        assert done.returncode in {1, 2}
        assert text in done.stderr
        assert done.stderr.count("\n") == 1
