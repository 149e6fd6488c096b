"""The client in a process of its own, with a Python of ours in the place of toolbus's."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import chdir
from pathlib import Path

import pytest

from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.install.client_files import ClientSettings, client_files, write_files
from toolbus.hosts.run.hook_client import read_settings, socket_name

BLOCK = HookAnswer(stdout=b'{"decision": "block"}', stderr=b"blocked\n", exit_code=2)

CHILD = f"""#!{sys.executable} -IS
import os, signal, sys, time
words = sys.argv[6:]
with open({{record!r}}, "a") as record:
    print(words, sorted(os.environ), os.getpid(), file=record)
if words[0] == "serve":
    {{serve}}
    sys.exit()
def take():
    data = b""
    while len(data) < 4:
        data += os.read(0, 4 - len(data))
    size = int.from_bytes(data, "big")
    header = b""
    while len(header) < size:
        header += os.read(0, size - len(header))
    fields = header.split(b"\\0")
    body = b""
    while len(body) < int(fields[-1]):
        body += os.read(0, 2**20)
    return fields, body
def answer(code, out, err):
    text = b"=" + bytes([code]) + len(out).to_bytes(4, "big") + len(err).to_bytes(4, "big")
    for data in (text, out, err):
        while data:
            data = data[os.write(0, data):]
fields, body = take()
{{answer}}
"""


class Hook:
    """An installation in *folder* whose Python is a script of a test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / "record"
        self.python = folder / "python"

    def write(self, answer="answer(0, body, b'')", serve="pass", **changes) -> Path:
        self.python.write_text(CHILD.format(record=str(self.record), answer=answer, serve=serve))
        self.python.chmod(0o755)
        fields = {
            "python": str(self.python),
            "search_path": (),
            "version": "1",
            "variables": {"HOME": "/nowhere"},
            "sockets": str(self.folder / "sockets"),
            "store": str(self.folder / "hooks.db"),
        }
        settings = ClientSettings(**{**fields, **changes})
        self.script = write_files(
            self.folder / "hooks", client_files(settings, "a", {"Pre": BLOCK})
        )
        return self.script

    def command(self, *words):
        return [sys.executable, "-I", "-S", str(self.script), *(words or ("a", "Pre"))]

    def run(self, data=b"{}", words=(), **options):
        return subprocess.run(
            self.command(*words), input=data, capture_output=True, check=False, **options
        )

    @property
    def started(self) -> list[str]:
        return self.record.read_text().splitlines() if self.record.exists() else []

    def await_started(self, number) -> list[str]:
        """Return the processes that were started, once they are *number*: a worker says so late."""
        for _ in range(6000):
            if len(self.started) >= number:
                return self.started
            time.sleep(0.01)
        raise AssertionError(f"not {number} processes, but {self.started}")


@pytest.fixture
def hook(tmp_path):
    return Hook(tmp_path)


def is_block(ended):
    answer = (ended.returncode, ended.stdout, ended.stderr)
    return answer == (BLOCK.exit_code, BLOCK.stdout, BLOCK.stderr)


def test_a_child_answers_with_three_parts_and_knows_the_event(hook):
    hook.write("answer(7, b' '.join([*fields[:4], fields[5]]), body)")
    ended = hook.run(b"\0\xff", cwd=hook.folder)
    digest = read_settings(str(hook.script.parent / "settings"))[b"digest"][0]
    folder = os.fsencode(hook.folder)
    words = [b"toolbus-hook-1", digest, b"a", b"Pre", folder]
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, b" ".join(words), b"\0\xff")


def test_a_long_event_and_a_long_answer_come_through(hook):
    hook.write()
    data = os.urandom(2**20) * 3
    assert hook.run(data).stdout == data


@pytest.mark.parametrize(
    "answer",
    [
        "sys.exit(0)",
        "os.write(0, b'+')",
        *[
            pytest.param(answer, marks=pytest.mark.full)
            for answer in (
                "sys.exit(3)",
                "os.kill(os.getpid(), 9)",
                "1 / 0",
                "os.write(0, b'Hello')",
                "os.write(0, b'-')",
                "os.write(0, b'+=')",
                "os.write(0, b'=' + bytes(4))",
                "os.write(0, b'>' + (5).to_bytes(4, 'big') + b'/none')",
                "os.write(0, b'>' + b'\\xff' * 4)",
                "os.write(0, bytes(2**20))",
            )
        ],
        "os.write(0, b'=' + bytes([0, 0, 0, 0, 9, 0, 0, 0, 0]) + b'short')",
        "os.write(0, b'=' + b'\\xff' * 9)",
    ],
)
def test_a_child_that_breaks_is_answered_by_the_block(hook, answer):
    hook.write(answer)
    assert is_block(hook.run())


@pytest.mark.parametrize("said", ["b''", "b'+'"])
def test_a_child_that_hangs_is_killed_and_blocked(hook, said):
    os.mkfifo(hook.folder / "alive")
    opened = f"alive = open({str(hook.folder / 'alive')!r}, 'w')"
    hook.write(f"{opened}; os.write(0, {said}); time.sleep(600)", limit=0.5)
    handle = os.open(hook.folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
    assert is_block(hook.run())
    os.set_blocking(handle, True)
    assert os.read(handle, 1) == b""  # Its end closes its end.
    os.close(handle)


def test_a_standard_input_without_end_is_blocked(hook):
    hook.write(limit=0.3)
    reading, writing = os.pipe()
    ended = subprocess.run(hook.command(), stdin=reading, capture_output=True, check=False)
    os.close(reading)
    os.close(writing)
    assert is_block(ended)
    assert hook.started == []


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *[pytest.param(each, marks=pytest.mark.full) for each in (1, 2)]],
)
def test_a_signal_of_the_host_is_answered_by_the_block(hook, number):
    os.mkfifo(hook.folder / "here")
    hook.write(f"open({str(hook.folder / 'here')!r}, 'w').close(); time.sleep(600)")
    with subprocess.Popen(
        hook.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        with (hook.folder / "here").open():
            process.send_signal(number)
        stdout, stderr = process.communicate()
    assert is_block(subprocess.CompletedProcess((), process.returncode, stdout, stderr))


@pytest.mark.parametrize(("words", "code"), [(("a", "Pre"), 2), (("a", "Pre", "100"), 1)])
def test_a_closed_standard_output_is_no_answer(hook, words, code):
    hook.write()
    line = '"$@" >&-'
    arguments = ["/bin/sh", "-c", line, "-", *hook.command(*words)]
    ended = subprocess.run(arguments, input=b"{}", check=False)
    assert ended.returncode == code
    reading, writing = os.pipe()
    os.close(reading)
    assert (
        subprocess.run(hook.command(*words), stdout=writing, check=False, input=b"{}").returncode
        == code
    )
    os.close(writing)


@pytest.mark.parametrize("how", ["closed", "late"])
def test_nothing_follows_a_part_of_an_answer(hook, how):
    hook.write("answer(0, bytes(2**20), b'')")
    with subprocess.Popen(
        hook.command("a", "Pre", "100"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.read(1) == b"\0"
        if how == "late":
            process.send_signal(signal.SIGALRM)
            process.wait()
    assert process.returncode == 102


def test_a_closed_standard_input_is_an_empty_event(hook):
    hook.write("answer(0, b'empty: %r' % body, b'')")
    arguments = ["/bin/sh", "-c", '"$@" <&-', "-", *hook.command()]
    ended = subprocess.run(arguments, capture_output=True, check=False)
    assert ended.stdout == b"empty: b''"


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda hook: (hook.folder / "hooks/settings").chmod(0o620), ("a", "Pre")),
        (lambda hook: (hook.folder / "hooks/settings").chmod(0o602), ("a", "Pre")),
        (lambda hook: (hook.folder / "hooks/settings").unlink(), ("a", "Pre")),
        (lambda hook: (hook.folder / "hooks/settings").write_bytes(b"\0"), ("a", "Pre")),
        (lambda hook: link(hook.folder / "hooks/settings"), ("a", "Pre")),
        (lambda hook: fifo(hook.folder / "hooks/settings"), ("a", "Pre")),
        (lambda hook: hook.python.unlink(), ("a", "Pre")),
    ],
    ids=["group", "others", "gone", "zeros", "link", "fifo", "python"],
)
def test_what_is_broken_beside_the_client_is_answered_by_the_block(hook, break_it, words):
    hook.write()
    break_it(hook)
    assert is_block(hook.run(words=words))
    assert hook.started == []


def link(file):
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def fifo(file):
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda hook: (hook.folder / "hooks/a.blocks").chmod(0o602),
        lambda hook: (hook.folder / "hooks/a.blocks").unlink(),
        lambda hook: (hook.folder / "hooks/a.blocks").write_bytes(b"Pre=x y z\n"),
    ],
    ids=["others", "gone", "garbage"],
)
def test_without_a_block_the_exit_code_stops(hook, break_it):
    hook.write("sys.exit()")
    break_it(hook)
    ended = hook.run()
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert hook.run(words=("a", "Pre", "100")).returncode == 1


def test_a_client_that_is_gone_stops(hook):
    hook.write()
    (hook.script.parent / "hook_client.py").unlink()
    ended = hook.run()
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"Traceback" not in ended.stderr


def test_children_have_the_environment_of_the_settings_alone(hook):
    hook.write()
    hostile = {**os.environ, "PYTHONPATH": "/x", "HOME": "/y", "LD_DEBUG_OUTPUT": "/z"}
    hook.run(env=hostile)
    started = hook.await_started(2)
    kinds = sorted(line.split("] [")[0].strip("['") for line in started)
    assert [kind.split("'")[0] for kind in kinds] == ["answer", "serve"]
    for line in started:
        names = line.partition("] [")[2].partition("]")[0]
        assert set(names.replace("'", "").split(", ")) <= {"HOME", "LC_CTYPE", "TOOLBUS_JUDGED"}


def test_one_worker_is_started_while_one_starts(hook):
    os.mkfifo(hook.folder / "end")
    wait = f"open({str(hook.folder / 'end')!r}).read()"
    hook.write(serve=wait)
    clients = [
        subprocess.Popen(hook.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for _ in range(8)
    ]
    codes = []
    for client in clients:
        client.communicate()
        codes.append(client.returncode)
    hook.await_started(9)
    (hook.folder / "end").write_text("")
    assert codes == [0] * 8
    assert sum("serve" in line for line in hook.started) == 1
    assert sum("answer" in line for line in hook.started) == 8


def test_each_event_has_an_id_of_its_own(hook):
    hook.write("answer(0, fields[4], b'')")
    ids = {hook.run().stdout for _ in range(3)}
    assert len(ids) == 3
    assert {len(each) for each in ids} == {32}


@pytest.mark.parametrize(
    ("words", "size", "end"), [(b"+", 9, b"+"), (b"-", 9, b""), (b"-", 2**22, b"")]
)
def test_an_event_that_a_worker_took_is_marked_for_the_child(hook, words, size, end):
    hook.write("answer(0, fields[4], b'')")
    (hook.folder / "sockets").mkdir(mode=0o700)
    digest = read_settings(str(hook.script.parent / "settings"))[b"digest"][0]
    with socket.socket(socket.AF_UNIX) as listener:
        with chdir(hook.folder / "sockets"):
            listener.bind(socket_name(digest, os.fsencode(hook.folder)).decode())
        listener.listen()
        seen = []

        def work():
            link, _ = listener.accept()
            with link:
                while b"-end" not in b"".join(seen)[-4:] and len(b"".join(seen)) < 2**16:
                    seen.append(link.recv(2**16))
                link.sendall(words)

        worker = threading.Thread(target=work)
        worker.start()
        event_id = hook.run(bytes(size) + b"-end", cwd=hook.folder).stdout
        worker.join()
    assert (event_id[:32] in b"".join(seen), event_id[32:]) == (True, end)


def squat(hook, how):
    sockets, elsewhere = hook.folder / "sockets", hook.folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if how == "link":
        sockets.symlink_to(elsewhere)
    if how == "shared":
        sockets.mkdir()
        sockets.chmod(0o770)
    if how == "file":
        sockets.write_text("")
    if how == "owner":
        sockets.mkdir(mode=0o700)
        os.chown(sockets, 12345, 12345)


def squatters():
    return ["link", "shared", "file", *(["owner"] if os.geteuid() == 0 else [])]


@pytest.mark.parametrize("how", squatters())
def test_a_folder_that_is_not_ours_alone_has_no_workers(hook, how):
    squat(hook, how)
    hook.write("answer(0, b'by a child', b'')")
    digest = read_settings(str(hook.script.parent / "settings"))[b"digest"][0]
    name = socket_name(digest, os.fsencode(hook.folder)).decode()
    listener = socket.socket(socket.AF_UNIX)
    if how != "file":
        with chdir(hook.folder / "sockets"):  # The whole path may be too long for a socket.
            listener.bind(name)
        listener.listen()
    listener.settimeout(0)
    assert hook.run(cwd=hook.folder).stdout == b"by a child"
    with pytest.raises(OSError):
        listener.accept()
    assert not any("serve" in line for line in hook.started)
    listener.close()


FOREIGN = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
os.chdir(sys.argv[1])
listener.bind(sys.argv[2])
os.chmod(sys.argv[2], 0o777)
os.setuid(12345)
listener.listen()  # From here on that is who is at this end.
print("ready", flush=True)
link, _ = listener.accept()
print(len(link.recv(1)), flush=True)
"""


# Only root can be two users; elsewhere the folder alone is looked at.
@pytest.mark.parametrize("user", [12345] if os.geteuid() == 0 else [])
def test_a_worker_of_another_user_is_told_nothing(hook, user):
    hook.write("answer(0, b'by a child', b'')")
    (hook.folder / "sockets").mkdir(mode=0o700)
    digest = read_settings(str(hook.script.parent / "settings"))[b"digest"][0]
    name = socket_name(digest, os.fsencode(hook.folder)).decode()
    words = [sys.executable, "-c", FOREIGN, str(hook.folder / "sockets"), name]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as foreign:
        assert foreign.stdout.readline() == b"ready\n"
        assert hook.run(cwd=hook.folder).stdout == b"by a child"
        assert foreign.stdout.readline() == b"0\n"
