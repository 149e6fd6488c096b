"""Personal data: what is found of what others publish, what is taken for it, and how fast."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.harness import Contender, Rig, table
from benchmarks.published import LOOK_ALIKES, PUBLISHED
from benchmarks.redaction.personal_contexts import WORDLESS, placed
from benchmarks.redaction.personal_noise import LINES, noise
from toolbus.redaction.limits import ScanLimits, at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.redaction.personal.detector import Detector

    Find = Callable[[str], int]

PLAIN = "plain patterns"
PER = 10_000
_HARD = ("a@", "1 ", "4111 ", "+49 30 901820 ", "a%40b.cd ")
LOG = "2026-01-15 10:11:12.123 INFO [worker-7] request 12345 took 17.5 ms, 200 OK\n" * 400
PROSE = "The handler returns another message, and the old one stays as it was.\n" * 400

_WORST = ("issue number", "build number", "job number", "counters", "dump", "order id", "snowflake")
"""Kinds of noise that look most like numbers of people."""

# As people write them who have no library: what each digit means is left out.
_PLAIN = {
    "email": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"),
    "phone": re.compile(r"\+?\(?\d{1,4}\)?(?:[ .-]?\(?\d{2,4}\)?){2,5}"),
    "card": re.compile(r"\b(?:\d[ -]?){13,16}\b"),
    "iban": re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
    "national-id": re.compile(r"\b\d{3}-\d{2}-\d{4}\b"),
}


@table("% found", ours="", baseline=None)
def bench_personal_found(rig: Rig) -> None:
    """What standards, vendors, Google and python-stdnum publish as examples is found."""
    for row, kind, texts in _published():
        for name, find in _finders(kind):
            found = sum(find(text) > 0 for text in texts)
            rig.put(row, name, None if rig.once else 100 * found / len(texts))
        rig.put(row, "examples", None if rig.once else len(texts))


@table("% taken", ours="", baseline=None)
def bench_personal_look_alikes(rig: Rig) -> None:
    """What only looks like personal data is left: dates, versions, and wrong check digits."""
    rows = {
        "look-alikes": [f"It is {one} here" for one in LOOK_ALIKES],
        "numbers that python-stdnum calls wrong": [text for _, text, ok in _documented() if not ok],
    }
    for row, texts in rows.items():
        for name, find in _finders(None):
            taken = sum(find(text) > 0 for text in texts)
            rig.put(row, name, None if rig.once else 100 * taken / len(texts))
        rig.put(row, "examples", None if rig.once else len(texts))


@table("% found", ours="", baseline=None)
def bench_personal_contexts(rig: Rig) -> None:
    """Published numbers are found in files and messages, best where a word says what they are.

    Nothing was tuned with the other half.
    """
    finders = {kind: list(_finders(kind)) for kind in _PLAIN}
    halves = {False: "the half that was developed with", True: "the other half"}
    counts = Counter[tuple[str, str]]()
    for example in islice(placed(), 50 if rig.once else None):
        has_word = "no word" if example.context in WORDLESS else "a word near by"
        for row in (f"{example.kind}, {has_word}", halves[example.reported]):
            counts[row, "examples"] += 1
            for name, find in finders[example.kind]:
                counts[row, name] += find(example.text) > 0
    for row in sorted({row for row, _ in counts}):
        examples = counts[row, "examples"]
        for name in ("toolbus", PLAIN):
            rig.put(row, name, None if rig.once else 100 * counts[row, name] / examples)
        rig.put(row, "examples", None if rig.once else examples)


@table("% changed", ours="", baseline=None)
def bench_personal_noise(rig: Rig) -> None:
    """Lines of code and logs that are full of numbers are left: at most one of fifty is changed."""
    lines = noise(50 if rig.once else LINES)
    for name, find in _finders(None):
        changed = Counter(kind for kind, line in lines if find(line) > 0)
        rig.put("all", name, None if rig.once else 100 * changed.total() / len(lines))
        for kind in _WORST:
            count = sum(kind == other for other, _ in lines) or 1
            rig.put(kind, name, None if rig.once else 100 * changed[kind] / count)


@table("per 10,000 lines", ours="", baseline=None)
def bench_personal_source(rig: Rig) -> None:
    """In the sources of our dependencies there are addresses of authors, and hardly a number."""
    texts = list(islice(_sources(), 50 if rig.once else None))
    lines = sum(text.count("\n") for text in texts) or 1
    for kind in _PLAIN:
        for name, find in _finders(kind):
            # Those of authors and of documents: found, and rightly.
            row = "addresses, most of them real" if kind == "email" else kind
            count = sum(map(find, texts))
            rig.put(row, name, None if rig.once else PER * count / lines)
    rig.put("lines", "toolbus", None if rig.once else lines)


@table("ns", ours="toolbus", baseline=PLAIN)
def bench_personal_speed(rig: Rig) -> None:
    """All kinds are looked for in a text of 28 kB; what it costs are the numbers in it."""
    source = inspect.getsource(inspect)[:28_000]
    hard = {f"nothing but {unit!r}": unit * (28_000 // len(unit)) for unit in _HARD}
    texts = {"prose": PROSE, "source code": source, "a log": LOG[:28_000], **hard}
    for row, text in texts.items():
        builds = [
            (name, lambda name=name, find=find, text=text: _searching(name, find, text))
            for name, find in _finders(None)
        ]
        rig.race(f"{row}, {len(text) // 1000} kB", builds)


def _searching(name: str, find: Find, text: str) -> Contender:
    return Contender(name, "find(text)", {"find": find, "text": text})


def _finders(kind: str | None) -> Iterator[tuple[str, Find]]:
    """Give whoever counts what it finds of *kind*, or of all."""
    from toolbus.redaction.personal.detector import Detector  # noqa: PLC0415 - an extra

    examiner = Detector(_PLAIN if kind is None else [kind], None, ())
    yield "toolbus", lambda text: _count(examiner, text)
    patterns = list(_PLAIN.values()) if kind is None else [_PLAIN[kind]]
    yield PLAIN, lambda text: sum(len(one.findall(text)) for one in patterns)


def _count(detector: Detector, text: str) -> int:
    """Return how many values there are in *text*."""
    from toolbus.redaction.personal.matches import Appraisal  # noqa: PLC0415 - an extra

    appraisal = Appraisal(ScanLimits(len(text), 1e6))
    return len(at_once(detector.find(text, appraisal)))


def _published() -> Iterator[tuple[str, str, list[str]]]:
    for kind, examples in PUBLISHED.items():
        yield f"{kind}: published", kind, [f"It is {one}, and so on." for one in examples]
    for row, texts in _phones().items():
        yield row, "phone", texts
    yield (
        "national-id: python-stdnum's documents",
        "national-id",
        [text for _, text, ok in _documented() if ok],
    )


def _phones() -> dict[str, list[str]]:
    """Return Google's example numbers, abroad and at home."""
    phones: Any = import_module("phonenumbers")
    styles = phones.PhoneNumberFormat
    abroad = [
        phones.format_number(phones.example_number(region), style)
        for region in sorted(phones.SUPPORTED_REGIONS)
        for style in (styles.E164, styles.INTERNATIONAL, styles.RFC3966)
    ]
    kinds = (phones.PhoneNumberType.FIXED_LINE, phones.PhoneNumberType.MOBILE)
    home = [
        phones.format_number(number, styles.NATIONAL)
        for region in ("US", "GB", "DE", "FR")
        for kind in kinds
        if (number := phones.example_number_for_type(region, kind))
    ]
    return {
        "phone: Google's, international": [f"It is {one}." for one in abroad],
        "phone: Google's, national of four": [f"It is {one}." for one in home],
        "phone: the same, after a word": [f"Phone: {one}." for one in home],
    }


@cache
def _documented() -> tuple[tuple[str, str, bool], ...]:
    """Return what the documents of python-stdnum call valid or wrong, each after its name there.

    "BSN (Burgerservicenummer, …)" is so named "BSN".
    """
    from toolbus.redaction.personal.facts import facts  # noqa: PLC0415 - an extra

    found = []
    for one in facts().identities:
        if one.module:
            text = inspect.getdoc(import_module(f"stdnum.{one.module}")) or ""
            name = text.split(" (")[0].split("\n")[0].rstrip(".")
            pattern = r">>> validate\('([^']+)'\)\n(Traceback)?"
            for number, wrong in re.findall(pattern, text):
                found.append((one.module, f"{name}: {number} .", not wrong))
    return tuple(found)


def _sources() -> Iterator[str]:
    """Give the source files of what stands where msgspec is installed, but for number plans."""
    folder = Path(msgspec.__file__).parents[1]
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.js")]):
        if not {"phonenumbers", "stdnum", "pip"} & set(path.relative_to(folder).parts):
            try:
                yield path.read_text("utf-8")
            except (OSError, UnicodeError):
                continue
