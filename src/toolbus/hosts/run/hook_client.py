"""The client of an installed hook: it sends one event to a worker or a child, or fails closed.

An installation copies this file and writes a script beside it that calls `run`, so that Python
compiles only the script's few lines. It runs as `PYTHON -I -S SCRIPT HOST EVENT [OFFSET]`: it reads
the event from standard input, writes the answer to standard output, and adds *OFFSET* to the exit
code, so that the shell can tell an answer from a failure. The same folder has `settings` and
`HOST.blocks`, lines `key=value`. Of modules that Python has not loaded at its start, it imports
only `_socket`, and `fcntl` to start a worker: each import is a large part of its run time.
"""

import _signal
import _socket
import posix
import sys

PROTOCOL = b"toolbus-hook-1"
MAX_INPUT = 2**26
"""Bytes of an event."""
MAX_ANSWER = 2**27
"""Bytes of a part of an answer."""
HELLO = 2.0
"""Seconds in which a worker must accept an event; it may be busy with others."""
WRITING = 60
"""Seconds in which the host must read the answer; by then it has given up on the hook itself."""
STOPPED = 2
"""The exit code by which most hosts block, used if the fail-closed answer is unknown."""
UNANSWERED = 1
"""The exit code for a failure without an answer, if an offset was given."""

AGAIN = b"+"
"""The suffix of the id of an event that a worker may have judged already."""
ANSWER, TAKEN, MOVED = b"=", b"+", b">"
"""The kinds of a worker's reply; any other is a refusal."""

_FOLDER = __file__.rpartition("/")[0]
_SETTINGS = f"{_FOLDER}/settings"
_START = (
    "import sys;sys.path+=[p for p in sys.argv[1].split(':')if p not in sys.path];"
    "from toolbus.hosts.hook_processes import main;main(sys.argv[2:])"
)
_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGALRM)

Settings = dict[bytes, list[bytes]]
Answer = tuple[int, bytes, bytes]
"""Exit code, standard output and standard error."""


class StoppedError(BaseException):
    """The host sent a signal, or the time is up; not an `OSError`, so no handler here hides it."""


def run() -> None:
    """Answer the event that the command's arguments name, and end."""
    posix._exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3] if sys.argv[3:] else 0)))


def main(host: str, event: str, offset: int = 0) -> int:
    """Answer the event on standard input; return the exit code."""
    failure = UNANSWERED if offset else STOPPED
    if not _fill_standard_streams():
        return failure
    try:
        _on_signals(_stop)
        settings = read_settings(_SETTINGS)
        _signal.setitimer(_signal.ITIMER_REAL, float(settings[b"limit"][0]))
        answer = _answer(settings, host, event, _read_input())
    except BaseException:  # noqa: BLE001 - any failure must stop the host
        _on_signals(_signal.SIG_IGN)
        try:
            answer = fail_closed_answer(f"{_FOLDER}/{host}.blocks", event)
        except BaseException:  # noqa: BLE001 - as above; the shell's line has a copy of the answer
            posix.write(2, b"toolbus: its hook could not answer\n")
            return failure
    return _write(answer, offset, failure)


def read_settings(file: str) -> Settings:
    """Return the values of *file* by key; raises `OSError` if others may write it."""
    handle = posix.open(file, posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_NONBLOCK)
    try:
        status = posix.fstat(handle)
        if status.st_mode & 0o170000 != 0o100000:
            raise PermissionError(f"{file!r} is not a regular file")
        if status.st_uid not in {0, posix.geteuid()} or status.st_mode & 0o022:
            raise PermissionError(f"others may write {file!r}")
        data = posix.read(handle, 2**20)
    finally:
        posix.close(handle)
    settings: Settings = {}
    for line in data.splitlines():
        key, _, value = line.partition(b"=")
        settings.setdefault(key, []).append(value)
    return settings


def fail_closed_answer(file: str, event: str) -> Answer:
    """Return the answer that blocks *event*, from *file*: `EVENT=CODE STDOUT STDERR`, in hex."""
    code, stdout, stderr = read_settings(file)[event.encode()][0].split(b" ")
    return int(code), bytes.fromhex(stdout.decode()), bytes.fromhex(stderr.decode())


def enter(folder: bytes, *, make: bool = False) -> None:
    """Make *folder* the working folder; raises `OSError` unless only this user has access to it."""
    if make:
        try:
            posix.mkdir(folder, 0o700)
        except FileExistsError:
            pass
    # The checked folder is entered by its descriptor, even if its name is reused meanwhile; and a
    # relative name of a socket is short enough for AF_UNIX.
    handle = posix.open(folder, posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_DIRECTORY)
    try:
        status = posix.fstat(handle)
        if status.st_uid != posix.geteuid() or status.st_mode & 0o077:
            raise PermissionError(f"others have access to {folder!r}")
        posix.fchdir(handle)
    finally:
        posix.close(handle)


def socket_name(digest: bytes, folder: bytes) -> bytes:
    """Return the name of the worker's socket for a working *folder*, under settings of *digest*."""
    status = posix.stat(folder)
    return b"%s-%x-%x" % (digest[:16], status.st_dev, status.st_ino)


def check_peer(link: _socket.socket) -> None:
    """Raise `PermissionError` if the peer of *link* is another user."""
    if hasattr(_socket, "SO_PEERCRED"):
        credentials = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    else:  # LOCAL_PEERCRED of SOL_LOCAL, in BSD's sys/un.h: a version, then the user.
        credentials = link.getsockopt(0, 1, 76)
    if int.from_bytes(credentials[4:8], sys.byteorder) != posix.geteuid():
        raise PermissionError("the peer of the socket is another user")


def _answer(settings: Settings, host: str, event: str, data: bytes) -> Answer:
    digest, folder = settings[b"digest"][0], _working_folder()
    names = [PROTOCOL, digest, host.encode(), event.encode(), posix.urandom(16).hex().encode()]
    for _ in range(2):  # A worker may redirect to the session's own one, which does not redirect.
        request = _request(names, folder, data)
        try:
            answer = _ask_worker(settings[b"sockets"][0], socket_name(digest, folder), request)
        except (ConnectionAbortedError, TimeoutError):
            names[-1] += AGAIN  # The worker was killed while judging, or still judges the event.
            break
        except OSError:
            break
        if isinstance(answer, tuple):
            return answer
        folder = answer
    _start_worker(settings, digest, folder, names[2])
    return _ask_child(settings, _request(names, folder, data))


def _request(names: list[bytes], folder: bytes, data: bytes) -> bytes:
    header = b"\0".join([*names, folder, b"%d" % len(data)])
    return len(header).to_bytes(4, "big") + header + data


def _ask_worker(sockets: bytes, name: bytes, request: bytes) -> Answer | bytes:
    enter(sockets)
    link = _socket.socket(_socket.AF_UNIX)
    link.settimeout(HELLO)
    link.connect(name)
    check_peer(link)
    return _exchange(link, request)


def _exchange(link: _socket.socket, request: bytes) -> Answer | bytes:
    """Return the answer to *request*, or the folder whose worker has its session.

    Raises `OSError` without either.
    """
    link.sendall(request)
    kind = _receive(link, 1)
    if kind == TAKEN:
        link.settimeout(None)  # The timer of the whole process limits the rest.
        kind = _receive(link, 1)
    if kind == MOVED:
        return _receive(link, _number(link, 2**16))
    if kind != ANSWER:
        raise ConnectionRefusedError(kind)
    code, sizes = _receive(link, 1)[0], (_number(link, MAX_ANSWER), _number(link, MAX_ANSWER))
    return code, _receive(link, sizes[0]), _receive(link, sizes[1])


def _number(link: _socket.socket, limit: int) -> int:
    number = int.from_bytes(_receive(link, 4), "big")
    if number > limit:
        raise ConnectionAbortedError(number)
    return number


def _receive(link: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise ConnectionAbortedError(len(data))
        data += part
    return data


def _start_worker(settings: Settings, digest: bytes, folder: bytes, host: bytes) -> None:
    """Start the worker of *folder* in the background, unless one runs or starts already."""
    import fcntl  # noqa: PLC0415 - rarely needed, and slow

    try:
        enter(settings[b"sockets"][0], make=True)
        flags = posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
        lock = posix.open(socket_name(digest, folder) + b".lock", flags, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The worker inherits the lock, so that its end releases it in any case.
        lock = fcntl.fcntl(lock, fcntl.F_DUPFD_CLOEXEC, 10)
        null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
        _spawn(settings, [b"serve", folder, host], [null, null, null, lock])
    except OSError:
        pass  # Events are answered without a worker, only slower.


def _ask_child(settings: Settings, request: bytes) -> Answer:
    """Return the answer of a child process that does the work of a worker."""
    null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    link, child_link = _socket.socketpair()
    child = _spawn(settings, [b"answer"], [child_link.fileno(), null, null])
    child_link.close()
    try:
        answer = _exchange(link, request)
        if not isinstance(answer, tuple):
            raise ConnectionRefusedError(answer)  # noqa: TRY301 - handled as any other failure
        return answer  # noqa: TRY300 - as above
    except BaseException:
        try:
            posix.killpg(child, _signal.SIGKILL)
        except OSError:
            pass  # It has ended already.
        raise


def _spawn(settings: Settings, words: list[bytes], handles: list[int]) -> int:
    """Start our Python with *words*, *handles* as 0, 1, 2 …, and only the settings' variables."""
    python, path = settings[b"python"][0], settings[b"path"][0]
    argv = [python, b"-I", b"-c", _START.encode(), path, _SETTINGS.encode(), *words]
    variables = (each.partition(b"=") for each in settings.get(b"variable", ()))
    duplicates = [(posix.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(handles)]
    return posix.posix_spawn(
        python,
        argv,
        {key: value for key, _, value in variables} | {b"TOOLBUS_JUDGED": b"1"},
        file_actions=duplicates,
        setpgroup=0,  # Signals to the host's process group do not end a worker.
        setsigdef=_SIGNALS,
    )


def _working_folder() -> bytes:
    try:
        return posix.getcwdb()
    except FileNotFoundError:
        return b"/"


def _read_input() -> bytes:
    parts, size = [], 0
    while part := posix.read(0, 2**20):
        parts.append(part)
        size += len(part)
        if size > MAX_INPUT:
            raise ValueError(f"the event has more than {MAX_INPUT} bytes")
    return b"".join(parts)


def _fill_standard_streams() -> bool:
    """Open descriptors 0 to 2 if they are closed; return whether standard output was open."""
    is_read = True
    while (handle := posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)) <= 2:
        is_read = is_read and handle != 1
    posix.close(handle)
    return is_read


def _on_signals(action: object) -> None:
    for each in _SIGNALS:
        _signal.signal(each, action)


def _stop(number: int, _: object) -> None:
    _on_signals(_signal.SIG_IGN)  # A second signal must not interrupt the fail-closed answer.
    raise StoppedError(number)


def _write(answer: Answer, offset: int, failure: int) -> int:
    """Write *answer*; return the exit code, *failure* if nothing of it was written."""
    _on_signals(_signal.SIG_IGN)
    _signal.signal(_signal.SIGALRM, _stop)
    _signal.setitimer(_signal.ITIMER_REAL, WRITING)
    rest = memoryview(answer[1])
    try:
        _write_all(2, answer[2])
        while rest:
            rest = rest[posix.write(1, rest) :]
    except BaseException as error:  # noqa: BLE001 - any failure must stop the host
        # A second answer after a part of the first would be garbage, which hosts let pass.
        is_begun = isinstance(error, StoppedError) or len(rest) < len(answer[1])
        return STOPPED + offset if is_begun else failure
    return answer[0] + offset


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[posix.write(handle, data) :]
