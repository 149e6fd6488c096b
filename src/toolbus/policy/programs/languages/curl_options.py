"""Curl beside the reading of an address: the files that it writes, and its words to servers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.program_files import language_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

# curl takes the protocol from the beginning of a host's name where the address has none.
_OTHER_SCHEME = re.compile(
    r"(?!(?:https?|ftps?|file|wss?):/)[a-z][a-z0-9+]*:/|(?:dict|imap|ldap|pop3|smtp)\.",
    re.IGNORECASE,
)


def read_curl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge what curl tells servers, and the names of the files that it writes; return URLs."""
    builder = parsed.builder
    for option, value in parsed.values:
        if "-b" in option.names and "=" not in value.text:
            builder.read(value)  # Cookies, or the name of their file.
        if "-Q" in option.names:
            verb = value.text.lstrip("-+*").partition(" ")[0].upper()
            if not value.known or verb not in language_words("curl", "queries"):
                builder.effects.add("write")
        if "-w" in option.names:
            _write_as_told(parsed, value)
        if "--url" in option.names:
            _send_by_scheme(parsed, value)
    for url in parsed.operands:
        _send_by_scheme(parsed, url)
    if parsed.option("-O", "--remote-name", "--remote-name-all"):
        _write_by_url(parsed)
    return parsed.operands


def _write_as_told(parsed: ParsedCommand, template: Word) -> None:
    """Add the files that a text of ``-w`` names: ``%output{FILE}``, ``%output{>>FILE}``."""
    if template.text.startswith("@"):
        parsed.note("which files it writes may stand in that file", template)
    for name in re.findall(r"%output\{(?:>>)?([^}]*)", template.text):
        parsed.builder.write(Word(name))


def _send_by_scheme(parsed: ParsedCommand, url: Word) -> None:
    """Judge an address whose path is sent as commands, or that reads files through a server."""
    if url.known and _OTHER_SCHEME.match(url.text):
        parsed.builder.effects.add("write")


def _write_by_url(parsed: ParsedCommand) -> None:
    """Add the files to which curl gives the names of what it fetches."""
    if parsed.option("-J", "--remote-header-name"):
        parsed.builder.write(Word("a name that the server gives", known=False))
    for url in parsed.operands:
        name = url.text.partition("?")[0].rpartition("/")[2]
        parsed.builder.write(Word(name, known=url.known and not {*name} & {*"{}[]"}))
