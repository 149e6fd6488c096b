"""The demo: an agent with real tools on real files, and what handlers make of it."""

from __future__ import annotations

import asyncio
import random
import tempfile
from difflib import get_close_matches
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from toolbus import Agent
from toolbus.cli.demo import components as ours
from toolbus.cli.demo.account import Account
from toolbus.cli.demo.live import LiveModel
from toolbus.cli.demo.printer import DemoPrinter, show_report
from toolbus.cli.demo.repository import check_programs, make_repository, prompt_of, write_recording
from toolbus.cli.demo.tools import Workspace
from toolbus.cli.demo.world import World, draw_world
from toolbus.cli.output.screen import open_screen
from toolbus.messages.records import encode
from toolbus.models.protocol import close_model
from toolbus.models.replay import ReplayModel
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.cli.output.stream import Output
    from toolbus.events.catalogue import RunResult
    from toolbus.models.protocol import Model


def run_demo(
    output: Output,
    *,
    folder: str | None = None,
    seed: int | None = None,
    without: Sequence[str] = (),
    as_json: bool = False,
    program: Sequence[str] = ("toolbus",),
    live: LiveModel | None = None,
) -> int:
    """Run the demo; return 0 if every intervention happened, else 1; raises `UsageError`.

    What a *live* model does is its own: then 0 means that the run came to its end, and that no
    credential was read or stored.

    Args:
        output: where the timeline goes.
        folder: where the files go, kept afterwards; a fresh one, if none is given.
        seed: what the world is drawn from; drawn itself, if none is given.
        without: names of components to leave out.
        as_json: write one JSON document in place of the timeline.
        program: how the person calls us, for commands to run next.
        live: works in place of the recording.
    """
    _check_names(without)
    check_programs()
    world = draw_world(random.randrange(1_000_000) if seed is None else seed)
    root = _empty_folder(folder)
    screen = open_screen(output)
    if not as_json:
        screen.line(Span("toolbus demo", "strong"), right=[Span(f"--seed {world.seed}", "dim")])
        screen.whole(f"an agent mends {world.service} in {root}")
        legend = "~ before │ after    = answered    ✗ denied    ? asked    ! failed"
        screen.line(Span(legend, "dim"))
    account = Account(None if as_json else DemoPrinter(screen))
    report = {
        **_run(world, root, account, without, live),
        "seed": world.seed,
        "without": without,
        "folder": str(root),
        "prompt": prompt_of(world),
        "live": None if live is None else live.model.name,
        "next": _next_commands(world.seed, root / "repo", without, program),
    }
    if as_json:
        output.write(f"{encode(report).decode()}\n")
    else:
        show_report(report, screen)
    return 0 if report["ok"] else 1


def _run(
    world: World, folder: Path, account: Account, without: Sequence[str], live: LiveModel | None
) -> dict[str, Any]:
    """Let the agent work in *folder*; return what came of it."""
    repository = make_repository(world, folder)
    recording, transcript = folder / "session.jsonl", folder / "transcript.db"
    is_scripted = live is None
    if live is None:
        write_recording(world, recording)
        live = LiveModel(ReplayModel.from_file(recording))
    components = [each for each in ours.components(repository) if each.name not in without]
    store = SqliteStore(transcript)
    agent = Agent(
        live.model,
        components=[Workspace(repository), *components, *live.components],
        store=store,
        session_id=f"demo-{world.seed}",
        system="You look after services. Mend what is broken, and nothing else.",
        approver=live.approver,
    )
    live.watch(agent)
    agent.bus.tap(account, values=True)
    start_ns = perf_counter_ns()
    result = asyncio.run(_work(agent, store, live.model, prompt_of(world)))
    if not recording.exists():
        recording.write_bytes(b"".join([encode(message) + b"\n" for message in result.messages]))
    duration_ns = perf_counter_ns() - start_ns
    totals = account.count(world.credentials, transcript)
    checks = account.check(totals)
    missing = [
        f"{check['expected']} ({check['component']})" if check["component"] else check["expected"]
        for check in checks
        if not check["happened"]
    ]
    is_clean = not (totals["credentials_read"] or totals["credentials_stored"])
    return {
        "ok": not missing if is_scripted else result.status == "ok" and is_clean,
        "status": result.status,
        "missing": missing,
        "repository": str(repository),
        "recording": str(recording),
        "transcript": str(transcript),
        "session_id": agent.scope.session_id,
        "answer": result.text,
        "turns": result.turns,
        "duration_ns": duration_ns,
        "calls": account.calls,
        "checks": checks,
        "totals": totals,
    }


async def _work(agent: Agent, store: SqliteStore, model: Model, prompt: str) -> RunResult:
    try:
        async with store, agent:
            return await agent.run(prompt)
    finally:
        await close_model(model)


def _next_commands(
    seed: int, repository: Path, without: Sequence[str], program: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    file = Path(ours.__file__)
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    again = () if without else ("--without", "Secrets")
    return (
        (*program, "demo", "--seed", str(seed), *again),
        (*program, "handlers", f"{file}:components"),
        ("git", "-C", str(repository), "log", "-p", "-1"),
    )


def _check_names(without: Sequence[str]) -> None:
    known = [component.name for component in ours.components()]
    for name in without:
        if name not in known:
            near = get_close_matches(name, known, 1) or known
            raise UsageError(f"--without {name}: no such handler; there is {', '.join(near)}")


def _empty_folder(wanted: str | None) -> Path:
    """Return the folder of the run, made if need be; raises `UsageError` if it is no empty one."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="toolbus-demo-"))
    folder = Path(wanted).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "the folder is not empty" if any(folder.iterdir()) else None
    except OSError as error:
        reason = error.strerror
    if reason:
        raise UsageError(f"--dir {wanted}: {reason}; give an empty or a new folder") from None
    return folder
