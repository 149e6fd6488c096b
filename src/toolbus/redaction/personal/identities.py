"""National identity numbers of persons, by their shapes and check digits.

The check digits are those of python-stdnum. A number with a shape of its own (`756.9217.0769.85`)
is taken wherever it stands. One that other numbers look like as well (`219-09-9999`, and those of
bare digits) needs a word for it: right before it, in the same line, in the key that it stands
under, or in the first line of its text, as in a table. If its country was named, that stands for
the word, but for bare digits.

Most stand in Wikipedia's "National identification number", and in the documents of python-stdnum,
which name their sources. Two have no check digit: the British one, whose prefixes are those of
HMRC's manual (NIM39110), and the American one, whose numbers are those of the SSA (POMS RM 10201).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from toolbus.redaction.personal.lines import PERSON
from toolbus.redaction.personal.matches import PersonalDataMatch
from toolbus.settings.extras import needs_extra

try:
    import stdnum  # noqa: F401 - its modules are imported by name
except ImportError as error:
    msg = needs_extra("to look for personal data needs libraries", "personal")
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from toolbus.redaction.personal.lines import Line
    from toolbus.redaction.personal.matches import Appraisal

KIND = "national-id"


class Identity(Struct, frozen=True):
    """A number of *country*, with check digits as *module* of python-stdnum says.

    *shape* is taken anywhere, *bare* near one of *words*. So is *weak*, which other numbers look
    like as well, and anywhere if somebody named the country.
    """

    country: str
    module: str
    shape: str = ""
    bare: str = ""
    words: tuple[str, ...] = ()
    weak: str = ""


_NINO = (
    r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"
    r"( ?)[0-9]{2}\1[0-9]{2}\1[0-9]{2}\1[A-D]"
)
_SSN = r"(?!000|666|9)[0-9]{3}([-. ])(?!00)[0-9]{2}\1(?!0000)[0-9]{4}"
_BARE_SSN = r"(?!000|666|9)[0-9]{3}(?!00)[0-9]{2}(?!0000)[0-9]{4}"
_NIR = r"[12]( ?)[0-9]{2}\1[0-9]{2}\1(?:[0-9]{2}|2[AB])\1[0-9]{3}\1[0-9]{3}\1[0-9]{2}"
_FISCAL = r"[A-Z]{6}[0-9L-NP-V]{2}[A-EHLMPRST][0-9L-NP-V]{2}[A-Z][0-9L-NP-V]{3}[A-Z]"

IDENTITIES: tuple[Identity, ...] = (
    Identity("AR", "ar.cuit", r"[0-9]{2}-[0-9]{8}-[0-9]", r"[0-9]{11}", ("cuit", "cuil")),
    Identity("AR", "ar.dni", "", r"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}", ("dni",)),
    Identity("AT", "at.vnr", "", r"[0-9]{4} ?[0-9]{6}", ("svnr", r"sozialversicherungs\w{0,20}")),
    Identity("AU", "au.tfn", "", r"[0-9]{3}( ?)[0-9]{3}\1[0-9]{2,3}", ("tfn", "tax file number")),
    Identity(
        "BE", "be.nn", r"[0-9]{2}\.[0-9]{2}\.[0-9]{2}[ -][0-9]{3}[. ][0-9]{2}",
        r"[0-9]{2}( ?)[0-9]{2}\1[0-9]{2}\1[0-9]{3}\1[0-9]{2}",
        (r"rijksregister\w{0,20}", "registre national", "national number", "insz", "niss", "rrn"),
    ),
    Identity("BG", "bg.egn", "", r"[0-9]{10}", ("egn", "егн")),
    Identity("BR", "br.cpf", r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", r"[0-9]{11}", ("cpf",)),
    Identity(
        "CA", "ca.sin", "", r"[0-9]{3}( ?)[0-9]{3}\1[0-9]{3}",
        ("sin", "social insurance", "nas"), weak=r"[0-9]{3}-[0-9]{3}-[0-9]{3}",
    ),
    Identity("CH", "ch.ssn", r"756(\.?)[0-9]{4}\1[0-9]{4}\1[0-9]{2}"),
    Identity(
        "CL", "cl.rut", r"[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}-[0-9kK]", r"[0-9]{7,8}-?[0-9kK]", ("rut",)
    ),
    Identity("CN", "cn.ric", r"[0-9]{17}[0-9Xx]"),
    Identity("CZ", "cz.rc", r"[0-9]{6}/[0-9]{4}", r"[0-9]{9,10}",
             (r"rodn\w{0,9}[ _][cč]\w{0,9}", "rč"), weak=r"[0-9]{6}/[0-9]{3}"),
    Identity(
        "DE", "de.idnr", r"[0-9]{2} [0-9]{3} [0-9]{3} [0-9]{3}", r"[0-9]{11}",
        (r"steuer\w{0,20}", "idnr", r"id-?nr", "tin", r"tax[ _-]?(?:id|number|no)"),
    ),
    Identity("DK", "dk.cpr", "", r"[0-9]{10}", (r"cpr\w{0,8}", "personnummer"),
             weak=r"[0-9]{6}-[0-9]{4}"),
    Identity("EE", "ee.ik", "", r"[0-9]{11}", ("isikukood",)),
    Identity("ES", "es.dni", r"[0-9]{8}-?[A-Z]", "", ("dni", "nif"), r"[0-9]{8}-?[a-z]"),
    Identity("ES", "es.nie", r"[XYZ]-?[0-9]{7}-?[A-Z]", "", ("nie", "nif"),
             r"[xyz]-?[0-9]{7}-?[a-z]"),
    Identity("FI", "fi.hetu", r"[0-9]{6}(?:[-+][0-9]{3}[A-Y]|[A-FU-Y][0-9]{3}[0-9A-Y])", "",
             ("hetu", "henkilötunnus"), r"[0-9]{6}[-+][0-9]{4}"),
    Identity("FR", "fr.nir", _NIR),
    Identity("GB", "", _NINO, "", ("nino", r"national[ _]insurance\w{0,9}", "ni[ _](?:no|number)"),
             rf"(?i:{_NINO})"),
    Identity("GB", "gb.nhs", "", r"[0-9]{3}([ -]?)[0-9]{3}\1[0-9]{4}", ("nhs",)),
    Identity("GR", "gr.amka", "", r"[0-9]{11}", ("amka", "αμκα")),
    Identity("HR", "hr.oib", "", r"[0-9]{11}", ("oib",)),
    Identity("ID", "id.nik", "", r"[0-9]{16}", ("nik", "ktp")),
    Identity("IE", "ie.pps", r"[0-9]{7}[A-W][A-IW]?"),
    Identity("IL", "il.idnr", "", r"[0-9]{7,8}-?[0-9]",
             (r"te?udat\w{0,9}", "zehut", "תעודת זהות", 'ת"ז')),
    Identity("IN", "in_.aadhaar", "", r"[0-9]{4}([ -]?)[0-9]{4}\1[0-9]{4}", ("aadhaa?r", "uid")),
    Identity("IT", "it.codicefiscale", _FISCAL),
    Identity("KR", "kr.rrn", r"[0-9]{6}-[0-9]{7}"),
    Identity("LT", "lt.asmens", "", r"[0-9]{11}", (r"asmens kod\w{0,20}",)),
    Identity("MX", "mx.curp", r"[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[0-9A-Z][0-9]"),
    Identity("MY", "my.nric", "", r"[0-9]{12}", ("nric", "mykad", r"ic[ _]?(?:no|number)"),
             weak=r"[0-9]{6}-[0-9]{2}-[0-9]{4}"),
    Identity("NL", "nl.bsn", "", r"[0-9]{4}([. ]?)[0-9]{2}\1[0-9]{3}|[0-9]{9}",
             ("bsn", "sofi", r"burgerservice\w{0,20}")),
    Identity(
        "NO", "no.fodselsnummer", r"[0-9]{6} [0-9]{5}", r"[0-9]{11}",
        (r"f[øo]dselsn\w{0,20}", r"personn\w{0,20}", "fnr"),
    ),
    Identity("PL", "pl.pesel", "", r"[0-9]{11}", ("pesel",)),
    Identity("PT", "pt.nif", "", r"[0-9]{3}( ?)[0-9]{3}\1[0-9]{3}", ("nif", "contribuinte")),
    Identity("RO", "ro.cnp", r"[1-8][0-9]{12}"),
    Identity("RU", "ru.inn", "", r"[0-9]{12}", ("инн", "inn")),
    Identity("SE", "se.personnummer", "", r"(?:19|20)?[0-9]{10}", (r"personn\w{0,20}",),
             weak=r"(?:19|20)?[0-9]{6}[-+][0-9]{4}"),
    Identity("TH", "th.pin", r"[0-9]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9]", r"[0-9]{13}",
             ("pin", "thai id")),
    Identity("TR", "tr.tckimlik", "", r"[1-9][0-9]{10}", ("tckn", r"kimlik\w{0,9}")),
    Identity("UA", "ua.rntrc", "", r"[0-9]{10}", ("рнокпп", "іпн", "rntrc")),
    Identity("US", "", "", _BARE_SSN, ("ssns?", r"social[ _-]?security"), _SSN),
    Identity("US", "us.itin", "", r"9[0-9]{8}", ("itin", "taxpayer"),
             weak=r"9[0-9]{2}-[0-9]{2}-[0-9]{4}"),
    Identity("ZA", "za.idnr", "", r"[0-9]{13}", (r"id[ _-]?(?:no|number)", "identity")),
)  # fmt: skip

COUNTRIES = tuple(sorted({identity.country for identity in IDENTITIES}))


class _Form(Struct, frozen=True):
    """A way to write a number: *value* returns it, without gaps, or None if it is none."""

    pattern: re.Pattern[str]
    value: Callable[[str], str | None]
    topics: frozenset[str]


_Forms: TypeAlias = "tuple[re.Pattern[str], list[_Form]]"


class Identities:
    """Finds the numbers of *countries*, some of which were *named*."""

    def __init__(self, countries: Container[str], named: Container[str]) -> None:
        chosen = [identity for identity in IDENTITIES if identity.country in countries]
        shapes = [(identity.shape, identity) for identity in chosen]
        bare = [(identity.bare, identity) for identity in chosen]
        at_home = [(identity.weak, identity) for identity in chosen if identity.country in named]
        weak = [(identity.weak, identity) for identity in chosen if identity.country not in named]
        # Most texts with numbers have none of them, which one pattern tells at once.
        self._anywhere = _forms([*shapes, *at_home])
        self._near_words = _forms([*bare, *weak])

    def find(self, line: Line, appraisal: Appraisal) -> Iterator[PersonalDataMatch]:
        """Give the numbers in *line*."""
        yield from self._find(line, appraisal, self._anywhere, need_word=False)
        yield from self._find(line, appraisal, self._near_words, need_word=True)

    def _find(
        self, line: Line, appraisal: Appraisal, among: _Forms, *, need_word: bool
    ) -> Iterator[PersonalDataMatch]:
        sieve, forms = among
        position = line.start
        while (candidate := sieve.search(line.text, position, line.end)) is not None:
            start = candidate.start()
            position = start + 1
            topics = line.about(start, candidate.end()) if need_word else None
            if topics is not None and not topics:
                continue
            for form in forms:
                if topics is not None and form.topics.isdisjoint(topics):
                    continue
                match = form.pattern.match(line.text, start, line.end)
                if match is None:
                    continue
                value = appraisal.ask(form.value, match[0])
                if value is not None:
                    position = match.end()
                    yield PersonalDataMatch(start, position, KIND, value)
                    break


def words() -> dict[str, tuple[str, ...]]:
    """Return the words for each number."""
    return {_topic(identity): identity.words for identity in IDENTITIES}


def _topic(identity: Identity) -> str:
    return identity.module or identity.country


def _forms(shapes: list[tuple[str, Identity]]) -> _Forms:
    """Return the forms of all *shapes*, and a pattern that matches where one of them may."""
    forms = [
        _Form(_compiled(shape), _value_of(identity), _topics(shape, identity))
        for shape, identity in shapes
        if shape
    ]
    loose = []
    for shape in dict.fromkeys(shape for shape, _ in shapes if shape):
        group = re.search(r"\((?!\?)([^()]*)\)", shape)
        loose.append(shape if group is None else shape.replace(r"\1", group[1]))
    return _compiled("|".join(loose) or "(?!)"), forms


def _topics(shape: str, identity: Identity) -> frozenset[str]:
    """Return what a word near *shape* may be for: "passport" does not stand for bare digits."""
    general = {PERSON} if shape == identity.weak else set[str]()
    return frozenset({_topic(identity), *general})


def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9A-Za-z+])(?<![0-9][.,-])(?:{shape})(?![0-9A-Za-z]|[.,-][0-9])")


def _value_of(identity: Identity) -> Callable[[str], str | None]:
    def value(written: str) -> str | None:
        if not identity.module:
            return f"{identity.country}{re.sub('[-. ]', '', written).upper()}"
        # Imported when first asked: most texts have none of most countries.
        module: Any = import_module(f"stdnum.{identity.module}")
        try:
            if not module.is_valid(written):
                return None
        except Exception:  # noqa: BLE001 - it fails at a place of birth that it has no name for
            return f"{identity.country}{written.upper()}"
        return f"{identity.country}{module.compact(written).upper()}"

    return value
