"""The judges of one policy: a single one, or one for each project that sessions have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.projects import process_folder, project_at, project_of
from toolbus.policy.rules.judging import CallJudge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from toolbus.events.catalogue import Scope
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import PolicyRules

MOST_PROJECTS = 100
"""Projects of which one policy keeps a judge; for others one is made anew."""


class ProjectJudges:
    """Judges by the rules that *read* gives for a project; no call may write the files *protected*.

    Raises what *read* raises. A session that says no folder began where this process works now.
    """

    def __init__(
        self, read: Callable[[Project], PolicyRules], protected: Sequence[Path] = ()
    ) -> None:
        self._read, self._protected = read, protected
        self._start = process_folder()
        project = project_at(self._start)
        self._first = CallJudge(read(project), protected)
        self._judges = {project: self._first}

    @property
    def first(self) -> CallJudge:
        """The judge of sessions that begin where this process works."""
        return self._first

    def of(self, scope: Scope) -> CallJudge:
        """Return the judge of a session, by where its *scope* says that it began."""
        if self._first.rules.project is None:
            return self._first
        project = project_of(scope, self._start)
        judge = self._judges.get(project)
        if judge is None:
            judge = CallJudge(self._read(project), self._protected)
            # Threads may ask at the same time; what they lose is made once more.
            judges = {**self._judges, project: judge}
            self._judges = dict(list(judges.items())[-MOST_PROJECTS:])
        return judge
