"""The last check of a written policy: a replay of the sessions behind its new rules."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolbus.components.participants import ComponentHost
from toolbus.config.targets import LoadedTarget
from toolbus.policy.policy import Policy
from toolbus.replay.replayer import Replayer
from toolbus.store.store_reader import first_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toolbus.replay.findings import ReplayFinding
    from toolbus.suggest.recordings import Recording

    StoppedCalls = dict[tuple[str, str], str]


def replay_policy(file: Path, recordings: Sequence[Recording]) -> StoppedCalls:
    """Return the calls stopped by the policy in *file*, as "denied" or "asked".

    They are by the ids of session and call.
    """
    # A replay does not know the origin of words, and a policy would warn of that.
    logging.getLogger("toolbus").addHandler(logging.NullHandler())
    return asyncio.run(_replay(Policy.read(file), recordings))


def find_conflicts(
    before: StoppedCalls, after: StoppedCalls, recordings: Sequence[Recording]
) -> list[str]:
    """Return the calls for which *after* goes against a person's answer, and *before* does not."""
    return [
        f"{key[1]} of session {key[0]}"
        for recording in recordings
        for key, asked in recording.asked.items()
        if (asked.answer == "yes" and after.get(key) == "denied" != before.get(key))
        or (asked.answer == "no" and key in before and key not in after)
    ]


async def _replay(policy: Policy, recordings: Sequence[Recording]) -> StoppedCalls:
    stopped: StoppedCalls = {}

    def report(finding: ReplayFinding) -> None:
        if finding.role == "call" and finding.outcome in {"denied", "asked"}:
            stopped[finding.session, finding.subject] = finding.outcome

    host = ComponentHost()
    policy.setup(host)
    replayer = Replayer(LoadedTarget(host.bus, "policy", "component", host, (policy,)), report)
    replayer.listen()
    await policy.install(host)
    for recording in recordings:
        for row in recording.reader.sessions():
            session = replayer.begin(row.id, first_folder(recording.reader, row.key))
            for each in recording.reader.messages(row.key):
                if each.message is not None:
                    await replayer.replay(session, each.message)
    await policy.close()
    return stopped
