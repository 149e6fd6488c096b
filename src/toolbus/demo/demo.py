"""The demo: an agent with real tools on real files, and what handlers make of it."""

from __future__ import annotations

import asyncio
import random
import tempfile
from difflib import get_close_matches
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

from toolbus import Agent
from toolbus.demo import handlers
from toolbus.demo.account import Account
from toolbus.demo.closing import Report, show
from toolbus.demo.repository import check_programs, make_repository
from toolbus.demo.session import prompt_of, write_session
from toolbus.demo.timeline import Timeline
from toolbus.demo.tools import Workspace
from toolbus.demo.verdict import count, judge
from toolbus.demo.world import World, draw_world
from toolbus.messages.records import encode
from toolbus.models.replay import ReplayModel
from toolbus.store.sqlite import SqliteStore
from toolbus.terminal import Output, Span, UsageError, open_screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus import AgentComponent
    from toolbus.demo.account import Audience
    from toolbus.events.catalogue import RunResult


class Place(NamedTuple):
    """The files of one run."""

    folder: Path

    @property
    def recording(self) -> Path:
        """Where the model's side of the session is."""
        return self.folder / "session.jsonl"

    @property
    def transcript(self) -> Path:
        """The store's file."""
        return self.folder / "transcript.db"


def run_demo(
    output: Output,
    *,
    folder: str | None = None,
    seed: int | None = None,
    without: Sequence[str] = (),
    as_json: bool = False,
    program: Sequence[str] = ("toolbus",),
) -> int:
    """Run the demo; return 0 if every intervention happened, else 1; raises `UsageError`.

    Args:
        output: where the timeline goes.
        folder: where the files go, kept afterwards; a fresh one, if none is given.
        seed: what the world is drawn from; drawn itself, if none is given.
        without: names of components to leave out.
        as_json: write one JSON document in place of the timeline.
        program: how the person calls us, for commands to run next.
    """
    _check_names(without)
    check_programs()
    world = draw_world(random.randrange(1_000_000) if seed is None else seed)
    place = Place(_empty_folder(folder))
    screen = open_screen(output)
    if not as_json:
        screen.line(Span("toolbus demo", "strong"), right=[Span(f"--seed {world.seed}", "dim")])
        screen.whole(f"an agent mends {world.service} in {place.folder}")
        screen.line(Span("~ before │ after    ✗ refused    ? asked    ! failed", "dim"))
    report = _report(world, place, without, None if as_json else Timeline(screen), program)
    if as_json:
        output.write(f"{encode(report).decode()}\n")
    else:
        show(report, screen)
    return 0 if report.ok else 1


def _report(
    world: World,
    place: Place,
    without: Sequence[str],
    audience: Audience | None,
    program: Sequence[str],
) -> Report:
    repository = make_repository(world, place.folder)
    write_session(world, place.recording)
    account, since = Account(audience), perf_counter_ns()
    components = [one for one in handlers.components(repository) if one.name not in without]
    result = asyncio.run(_work(world, place, repository, components, account))
    duration_ns = perf_counter_ns() - since
    totals = count(account, world.credentials, place.transcript)
    checks = judge(account.calls, totals)
    missing = tuple([_named(one.expected, one.component) for one in checks if not one.happened])
    return Report(
        ok=not missing,
        missing=missing,
        seed=world.seed,
        without=tuple(without),
        folder=str(place.folder),
        repository=str(repository),
        recording=str(place.recording),
        transcript=str(place.transcript),
        session_id=_session_id(world),
        prompt=prompt_of(world),
        answer=result.text,
        turns=result.turns,
        duration_ns=duration_ns,
        calls=tuple(account.calls),
        checks=checks,
        totals=totals,
        next=_next(world, repository, without, program),
    )


async def _work(
    world: World,
    place: Place,
    repository: Path,
    components: Sequence[AgentComponent],
    account: Account,
) -> RunResult:
    async with (
        SqliteStore(place.transcript) as store,
        Agent(
            ReplayModel.from_file(place.recording),
            components=[Workspace(repository), *components],
            store=store,
            session_id=_session_id(world),
            system="You look after services. Mend what is broken, and nothing else.",
            approver=_approve,
        ) as agent,
    ):
        agent.bus.tap(account, values=True)
        return await agent.run(prompt_of(world))


def _approve(*_: object) -> bool:
    """Say yes in the place of a person."""
    return True


def _session_id(world: World) -> str:
    return f"demo-{world.seed}"


def _named(expected: str, component: str) -> str:
    return f"{expected} ({component})" if component else expected


def _next(
    world: World, repository: Path, without: Sequence[str], program: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    file = Path(handlers.__file__)
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    return (
        (
            *program,
            "demo",
            "--seed",
            str(world.seed),
            *([] if without else ["--without", "Secrets"]),
        ),
        (*program, "wiring", f"{file}:components"),
        ("git", "-C", str(repository), "log", "-p", "-1"),
    )


def _check_names(without: Sequence[str]) -> None:
    known = [one.name for one in handlers.components()]
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
        if any(folder.iterdir()):
            raise UsageError(f"--dir {wanted}: the folder is not empty; give an empty or a new one")
    except OSError as error:
        raise UsageError(
            f"--dir {wanted}: {error.strerror}; give an empty or a new folder"
        ) from None
    return folder
