"""The code blocks of a Markdown page, and what makes them true.

Above a block, a comment of the page's source may say how it is tested:
`<!-- not run: REASON -->` it is only read, `<!-- full: REASON -->` it runs in the full suite,
`<!-- exit code: N -->` its last command ends so, `<!-- fake provider: ANSWERS -->` a provider on
this machine gives these answers, a JSON list of what `tests/servers/wire_shapes.py` describes.
What needs more than Python says so as `page_world.py` tells, and runs in the full suite, too.
A policy's comments may say what becomes of calls: see `tried_calls`.
A block whose first line is `# NAME.EXT` is the file of that name, beside which later ones run.
"""

import asyncio
import io
import json
import logging
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.servers.fake_provider import FakeProvider

import page_world
import toolbus
from toolbus.cli.command_line import main
from toolbus.config.configuration import load
from tried_calls import judge, read_calls

KINDS = {"python", "toml", "json", "sh", "shell", "console", "text"}
NOTES = {"not run", "full", "exit code", "fake provider", *page_world.NOTES}
NOTE = re.compile(r"<!-- ([a-z ]+): (.+) -->")
FILE_NAME = re.compile(r"# ([\w./-]+\.\w+)")
OPERATORS = {"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "(", ")"}
SOURCE = Path(toolbus.__file__).parents[1]


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its text, the line where that begins, and the notes above it."""

    page: str
    kind: str
    text: str
    line: int
    notes: dict

    def __str__(self):
        return f"{self.page}:{self.line}: {self.kind} block"

    @property
    def file(self) -> str | None:
        first = FILE_NAME.fullmatch(self.text.partition("\n")[0])
        return first[1] if first else None

    @property
    def shown(self) -> str:
        """Return what the comment at the end of a program says that it prints."""
        lines = self.text.rstrip().splitlines()
        start = len(lines)
        while start and re.match(r"#( |$)", lines[start - 1]):
            start -= 1
        return "".join([f"{line[2:]}\n" for line in lines[max(start, bool(self.file)) :]])


def read_code_blocks(page: str, markdown: str) -> list[CodeBlock]:
    """Return the blocks of *markdown*; an unknown kind or note is an `AssertionError`."""
    blocks, notes, body, kind = [], {}, None, ""
    for number, line in enumerate(markdown.splitlines(), 1):
        if body is not None:
            if line != "```":
                body.append(line)
                continue
            text = "".join([f"{one}\n" for one in body])
            blocks.append(CodeBlock(page, kind, text, number - len(body), notes))
            body, notes = None, {}
        elif line.startswith("```"):
            kind, body = line[3:], []
            assert kind in KINDS, f"{page}:{number}: unknown kind of block {kind!r}"
            kind = "sh" if kind == "shell" else kind
        elif line.startswith("<!--"):
            note = NOTE.fullmatch(line)
            assert note, f"{page}:{number}: a note is <!-- NAME: REASON -->"
            assert note[1] in NOTES, f"{page}:{number}: unknown note {note[1]!r}"
            notes = notes | {note[1]: note[2]}
        elif line:
            assert not notes, f"{page}:{number}: a note stands above its block"
    assert body is None, f"{page}: a block has no end"
    return blocks


def assert_printed(block: CodeBlock, shown: str, printed: str) -> None:
    """Compare; a line `…` of *shown* stands for any lines, `…` within a line for any text."""
    lines = [
        "(?:.*\n)*" if line.strip() == "…" else f"{'.*'.join(map(re.escape, line.split('…')))}\n"
        for line in map(str.rstrip, shown.strip("\n").splitlines())
    ]
    told = "".join([f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines()])
    assert re.fullmatch("".join(lines), told), f"{block} shows\n{shown}\nbut it prints\n{told}"


def check_words(block: CodeBlock, line: str) -> None:
    """Parse each `toolbus …` of the shell's *line* with the parser of that command."""
    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    starts = [index for index, word in enumerate(words) if word == "toolbus"]
    for start in starts:
        if start and words[start - 1] not in OPERATORS and "=" not in words[start - 1]:
            continue  # An argument of another command.
        own = split_words(line)[split_words(line).index("toolbus") + 1 :]
        stops = [index for index, word in enumerate(own) if word in OPERATORS]
        name, *rest = own[: min(stops, default=len(own))] or ["--help"]
        if name.startswith("-"):
            continue
        try:
            import_module(f"toolbus.cli.{name}").command()[0].parse_all(rest)
        except (SystemExit, ImportError) as error:
            raise AssertionError(f"{block}: no such command: {line}") from error


def split_words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


@contextmanager
def provided(answers) -> Iterator[FakeProvider]:
    """Run a provider of *answers* on a loop of its own, for code that has none."""
    with asyncio.Runner() as runner:
        server = FakeProvider(answers)
        runner.run(server.__aenter__())
        thread = threading.Thread(target=runner.get_loop().run_forever)
        thread.start()
        try:
            yield server
        finally:
            runner.get_loop().call_soon_threadsafe(runner.get_loop().stop)
            thread.join()
            runner.run(server.__aexit__())


class PageRun:
    """Runs the blocks of one page in order, in *folder*, which is empty at first.

    *servers* has what takes the place of the addresses that blocks name.
    """

    def __init__(self, folder: Path, monkeypatch, servers: dict[str, str] | None = None) -> None:
        self.folder, self._patch = folder / "work", monkeypatch
        self.folder.mkdir()
        programs = folder / "programs"
        programs.mkdir()
        self._world = page_world.PageWorld(self.folder, programs, servers or {})
        for name, words in (("python", ""), ("python3", ""), ("toolbus", "-m toolbus")):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            (programs / name).chmod(0o755)
        for name in [name for name in os.environ if re.match("TOOLBUS_|XDG_|OPENAI_|ANTHR", name)]:
            monkeypatch.delenv(name)
        for name, value in {
            "COLUMNS": "80",
            "HOME": str(folder),
            "NO_COLOR": "1",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCE),
            "PYTHONUTF8": "1",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(self.folder)
        monkeypatch.syspath_prepend(self.folder)

    def run(self, block: CodeBlock, *, full: bool = False) -> None:
        """Do with *block* what its kind asks for; raise `AssertionError` if it is not true."""
        if block.file:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        for line in read_commands(block):
            check_words(block, line)
        answers = json.loads(block.notes.get("fake provider", "null"))
        with self._provider(answers) if answers else nullcontext(), self._own_modules():
            slow = "full" in block.notes or page_world.NOTES & block.notes.keys()
            idle = "not run" in block.notes or (slow and not full)
            self._check(block) if idle else self._run(self._world.prepare(block))

    def close(self) -> None:
        """End what the blocks have left running."""
        self._world.close()

    @contextmanager
    def _own_modules(self) -> Iterator[None]:
        """Leave nothing to another page: neither what was imported from the folder, nor a level."""
        log = logging.getLogger("toolbus")
        level = log.level
        try:
            yield
        finally:
            log.setLevel(level)
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", None) or "").startswith(f"{self.folder}/"):
                    del sys.modules[name]

    @contextmanager
    def _provider(self, answers) -> Iterator[None]:
        with provided(answers) as server, self._patch.context() as patch:
            patch.setenv("ANTHROPIC_BASE_URL", server.url)
            patch.setenv("ANTHROPIC_API_KEY", "k-" + "1" * 9)
            patch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            patch.setenv("OPENAI_API_KEY", "k-" + "1" * 9)
            yield

    def _check(self, block: CodeBlock) -> None:
        """Read *block* without running it."""
        match block.kind:
            case "python":
                compile(block.text, str(block), "exec")
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)

    def _run(self, block: CodeBlock) -> None:
        self._check(block)
        match block.kind:
            case "python":
                printed = self._run_program(block)
                assert block.file or printed, f"{block} prints nothing"
                assert_printed(block, block.shown, printed)
            case "toml":
                self._load(block)
            case "console" | "sh" if "source" in block.notes:
                self._world.run_script(block)
            case "console" | "sh":
                self._run_commands(block)
            case "text":
                raise AssertionError(f"{block}: a text needs a note that says why it is not run")

    def _run_program(self, block: CodeBlock) -> str:
        module = types.ModuleType("__main__")
        module.__file__ = str(self.folder / (block.file or "program.py"))
        code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
        stream = io.StringIO()
        with self._patch.context() as patch, redirect_stdout(stream):
            patch.setitem(sys.modules, "__main__", module)
            exec(code, vars(module))
        return stream.getvalue()

    def _load(self, block: CodeBlock) -> None:
        path = self.folder / (block.file or "unnamed.toml")
        path.write_text(block.text)
        tables = tomllib.loads(block.text)
        assert tables, f"{block} is empty"
        if tables.keys() & {"component", "server", "price", "approvals"}:
            load(path)
        elif "rule" in tables:
            code, printed = self.run_line(f"toolbus policy check {path.name}")
            assert code == 0, f"{block}: {printed}"
            self._try_calls(block, path)

    def _try_calls(self, block: CodeBlock, policy: Path) -> None:
        calls = read_calls(block.text)
        verdicts = asyncio.run(judge(policy, calls))
        for (verdict, name, arguments, _), judged in zip(calls, verdicts, strict=True):
            assert verdict == judged, f"{block}: {name} {arguments}: {judged}, not {verdict}"

    def _run_commands(self, block: CodeBlock) -> None:
        outputs = re.split(r"^\$ .+\n(?:> .+\n)*", block.text, flags=re.MULTILINE)[1:]
        commands = read_commands(block)
        for index, line in enumerate(commands):
            code, printed = self._world.run_line(line, block) or self.run_line(line)
            ends = int(block.notes.get("exit code", 0)) if index == len(commands) - 1 else 0
            assert code == ends, f"{block}: {line} ended with {code}\n{printed}"
            if block.kind == "console":
                assert_printed(block, outputs[index], printed)

    def run_line(self, line: str) -> tuple[int, str]:
        """Run a *line* of a shell; return how it ended and what it printed."""
        words = split_words(line)
        if (
            words[0] == "toolbus"
            and words[1] not in {"proxy", "hook", "login"}
            and not shell_words(line)
        ):
            stream = io.StringIO()
            with redirect_stdout(stream), redirect_stderr(stream):
                code = main(words[1:])
            return code, stream.getvalue()
        done = subprocess.run(
            ["sh", "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout


def shell_words(line: str) -> bool:
    """Tell whether *line* needs a shell: it has an operator, an assignment or a variable."""
    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    return bool(OPERATORS & set(words)) or bool(re.search(r"[$`~]|^\w+=", line))


def read_commands(block: CodeBlock) -> list[str]:
    """Return the lines of a shell that *block* has, each as one line."""
    if block.kind == "console":
        found = re.findall(r"^\$ (.+\n(?:> .+\n)*)", block.text, re.MULTILINE)
        return [line.replace("\n> ", "\n").strip() for line in found]
    if block.kind != "sh":
        return []
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
