"""Lines of code and of logs that are full of numbers, none of which is a person's."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20260114
LINES = 10_000


class Numbers:
    """Draws the numbers that the lines are made of."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - examples, not keys

    def digits(self, count: int) -> str:
        """Return *count* digits."""
        return "".join(self.random.choices("0123456789", k=count))

    def integer(self, count: int) -> str:
        """Return an integer of *count* digits."""
        return self.random.choice("123456789") + self.digits(count - 1)

    def hexadecimal(self, count: int) -> str:
        """Return *count* digits of a hash."""
        return "".join(self.random.choices("0123456789abcdef", k=count))

    def upto(self, limit: int) -> int:
        """Return an integer from 1 to *limit*."""
        return self.random.randint(1, limit)

    def day(self, separator: str = "-") -> str:
        """Return a date of this century, as ISO 8601 has it."""
        year, month, day = 2000 + self.upto(26), self.upto(12), self.upto(28)
        return f"{year}{separator}{month:02}{separator}{day:02}"

    def time(self) -> str:
        """Return a time of the day."""
        return f"{self.upto(23):02}:{self.upto(59):02}:{self.upto(59):02}"

    def real(self, before: int, behind: int) -> str:
        """Return a decimal number."""
        return f"{self.upto(10**before)}.{self.digits(behind)}"


KINDS: dict[str, Callable[[Numbers], str]] = {
    "issue number": lambda n: f"closes issue {n.digits(3)}-{n.digits(2)}-{n.digits(4)}",
    "build number": lambda n: f"build 0{n.digits(2)}-{n.integer(7)} passed in {n.upto(90)} s",
    "job number": lambda n: f"job {n.day('')[2:]}-{n.digits(4)} queued",
    "counters": lambda n: f"{n.integer(3)} {n.integer(3)} {n.integer(4)} {n.integer(4)}",
    "columns": lambda n: "  ".join([n.integer(n.upto(6)) for _ in range(7)]),
    "integer of 13": lambda n: f"offset={n.integer(13)}",
    "order id": lambda n: f"order {n.integer(16)} shipped",
    "order id in groups": lambda n: f"order {n.digits(4)}-{n.digits(6)}-{n.digits(2)} shipped",
    "amazon order": lambda n: f"order {n.digits(3)}-{n.digits(7)}-{n.digits(7)}",
    "snowflake": lambda n: f'"message_id": "{n.integer(18)}"',
    "epoch": lambda n: f"ts=17{n.digits(8)} until=17{n.digits(11)} ns=17{n.digits(17)}",
    "time": lambda n: f"{n.day()}T{n.time()}.{n.digits(6)}Z INFO took {n.upto(999)} ms",
    "compact time": lambda n: f"backup-{n.day('')}{n.time().replace(':', '')}.tar.gz",
    "date and time": lambda n: f"{n.day('/')} {n.time()} [{n.upto(65535)}] worker-{n.upto(9)} up",
    "version": lambda n: (
        f"pkg {n.upto(20)}.{n.upto(30)}.{n.upto(99)}.{n.upto(9999)} -> "
        f"{n.upto(20)}.{n.upto(30)}.{n.upto(99)}-rc.{n.upto(9)}"
    ),
    "addresses": lambda n: (
        f"{n.upto(254)}.{n.upto(254)}.{n.upto(254)}.{n.upto(254)}:"
        f"{n.upto(65535)} -> 10.{n.upto(254)}.0.{n.upto(254)}/24"
    ),
    "hash": lambda n: f"commit {n.hexadecimal(40)} ({n.hexadecimal(9)})",
    "digest": lambda n: f"image: app@sha256:{n.hexadecimal(64)}",
    "uuid": lambda n: f"request_id={UUID(n.hexadecimal(32))} attempt={n.upto(5)}",
    "coordinates": lambda n: f"lat={n.real(2, 7)}, lon=-{n.real(2, 7)}",
    "isbn": lambda n: f"ISBN 978-{n.upto(9)}-{n.digits(2)}-{n.digits(6)}-{n.digits(1)}",
    "barcode": lambda n: f"EAN {n.integer(13)}, UPC {n.integer(12)}",
    "mac": lambda n: "link/ether " + ":".join([n.hexadecimal(2) for _ in range(6)]),
    "floats": lambda n: f"loss={n.real(1, 10)} [{n.real(1, 6)}, -{n.real(1, 8)}e-0{n.upto(9)}]",
    "hunk": lambda n: f"@@ -{n.upto(9999)},{n.upto(99)} +{n.upto(9999)},{n.upto(99)} @@ def f():",
    "kernel": lambda n: f"[{n.real(6, 6)}] cpu{n.upto(64)}: {n.integer(8)} {n.integer(9)} 0 1",
    "listing": lambda n: f"-rw-r--r-- 1 root {n.upto(999)} {n.integer(8)} Jan {n.upto(28)} a.bin",
    "dump": lambda n: f"{n.digits(7)}0 " + " ".join([n.digits(4) for _ in range(8)]),
    "package": lambda n: (
        f"npm:left-pad@{n.upto(9)}.{n.upto(20)}.{n.upto(20)} icon@{n.upto(3)}x.png"
    ),
    "repository": lambda n: f"git@github.com:org{n.upto(99)}/repo.git#{n.upto(9999)}",
    "part number": lambda n: f"part {n.integer(4)}-{n.digits(4)}-{n.digits(3)} rev {n.digits(2)}",
    "invoice": lambda n: f"invoice {n.day()[:4]}-{n.digits(6)} over {n.integer(4)}.{n.digits(2)}",
    "tracking": lambda n: f"tracking 1Z{n.integer(6)}{n.digits(10)} / {n.integer(12)}",
    "rows": lambda n: f"({n.integer(6)}, {n.integer(9)}, '{n.day()}', {n.integer(11)}),",
    "hexadecimal": lambda n: f"0x{n.hexadecimal(16)} in main () at a.c:{n.upto(9999)}",
    "access log": lambda n: (
        f'{n.upto(254)}.{n.upto(254)}.1.{n.upto(254)} - - "GET /{n.integer(9)}'
        f'?page={n.upto(99)} HTTP/1.1" 200 {n.integer(5)}'
    ),
    "papers": lambda n: f"arXiv:2{n.digits(3)}.{n.digits(5)}, CVE-20{n.upto(26):02}-{n.digits(5)}",
    "code": lambda n: f"x[{n.integer(5)}:{n.integer(6)}] = y.{n.hexadecimal(6)}({n.integer(10)})",
    "decorator": lambda n: f"a = w{n.upto(9)}@x.t{n.upto(9)} + b @ c.transpose({n.upto(9)})",
    "sizes": lambda n: f"{n.integer(9)} bytes ({n.real(2, 1)} MB) copied, {n.real(1, 6)} s",
}
"""What makes a line, by the kind of number in it."""


def noise(lines: int = LINES, seed: int = SEED) -> list[tuple[str, str]]:
    """Return *lines* pairs of a kind and a line, the same for the same *seed*."""
    numbers = Numbers(seed)
    kinds = list(KINDS)
    return [(kind := kinds[at % len(kinds)], KINDS[kind](numbers)) for at in range(lines)]
