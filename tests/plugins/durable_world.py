"""Workers as processes of their own, which are killed, and what must hold when all runs ended."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path

import durable_app
import toolbus
from kill_steps import runs_in
from toolbus.durable.dbos_engine import DbosEngine
from toolbus.durable.runs import PREFIX, VERSION, decode_run
from toolbus.durable.submission import submit
from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.store.store_factory import open_reader, open_store

APP = Path(__file__).parents[1] / "programs/durable_app.py"
WAIT = 0.05


def environment(effects):
    """Return the variables of a command whose app writes to *effects*."""
    paths = [str(Path(toolbus.__file__).parents[1]), str(APP.parent)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "DURABLE_EFFECTS": str(effects)}


class DurableWorld:
    """A store at *address*, a queue, and its workers; *folder* takes their logs and effects."""

    def __init__(self, address, folder, queue="q", app=APP):
        self.address, self.folder, self.queue = str(address), Path(folder), queue
        self.app, self.effects = app, Path(folder) / "effects"
        self.workers = []
        self._logs = 0

    def command(self, *words):
        """Return the finished command `toolbus` *words*."""
        return subprocess.run(
            [sys.executable, "-m", "toolbus", *map(str, words)],
            env=environment(self.effects),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def submit(self, prompt, *words):
        """Put a run on the queue, with the command."""
        where = ["--store", self.address, "--queue", self.queue]
        return self.command("submit", f"{self.app}:agent", prompt, *where, *words)

    def start(self, *words):
        """Start a worker and return its process; it says something once it works."""
        self._logs += 1
        with (self.folder / f"worker-{self._logs}.log").open("wb") as log:
            where = ["--store", self.address, "--queue", self.queue]
            worker = subprocess.Popen(
                [sys.executable, "-m", "toolbus", "worker", f"{self.app}:agent", *where, *words],
                env=environment(self.effects),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.workers.append(worker)
        return worker

    def kill(self, worker):
        """Kill *worker* with SIGKILL."""
        self.workers.remove(worker)
        worker.kill()
        worker.wait()

    def stop(self, worker, seconds=30):
        """Stop *worker* gently, and return its exit code."""
        self.workers.remove(worker)
        worker.send_signal(signal.SIGTERM)
        return worker.wait(seconds)

    def kill_at_random(self, kills, calls, seed=7):
        """Kill so many workers, spread over the *calls* of tools, and start another for each."""
        chance = random.Random(seed)
        for number in range(kills):
            # Interrupted calls may not have run at all.
            due = number * calls * 9 // 10 // (kills + 1)
            until(lambda due=due: self.runs_of_tools().total() >= due, 600, self.logs)
            time.sleep(chance.uniform(0, 0.2))
            self.kill(chance.choice(self.workers))
            self.start()

    def close(self):
        """Kill all workers that are there."""
        for worker in [*self.workers]:
            with suppress(ProcessLookupError):
                self.kill(worker)

    def logs(self):
        """Return what all workers have written."""
        files = sorted(self.folder.glob("worker-*.log"))
        return "\n".join([file.read_text("utf-8", "replace") for file in files])

    def runs_of_tools(self):
        """Return how often each call's tool ran, by session and call."""
        return Counter(runs_in(self.effects))


def until(condition, seconds, what):
    """Wait until *condition* returns something true, and return it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, what()
        time.sleep(WAIT)
    return value


def has_ended(messages):
    """Return whether the session's last answer has no calls."""
    last = messages[-1] if messages else None
    return isinstance(last, AssistantMessage) and not last.tool_calls


def check_session(session_id, messages, ran):
    """Check that each call has one answer, and that its tool ran as the answer says.

    Returns the statuses of the answers.
    """
    assert has_ended(messages), (session_id, messages[-1:])
    calls = [call.id for each in messages for call in getattr(each, "tool_calls", ())]
    answers = [each for each in messages if isinstance(each, ToolMessage)]
    assert Counter(each.tool_call_id for each in answers) == Counter(calls), session_id
    assert max(Counter(calls).values(), default=1) == 1, session_id
    statuses = Counter()
    for answer in answers:
        times = ran[f"{session_id} {answer.tool_call_id}"]
        kind = answer.tool_response.error_type or "ok"
        statuses[kind] += 1
        # An interrupted call may have run, a denied one has not; nothing runs twice.
        allowed = {"denied": {0}, "interrupted": {0, 1}}.get(kind, {1})
        assert times in allowed, (session_id, answer)
    return statuses


async def read_sessions(address, names):
    """Return the messages of each session."""
    async with open_store(address) as store:
        return {name: await store.read(name) for name in names}


def check_world(world, names):
    """Check all sessions and the store of *world* after their runs ended; return the statuses."""
    ran, statuses = world.runs_of_tools(), Counter()
    for name, messages in asyncio.run(read_sessions(world.address, names)).items():
        statuses += check_session(name, messages, ran)
    checked = world.command("check", world.address)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return statuses


def batched(items, size=16):
    """Yield the *items* in lists of at most so many."""
    items = iter(items)
    while some := list(islice(items, size)):
        yield some


async def submit_all(world, prompts, engine=None, **options):
    """Submit a run for each session of *prompts*, by its name; the engine is DBOS by default."""
    engine = engine or DbosEngine(world.address, version=VERSION)
    async with open_store(world.address) as store:
        await engine.open()
        place = {"queue": world.queue, **options}
        for some in batched(prompts.items()):
            works = [
                submit(durable_app.agent, store, engine, prompt, session_id=name, **place)
                for name, prompt in some
            ]
            await asyncio.gather(*works)
        await engine.close()


def words_of(world):
    """Return the word of each run, by its session."""
    with open_reader(world.address) as reader:
        return {name: decode_run(row.body).word for name, row in reader.states_like(PREFIX)}


def await_ends(world, seconds, word="ok"):
    """Wait until each run of *world* has ended with *word*."""

    def have_ended():
        return set(words_of(world).values()) <= {word}

    until(
        have_ended, seconds, lambda: f"{Counter(words_of(world).values())}\n{world.logs()[-3000:]}"
    )
