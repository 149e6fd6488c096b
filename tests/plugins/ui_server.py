"""The page on a server of its own, as a browser sees it after the person has logged in.

with running_ui("agent.db") as ui:
    ui.get("/").text
    ui.post("/questions", {"answer_code": ui.code})
"""

import asyncio
import http.client
import threading
import time
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from toolbus.approvals.question_lookup import read_times
from toolbus.history.session_index import SessionIndex, following
from toolbus.redaction.placeholders import kinds_in
from toolbus.ui.app import make_app
from toolbus.ui.locks import UiLocks
from toolbus.ui.server import listen_on_loopback, make_server
from toolbus.ui.state import UiState


class PageResponse(NamedTuple):
    """What the server answered: *headers* by lower-case name, and the body as *text*."""

    status: int
    headers: dict
    text: str


class RunningUi:
    """A browser that is logged in at *host*; `cookie` is its header, `code` the answer code."""

    def __init__(self, port, locks, host):
        self.port, self.locks, self.host = port, locks, host
        self.cookie = ""
        self.code = locks.answer_lock.show()

    @property
    def url(self):
        return f"http://{self.host}"

    def link(self):
        """Return the path of a new link."""
        return urlsplit(self.locks.new_links()[0])

    def log_in(self):
        """Follow a new link, and press its button."""
        answer = self.post("/enter", {"code": self.link().query.removeprefix("code=")})
        assert answer.status == 303, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path, **headers):
        return self.send("GET", path, **headers)

    def post(self, path, fields=(), **headers):
        """Post *fields* as the form of a page of this server does."""
        own = {
            "content_type": "application/x-www-form-urlencoded",
            "origin": "null",  # As browsers do below `Referrer-Policy: no-referrer`.
            "sec_fetch_site": "same-origin",
        }
        return self.send("POST", path, urlencode(fields), **own | headers)

    def send(self, method, path, body=None, **headers):
        """Send a request; a header is named with _ for -, and left out if it is None."""
        with self.streaming(method, path, body, **headers) as answer:
            text = answer.read().decode()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return PageResponse(answer.status, fields, text)

    @contextmanager
    def streaming(self, method, path, body=None, **headers):
        """Yield a response whose body is still to read, such as server-sent events."""
        sent = {"host": self.host, "cookie": self.cookie or None} | headers
        sent = {name.replace("_", "-"): value for name, value in sent.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            data = body.encode() if isinstance(body, str) else body
            for name, value in sent.items():
                connection.putheader(name, value)
            if data is not None and "content-length" not in sent:
                connection.putheader("content-length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            yield answer
            answer.close()
        finally:
            connection.close()


async def serve(server, sockets, ended):
    """Do as `server.serve(sockets)` until *ended* is set: that looks each tenth of a second."""
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=sockets)
    await server.on_tick(0)
    await ended.wait()
    for listener in (*server.servers, *sockets):
        listener.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    for task in list(server.server_state.tasks):
        task.cancel()
    while server.server_state.connections or server.server_state.tasks:
        await asyncio.sleep(0)


@contextmanager
def running_ui(
    address, *, targets=None, no_answers="", numeric=False, clock=time.monotonic, make=make_app
):
    """Run the page of the store at *address* in a thread, and log in.

    *targets* are files for replays by name; with *no_answers*, a reason, the page only reads;
    *numeric* logs in at 127.0.0.1; *make* makes the application for a state.
    """
    sockets = listen_on_loopback()
    port = sockets[0].getsockname()[1]
    locks = UiLocks(port, no_answers=no_answers, clock=clock)
    sessions = SessionIndex(kinds_in, read_times)
    state = UiState(str(address), locks, sessions, targets or {})
    # The loop is made here, so that this thread can speak to it.
    runner, ended = asyncio.Runner(loop_factory=asyncio.new_event_loop), asyncio.Event()
    loop, server = runner.get_loop(), make_server(make(state))

    def run():
        with runner:
            runner.run(serve(server, sockets, ended))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        ui = RunningUi(port, locks, locks.numeric_host if numeric else locks.host)
        ui.log_in()
        with following(state.address, sessions):
            yield ui
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
