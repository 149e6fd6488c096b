"""Sources of texts: the settings of trust, and the label of one message from the record alone."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolbus.messages.immutable import EMPTY


class FlowSettings(Struct, frozen=True, kw_only=True):
    """The settings of `FlowGuard`: tuples of globs, and the *sinks* of tools by glob.

    Results of *trusted_tools* are trusted, as is all that comes from *trusted_hosts* or
    *trusted_paths*. Relative paths begin in the session's project.
    """

    trusted_tools: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    trusted_paths: tuple[str, ...] = ("**",)
    private_tools: tuple[str, ...] = ()
    private_paths: tuple[str, ...] = ()
    sinks: Mapping[str, str] = EMPTY
