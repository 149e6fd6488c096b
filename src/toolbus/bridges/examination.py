"""The report on the frameworks of a Python environment: what reaches components there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.bridges.frameworks import ALWAYS, FRAMEWORKS, WAYS_ROUND, Ability, Framework
from toolbus.components.call_facts import CallFactSource, describe_unseen
from toolbus.components.needs import needs_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from toolbus.config.targets import LoadedTarget

_KINDS_OF_CALLS: tuple[Ability, ...] = ALWAYS[ALWAYS.index("unknown_tools") :]
"""The abilities that no component needs, but that limit every one."""


class ComponentReach(Struct, frozen=True, kw_only=True):
    """The abilities of *component*, needed and provided, and the *undelivered* abilities.

    *unseen* is a sentence about the unseen texts, for a component with facts on calls.
    """

    component: str
    delivered: tuple[Ability, ...]
    undelivered: tuple[Ability, ...] = ()
    unseen: str = ""


class FrameworkReport(Struct, frozen=True, kw_only=True):
    """The facts about a framework here.

    Args:
        framework: the name of its extra.
        title: the vendor's name.
        version: the installed version; None if it is not installed here.
        tested: the oldest and the newest tested version.
        components: the reach of each component of the active configuration.
        limits: sentences about calls and texts that pass by every component.
    """

    framework: str
    title: str
    version: str | None
    tested: tuple[str, str]
    components: tuple[ComponentReach, ...] = ()
    limits: tuple[str, ...] = ()


def examine_frameworks(
    names: Collection[str] | None, loaded: LoadedTarget | None
) -> tuple[FrameworkReport, ...]:
    """Return the reports on the frameworks with *names* of extras; None: on the installed ones."""
    reports = [
        _report(each, loaded)
        for each in FRAMEWORKS.values()
        if names is None or each.extra in names
    ]
    if names is None:
        reports = [report for report in reports if report.version is not None]
    return tuple(reports)


def _report(framework: Framework, loaded: LoadedTarget | None) -> FrameworkReport:
    return FrameworkReport(
        framework=framework.extra,
        title=framework.title,
        version=_installed(framework.package),
        tested=framework.versions,
        components=() if loaded is None else tuple(_reaches(framework, loaded)),
        limits=(*_limits(framework), *framework.notes),
    )


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _reaches(framework: Framework, loaded: LoadedTarget) -> Iterator[ComponentReach]:
    """Yield the reach of each component of the *loaded* configuration."""
    configuration = loaded.configuration
    for configured in () if configuration is None else configuration.configured:
        needs = needs_of(loaded.bus, configured.component)
        needed = {ability for _, abilities in needs for ability in abilities}
        tells_facts = isinstance(configured.component, CallFactSource)
        delivers = [(each, how) for each, how in framework.delivers.items() if each in needed]
        yield ComponentReach(
            component=configured.entry.name,
            delivered=tuple([ability for ability, how in delivers if how in {"yes", "wrapped"}]),
            undelivered=tuple([ability for ability, how in delivers if how == "no"]),
            unseen=describe_unseen(framework.unseen_texts) if tells_facts else "",
        )


def _limits(framework: Framework) -> Iterator[str]:
    for ability in _KINDS_OF_CALLS:
        match framework.delivers[ability]:
            case "no":
                yield WAYS_ROUND[ability]
            case "wrapped":
                yield f"{WAYS_ROUND[ability]}, unless each has the bridge or is wrapped"
