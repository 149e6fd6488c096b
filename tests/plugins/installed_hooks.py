"""A client as it is installed for Gemini CLI, with all that it needs in one folder."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from toolbus.approvals import answer
from toolbus.approvals.records import questions_of
from toolbus.hosts.dialects import dialect
from toolbus.hosts.install.client_files import (
    ClientSettings,
    client_files,
    shell_line,
    write_files,
)
from toolbus.store.sqlite import SqliteStore

HOST = "gemini-cli"
SECRET = "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1Yc3Pd5Hf0Js8Gu2Q"
EVENTS = ("BeforeTool", "AfterTool", "BeforeAgent")


class InstalledHooks:
    def __init__(self, folder: Path, config: str, *, personal=False, **changes) -> None:
        """Install hooks for *config*, or if *personal* for what is in force in the home folder."""
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.config = folder / "toolbus.toml"
        self.config.write_text(config)
        self.store = folder / "state" / "hooks.db"
        self.sockets = folder / "sockets"
        fields = {
            "python": sys.executable,
            "search_path": tuple(each for each in sys.path if each.startswith("/")),
            "version": "1",
            "variables": {"HOME": str(folder / "home"), "PATH": os.environ["PATH"]},
            "sockets": str(self.sockets),
            "store": str(self.store),
            "config": None if personal else str(self.config),
            "idle": 60.0,
        }
        self.settings = ClientSettings(**{**fields, **changes})
        self.blocks = {
            name: dialect(HOST).fail_closed_answer(name, None, "unanswered") for name in EVENTS
        }
        self.script = write_files(folder / "hooks", client_files(self.settings, HOST, self.blocks))

    def line(self, event):
        return shell_line(self.settings.python, self.script, HOST, event, self.blocks[event])

    def start(self, event, **options):
        return subprocess.Popen(
            ["/bin/sh", "-c", self.line(event)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **{"cwd": self.work, **options},
        )

    def tell(self, event, line=None, **fields):
        """Return the answer to an event of a host that runs the installed line."""
        options = {key: fields.pop(key) for key in ("cwd", "env", "preexec_fn") if key in fields}
        ended = subprocess.run(
            ["/bin/sh", "-c", line or self.line(event)],
            input=self.payload(event, **fields),
            capture_output=True,
            check=False,
            **{"cwd": self.work, **options},
        )
        return self.answer_of(ended.returncode, ended.stdout, ended.stderr)

    def answer_of(self, code, stdout, stderr):
        assert b"Traceback" not in stderr
        assert code in {0, 2}
        return json.loads(stdout or b"{}")

    def payload(self, event, **fields):
        return json.dumps(
            {
                "session_id": "s",
                "transcript_path": "",
                "cwd": str(self.work),
                "hook_event_name": event,
                "timestamp": "2026-11-20T10:00:00Z",
                **fields,
            }
        ).encode()

    def result(self, text=f"token {SECRET} end", **options):
        call = {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}}
        return self.tell("AfterTool", **call, tool_response={"llmContent": text}, **options)

    def call(self, command="rm x", **options):
        return self.tell(
            "BeforeTool", tool_name="run_shell_command", tool_input={"command": command}, **options
        )

    def prompt(self, text, **options):
        return self.tell("BeforeAgent", prompt=text, **options)

    def is_block(self, answer, event):
        return answer == json.loads(self.blocks[event].stdout)

    @property
    def log(self):
        file = self.store.parent / "hooks.log"
        return file.read_text() if file.exists() else ""

    @property
    def workers(self) -> list[int]:
        """The ids of all workers that became ready and have not said that they end."""
        ready = re.findall(r"(\d+) ready", self.log)
        ended = re.findall(r"(\d+) ends", self.log)
        return [int(each) for each in ready if each not in ended]

    def await_worker(self, number=1) -> int:
        """Return the id of the *number*th worker when it is ready."""
        for _ in range(6000):
            if len(ready := re.findall(r"(\d+) ready", self.log)) >= number:
                return int(ready[number - 1])
            time.sleep(0.01)
        raise AssertionError(f"no worker came: {self.log}")

    def prompts_kept(self) -> list[str]:
        async def read():
            store = SqliteStore(self.store)
            try:
                messages = await store.read(f"{HOST}:s")
            finally:
                await store.close()
            return [each.content for each in messages if each.role == "user"]

        return asyncio.run(read())

    def questions(self):
        """Return the questions of the session, the oldest first."""
        return self._in_store(lambda store: questions_of(store, f"{HOST}:s"))

    def approve(self, question) -> None:
        """Say yes to *question*, as a person who was shown it."""
        facts = {"approve": True, "by": "ann"}
        result = self._in_store(lambda store: answer(store, question.id, question.digest, **facts))
        assert result.status == "accepted"

    def _in_store(self, work):
        async def run():
            async with SqliteStore(self.store) as store:
                return await work(store)

        return asyncio.run(run())

    def close(self) -> None:
        for worker in self.workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)
                os.kill(worker, signal.SIGKILL)
