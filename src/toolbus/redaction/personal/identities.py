"""National identity numbers of persons, by their shapes and check digits.

The check digits are those of python-stdnum, which names its source for each number. A number with
a shape of its own (`756.9217.0769.85`) is taken wherever it stands; one of bare digits, which may
be anything, only after a word for it (`BSN: 111222333`). The British number has no check digit;
its prefixes are those of HMRC's manual (NIM39110).
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.redaction.personal.matches import scan, words_of
from toolbus.settings.extras import needs_extra

try:
    import stdnum  # noqa: F401 - its modules are imported by name
except ImportError as error:
    msg = needs_extra("to look for personal data needs libraries", "personal")
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.personal.matches import Effort, Line, PersonalDataMatch

KIND = "national-id"


class Identity(Struct, frozen=True):
    """A number of *country*, with check digits as *module* of python-stdnum says.

    *shape* is taken anywhere, *bare* after one of *words*.
    """

    country: str
    module: str
    shape: str = ""
    bare: str = ""
    words: tuple[str, ...] = ()


_NINO = (
    r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"
    r"( ?)[0-9]{2}\1[0-9]{2}\1[0-9]{2}\1[A-D]"
)
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
        "CA", "ca.sin", r"[0-9]{3}-[0-9]{3}-[0-9]{3}", r"[0-9]{3}( ?)[0-9]{3}\1[0-9]{3}",
        ("sin", "social insurance", "nas"),
    ),
    Identity("CH", "ch.ssn", r"756(\.?)[0-9]{4}\1[0-9]{4}\1[0-9]{2}"),
    Identity(
        "CL", "cl.rut", r"[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}-[0-9kK]", r"[0-9]{7,8}-?[0-9kK]", ("rut",)
    ),
    Identity("CN", "cn.ric", r"[0-9]{17}[0-9Xx]"),
    Identity("CZ", "cz.rc", r"[0-9]{6}/[0-9]{3,4}", r"[0-9]{9,10}",
             (r"rodn\w{0,9} [cč]\w{0,9}", "rč")),
    Identity(
        "DE", "de.idnr", r"[0-9]{2} [0-9]{3} [0-9]{3} [0-9]{3}", r"[0-9]{11}",
        (r"steuer\w{0,20}", "idnr", r"id-?nr", "tin", r"tax[ _-]?(?:id|number|no)"),
    ),
    Identity("DK", "dk.cpr", r"[0-9]{6}-[0-9]{4}", r"[0-9]{10}", ("cpr",)),
    Identity("EE", "ee.ik", "", r"[0-9]{11}", ("isikukood",)),
    Identity("ES", "es.dni", r"[0-9]{8}-?[A-Z]"),
    Identity("ES", "es.nie", r"[XYZ]-?[0-9]{7}-?[A-Z]"),
    Identity("FI", "fi.hetu", r"[0-9]{6}[-+A-FU-Y][0-9]{3}[0-9A-Y]"),
    Identity("FR", "fr.nir", _NIR),
    Identity("GB", "", _NINO),
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
    Identity("MY", "my.nric", r"[0-9]{6}-[0-9]{2}-[0-9]{4}", r"[0-9]{12}", ("nric", "mykad")),
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
    Identity("SE", "se.personnummer", r"(?:19|20)?[0-9]{6}[-+][0-9]{4}", r"(?:19|20)?[0-9]{10}",
             (r"personn\w{0,20}",)),
    Identity("TH", "th.pin", r"[0-9]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9]", r"[0-9]{13}",
             ("pin", "thai id")),
    Identity("TR", "tr.tckimlik", "", r"[1-9][0-9]{10}", ("tckn", r"(?:t\.?c\.? ?)?kimlik\w{0,9}")),
    Identity("UA", "ua.rntrc", "", r"[0-9]{10}", ("рнокпп", "іпн", "rntrc")),
    Identity("US", "us.ssn", r"[0-9]{3}-[0-9]{2}-[0-9]{4}", r"[0-9]{9}",
             ("ssn", "social security")),
    Identity("US", "us.itin", r"9[0-9]{2}-[0-9]{2}-[0-9]{4}", r"9[0-9]{8}", ("itin", "taxpayer")),
    Identity("ZA", "za.idnr", "", r"[0-9]{13}", (r"id[ _-]?(?:no|number)", "identity")),
)  # fmt: skip

COUNTRIES = tuple(sorted({identity.country for identity in IDENTITIES}))


class Identities:
    """Finds the numbers of *countries*."""

    def __init__(self, countries: tuple[str, ...]) -> None:
        chosen = [identity for identity in IDENTITIES if identity.country in countries]
        shapes = [identity for identity in chosen if identity.shape]
        bare = [identity for identity in chosen if identity.bare]
        self._shapes = [(_compiled(identity.shape), _judge(identity, None)) for identity in shapes]
        self._bare = [
            (_compiled(identity.bare), _judge(identity, words_of(*identity.words)))
            for identity in bare
        ]
        # Most texts with numbers have none of either, which one pattern tells at once.
        self._groups = (
            (_any_of([identity.shape for identity in shapes]), self._shapes),
            (_any_of([identity.bare for identity in bare]), self._bare),
        )

    def find(self, line: Line, effort: Effort) -> Iterator[PersonalDataMatch]:
        """Give the numbers in *line*."""
        for sieve, judged in self._groups:
            if sieve.search(line.text, line.start, line.end) is not None:
                for pattern, judge in judged:
                    yield from scan(pattern, line, effort, KIND, judge, cost=5)


def _any_of(shapes: list[str]) -> re.Pattern[str]:
    """Return a pattern that matches where one of *shapes* may, whose groups it takes apart."""
    loose = []
    for shape in shapes:
        group = re.search(r"\((?!\?)([^()]*)\)", shape)
        loose.append(shape if group is None else shape.replace(r"\1", group[1]))
    return _compiled("|".join(loose) or "(?!)")


def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9A-Za-z+])(?<![0-9][.,-])(?:{shape})(?![0-9A-Za-z]|[.,-][0-9])")


def _judge(identity: Identity, words: re.Pattern[str] | None) -> Any:
    # Imported when first asked: most texts have none of most countries.
    def judge(match: re.Match[str], line: Line) -> tuple[str, int] | None:
        if words is not None and not line.says(words, match.start()):
            return None
        if not identity.module:
            return f"{identity.country}{match[0].replace(' ', '')}", match.end()
        module: Any = import_module(f"stdnum.{identity.module}")
        if not module.is_valid(match[0]):
            return None
        return f"{identity.country}{module.compact(match[0])}", match.end()

    return judge
