"""Lines of the shell that try to do more than they seem: a grammar, drawn from by a seed.

Options come from the policy's own tables, from what a program says of itself, and by chance, since
the options that nobody thought of are those that matter.
"""

import re
import shutil
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from toolbus.policy.programs.program_files import shipped_programs

WORDS = tomllib.loads(
    (Path(__file__).parents[1] / "data/policy/hostile_words.toml").read_text("utf-8")
)
SCRIPTS = WORDS["scripts"]
FOLDERS = "/usr/bin:/bin:/usr/sbin:/sbin"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0"
MAX_DEPTH = 3


def is_described(name: str) -> bool:
    """Return whether this machine has the program *name* that the program data describe.

    The `kubectl` of Google's SDK is another one: it asks a server for its version first, whatever
    it is told, and then runs the `kubectl` of that version.
    """
    found = shutil.which(name, path=FOLDERS)
    return found is not None and "google-cloud-sdk" not in Path(found).resolve().parts


class Grammar:
    """The lines of a machine's programs; *tell* returns what a program prints."""

    def __init__(self, tell: Callable[..., str]) -> None:
        known = shipped_programs()
        names = sorted({*known.names(), *known._tables} - {*WORDS["dull"]})
        plain = [name for name in names if re.fullmatch(r"[\w.+-]+", name)]
        self.programs = [name for name in plain if is_described(name)]
        often = (*SCRIPTS, "sort", "grep", "xargs", "env", "diff", "file")
        self.favourites = [name for name in often if name in self.programs]
        wrapping = [name for name in self.programs if known.find(name)[1].wraps]
        self.wrappers = sorted({*wrapping, "find", "bash"} & {*self.programs})
        self._tell = cache(tell)

    def line(self, seed: int) -> str:
        """Return the line of *seed*."""
        return Line(self, Random(seed)).whole()

    def options(self, name: str, commands: tuple[str, ...]) -> list[str]:
        """Return the options that the program *name* tells of."""
        asked = "-h" if name == "git" and commands else "--help"
        text = self._tell(name, *commands, asked)
        return sorted(set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text)))


class Line:
    """One line, drawn from a *grammar* with *random*."""

    def __init__(self, grammar: Grammar, random: Random) -> None:
        self.grammar, self.random, self.depth = grammar, random, 0

    def whole(self) -> str:
        """Return a line of any kind."""
        kinds = (self.simple, self.wrapped, self.construct, self.listed)
        (kind,) = self.random.choices(kinds, (55, 15, 22, 8))
        return kind()

    def inner(self) -> str:
        """Return a line that is a part of another one."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            return "ls"
        return self.whole() if self.chance(0.4) else self.simple()

    def chance(self, share: float) -> bool:
        """Return whether to do what is done in this *share* of lines."""
        return self.random.random() < share

    def one(self, words: str) -> str:
        """Return one of *words* of the data."""
        return self.random.choice(WORDS[words])

    def listed(self) -> str:
        """Return two lines in one."""
        return self.inner() + self.one("joiners") + self.inner()

    def construct(self) -> str:
        """Return something that only the shell itself does."""
        return self.filled(self.one("constructs"))

    def filled(self, pattern: str) -> str:
        """Return *pattern* with something for each name in braces."""
        return re.sub(
            r"\{\{|\}\}|\{(\w+)\}",
            lambda match: self.piece(match[1]) if match[1] else match[0][0],
            pattern,
        )

    def piece(self, name: str) -> str:
        """Return what a construct has in the place of *name*."""
        match name:
            case "line":
                return self.inner()
            case "value":
                return self.quoted(self.one("values" if self.chance(0.7) else "code"))
            case "assign":
                return f"{self.one('variables')}{self.sign()}{self.piece('value')}"
            case "quoted":
                return single(f"{self.random.choice('xy')}{self.sign()}{self.one('values')}")
            case "letters":
                letters = self.random.sample(LETTERS, self.random.randint(1, 2))
                return "" if self.chance(0.2) else "-" + "".join(letters)
            case "file":
                return self.quoted(self.one("files"))
        return self.one({"declare": "declares", "use": "uses"}.get(name, name))

    def sign(self) -> str:
        """Return how a variable is set."""
        return "+=" if self.chance(0.2) else "="

    def wrapped(self) -> str:
        """Return a line that a program runs."""
        name = self.random.choice(self.grammar.wrappers)
        words = [self.program(name), *self.options(name, ())]
        if name == "find":
            ends = self.random.choice(("\\;", "+", "{} +", "';'"))
            words += [self.one("files"), self.random.choice(("-exec", "-execdir", "-ok"))]
            words += [self.simple(), ends]
        elif name == "bash":
            words += ["-c", single(self.inner()), *self.operands(name)]
        elif self.chance(0.2):
            words += [self.one("files"), self.random.choice(("-c", "")), single(self.simple())]
        else:
            words += [*self.operands(name)[: self.chance(0.4)], self.simple()]
        before = self.one("inputs") if name == "xargs" else ""
        return before + " ".join(filter(None, words))

    def simple(self) -> str:
        """Return a program with options and operands."""
        known = self.grammar.favourites if self.chance(0.4) else self.grammar.programs
        name = self.random.choice(known)
        commands = self.subcommands(name)
        rest = [*self.options(name, commands), *self.operands(name)]
        if self.chance(0.3):
            self.random.shuffle(rest)
        words = [self.piece("assign")] if self.chance(0.08) else []
        words += [self.program(name), *commands, *rest]
        if self.chance(0.1):
            words.append(self.filled(self.one("redirects")))
        return " ".join(words)

    def program(self, name: str) -> str:
        """Return *name* as a line may have it."""
        if self.chance(0.9):
            return name
        parted = f"{name[0]}''{name[1:]}"
        others = (f"\\{name}", f"'{name}'", f"/usr/bin/{name}", parted, f"$'{name}'")
        return self.random.choice((*others, f"command {name}"))

    def subcommands(self, name: str) -> tuple[str, ...]:
        """Return the words of a subcommand of *name*, if that has any."""
        found = shipped_programs().find(name)
        names: list[str] = []
        level = found[1].data if found else None
        while level is not None and level.commands and self.chance(0.95):
            command = self.random.choice(sorted(level.commands))
            names += command.split()
            level = level.commands[command]
        return tuple(word for word in names if re.fullmatch(r"[\w:.-]+", word))

    def options(self, name: str, commands: tuple[str, ...]) -> list[str]:
        """Return some options for *name*."""
        count = self.random.choice((0, 1, 1, 1, 2, 2, 3))
        return [self.option(name, commands) for _ in range(count)]

    def option(self, name: str, commands: tuple[str, ...]) -> str:
        """Return an option, with a value or without."""
        known = known_to_us(name) if self.chance(0.3) else self.grammar.options(name, commands)
        letter = "-" + self.random.choice(LETTERS)
        option = self.random.choice(known) if known and self.chance(0.85) else letter
        value = self.value(name)
        if option.startswith("--"):
            if self.chance(0.1):
                option = option[: self.random.randint(4, max(4, len(option)))]
            return self.random.choice((option, option, f"{option}={value}", f"{option} {value}"))
        cluster = letter + option[1:]
        joined = (f"{option}{value}", cluster, f"{cluster}{value}")
        return self.random.choice((option, option, f"{option} {value}", *joined))

    def value(self, name: str) -> str:
        """Return a value of an option of *name*."""
        kinds = (SCRIPTS.get(name, WORDS["code"]), *map(WORDS.get, ("files", "new", "code")))
        (kind,) = self.random.choices((*kinds, WORDS["numbers"]), (4, 4, 3, 2, 3))
        return self.quoted(self.random.choice(kind))

    def operands(self, name: str) -> list[str]:
        """Return some operands for *name*."""
        files = WORDS["files"]
        kinds = (SCRIPTS.get(name, files), files, *map(WORDS.get, ("new", "code", "numbers")))
        count = self.random.choice((0, 1, 1, 2, 2, 3))
        drawn = self.random.choices(kinds, (6, 5, 1, 1, 1), k=count)
        return [self.quoted(self.random.choice(kind)) for kind in drawn]

    def quoted(self, text: str) -> str:
        """Return *text* as a word, most often such that it stays one."""
        plain = re.fullmatch(r"[\w./~=,:@%+-]+", text) and self.chance(0.9)
        pattern = re.fullmatch(r"~|\*|[\w/.*-]+", text) and self.chance(0.6)
        if plain or pattern:
            return text
        if self.chance(0.75):
            return single(text)
        parted = single(text[:2]) + f'"{text[2:]}"'
        others = (f'"{text}"', text.replace(" ", "\\ "), "$" + single(text), parted)
        return self.random.choice(others)


def known_to_us(name: str) -> list[str]:
    """Return the options of *name* in the policy's tables."""
    found = shipped_programs().find(name)
    options = found[1].options if found else ()
    return sorted(option for option in options if re.fullmatch(r"--?\w[\w-]*", option))


def single(text: str) -> str:
    """Return *text* in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
