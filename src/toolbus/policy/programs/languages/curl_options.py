"""The effects of curl's options and addresses: files that it writes, and commands to servers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.program_files import language_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

# Without a scheme, curl derives the protocol from the beginning of the host's name.
_OTHER_SCHEME = re.compile(
    r"(?!(?:https?|ftps?|file|wss?):/)[a-z][a-z0-9+]*:/|(?:dict|imap|ldap|pop3|smtp)\.",
    re.IGNORECASE,
)


def read_curl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge curl's commands to servers, and the files that it writes; return URLs."""
    # Complex because each of these options has its own effect.
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
    if parsed.option("-n", "--netrc", "--netrc-optional"):
        builder.read(Word("~/.netrc", pattern=True))
    if parsed.option("-O", "--remote-name", "--remote-name-all"):
        _write_by_url(parsed)
    return parsed.operands


def _write_as_told(parsed: ParsedCommand, template: Word) -> None:
    """Add the files named in a ``-w`` template: ``%output{FILE}``, ``%output{>>FILE}``."""
    if template.text.startswith("@"):
        parsed.note("that file may name files to write", template)
    for name in re.findall(r"%output\{(?:>>)?([^}]*)", template.text):
        parsed.builder.write(Word(name))


def _send_by_scheme(parsed: ParsedCommand, url: Word) -> None:
    """Judge an address whose scheme sends commands, or reads files through a server."""
    if url.known and _OTHER_SCHEME.match(url.text):
        parsed.builder.effects.add("write")


def _write_by_url(parsed: ParsedCommand) -> None:
    """Add the files that curl names after its URLs."""
    if parsed.option("-J", "--remote-header-name"):
        parsed.builder.write(Word("a name that the server gives", known=False))
    for url in parsed.operands:
        name = url.text.partition("?")[0].rpartition("/")[2]
        parsed.builder.write(Word(name, known=url.known and not {*name} & {*"{}[]"}))
