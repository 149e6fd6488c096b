"""`toolbus completion`: a script for a shell to complete commands and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.command_line import COMMANDS, command_of
from toolbus.cli.parser import CommandParser, make_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus completion bash >> ~/.bashrc     from the next shell on
  toolbus completion zsh >> ~/.zshrc       after `compinit`
  toolbus completion fish > ~/.config/fish/completions/toolbus.fish

The shell calls the `toolbus` of your PATH, never the file whose path you type.
Without a candidate of toolbus it completes file names."""

_SCRIPTS = {
    "bash": """\
_toolbus() {
  local found
  found=$(command toolbus completion --candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _toolbus toolbus
""",
    "zsh": """\
_toolbus() {
  local -a found
  found=(${(f)"$(command toolbus completion --candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  compadd -a found || _files
}
compdef _toolbus toolbus
""",
    "fish": """\
function __toolbus_candidates
    set -l typed (commandline -opc)
    command toolbus completion --candidates -- $typed[2..] (commandline -ct) 2>/dev/null
end
complete -c toolbus -a '(__toolbus_candidates)'
""",
}


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser(
        "toolbus completion", "Print the completion script of a shell.", _EPILOG, CommandParser
    )
    parser.usage = "toolbus completion [-h] bash|zsh|fish"
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=_SCRIPTS, help="its name")
    parser.add_argument(
        "--candidates",
        action="store_true",
        help="print the completions of the words behind --",
    )

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.candidates:
            output.write("".join([f"{word}\n" for word in candidates(parsed.command)]))
        elif parsed.shell is None:
            parser.error(f"the shell is missing; give one of {', '.join(_SCRIPTS)}")
        else:
            output.write(_SCRIPTS[parsed.shell])
        return 0

    return parser, run


def candidates(words: Sequence[str]) -> list[str]:
    """Return the completions of the last of *words*, the words after `toolbus`.

    File names are left to the shell, so options are returned only for a partial one.
    """
    *before, partial = words or [""]
    if not before:
        known = [*COMMANDS, "--help", "--version", "-V"]
    elif before[0] in COMMANDS and "--" not in before:
        parser, _ = command_of(before[0])
        known = parser.next_words(before[1:])
    else:
        return []
    return [word for word in known if word.startswith(partial) and (partial or word[0] != "-")]
