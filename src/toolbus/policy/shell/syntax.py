"""The syntax tree of a text, from shfmt: one short process a text."""

import os
import re
import signal
import subprocess
from functools import cache
from pathlib import Path

from msgspec import DecodeError
from msgspec.json import Decoder

from toolbus.errors import ToolbusError
from toolbus.policy.shell.tree import CallNode, File, Literal, Node, Statement, TextOffset, WordNode
from toolbus.settings.extras import needs_extra

MAX_BYTES = 64 * 1024
_SECONDS = 5.0
_SIGNS = """
    Type Pos End Offset Line Col ValuePos ValueEnd Left Right Lparen Rparen Lbrace Rbrace Dollar
    Last OpPos Position Semicolon Comments Hash Text ThenPos FiPos CondLast ThenLast WhilePos
    DoPos DonePos DoLast ForPos Case In Esac Coproc Time Let Bracket RsrvWord Parens PosixFormat
    Braces Orig With All X Y Post Slice Offset Length
"""
_FIELD = re.compile(rb'"([A-Z][A-Za-z]*)":')
# shfmt joins the line behind such a comment to what is in front of it; bash runs it.
_CONTINUED_COMMENT = re.compile(rb'"Text": *"(?:[^"\\]|\\.)*?\\\\\\n')
_decode = Decoder(File).decode


# In the middle of a sign shfmt does not take a continued line for one: `"$\` + `(rm x)"`.
_SPLIT_SIGN = re.compile(r"\$\\\n(?!\s)|[&|<>;(]\\\n[&|<>;(]")
# Words of letters that no shell gives a meaning, with single blanks between them, are a tree of
# their own; half of the commands that people run, and most that stand in others, are such.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+(?: [A-Za-z0-9_./:@%+,=-]+)*")
_NOT_PLAIN = frozenset(
    """case coproc declare do done elif else esac export fi for function if in let local nameref
    readonly select then time typeset until while""".split()
)


class SyntaxRefusedError(ToolbusError):
    """A text of which there is no tree: *reason* says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


def parse(text: str) -> File:
    """Return the tree of *text*, read as bash; plain words need no process.

    Raises:
        SyntaxRefusedError: It is no bash, too large, or there is no shfmt.
    """
    if (
        len(text) <= MAX_BYTES
        and _PLAIN.fullmatch(text)
        and text.partition(" ")[0] not in _NOT_PLAIN
    ):
        return _plain_tree(text)
    answer = _run(_checked(text))
    unknown = set(_FIELD.findall(answer)) - _fields()
    if unknown:
        raise SyntaxRefusedError(f"shfmt writes of {min(unknown).decode()}, which isn't known here")
    if _CONTINUED_COMMENT.search(answer):
        raise SyntaxRefusedError("a comment that ends with a backslash, which shfmt misreads")
    try:
        return _decode(answer)
    except (DecodeError, RecursionError):
        raise SyntaxRefusedError("shfmt's tree of it isn't understood") from None


def _checked(text: str) -> bytes:
    """Return *text* in UTF-8, if shfmt reads it as bash does."""
    if "\0" in text or "\r" in text:
        raise SyntaxRefusedError("a NUL or a carriage return, which shells read differently")
    if _SPLIT_SIGN.search(text):
        raise SyntaxRefusedError("a continued line in the middle of a sign, which shfmt misreads")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise SyntaxRefusedError("it is no Unicode text") from None
    if len(data) > MAX_BYTES:
        raise SyntaxRefusedError(f"it is longer than {MAX_BYTES} bytes")
    return data


def _plain_tree(text: str) -> File:
    words = []
    for match in re.finditer("[^ ]+", text):
        start, end = TextOffset(match.start()), TextOffset(match.end())
        literal = Literal(value=match[0], pos=start, end=end)
        words.append(WordNode(parts=(literal,), pos=start, end=end))
    start, end = TextOffset(0), TextOffset(len(text))
    call = CallNode(args=tuple(words), pos=start, end=end)
    return File(stmts=(Statement(cmd=call, pos=start, end=end),), pos=start, end=end)


def _run(data: bytes) -> bytes:
    with subprocess.Popen(
        [find_shfmt(), "-ln=bash", "--to-json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={},
        process_group=0,
    ) as process:
        try:
            answer, complaint = process.communicate(data, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise SyntaxRefusedError("shfmt takes too long to read it") from None
    if process.returncode:
        lines = complaint.decode(errors="replace").splitlines()
        raise SyntaxRefusedError(f"it is no bash: {lines[0].removeprefix('<standard input>:')}")
    return answer


@cache
def find_shfmt() -> str:
    """Return the path of shfmt; raises `SyntaxRefusedError` if it is not installed."""
    # Not by PATH: that is the environment's, and this program decides what is allowed.
    # Slow to import, and most commands are plain.
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        package = distribution("shfmt-py")
    except PackageNotFoundError:
        reason = needs_extra("commands are read by shfmt, which is not installed", "policy")
        raise SyntaxRefusedError(reason) from None
    for file in package.files or ():
        if file.stem == "shfmt" and file.parent.name in {"bin", "Scripts"}:
            return str(Path(str(package.locate_file(file))).resolve())
    raise SyntaxRefusedError("shfmt is gone; `pip install --force-reinstall shfmt-py`")


@cache
def _fields() -> frozenset[bytes]:
    def names(kind: type[Node]) -> set[str]:
        return set(kind.__struct_encode_fields__).union(*map(names, kind.__subclasses__()))

    return frozenset(name.encode() for name in names(Node).union(_SIGNS.split()))
