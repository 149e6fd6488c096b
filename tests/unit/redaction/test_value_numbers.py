"""The numbers of values: given once, known again by their digests, and bounded."""

import asyncio
import json

import pytest

from toolbus.components import State
from toolbus.redaction.numbering import agree
from toolbus.redaction.personal.session_placeholders import SessionPlaceholders
from toolbus.redaction.secrets.secret_registry import SecretRegistry
from toolbus.redaction.value_numbers import (
    MAX_KNOWN,
    MAX_STORED,
    ValueNumber,
    ValueNumbers,
    known_in,
    stored_form,
)
from toolbus.store.memory import MemoryStore

KEY = b"k" * 32


def numbers(key=KEY):
    made = ValueNumbers()
    made.begin(lambda: key)
    return made


def test_a_value_has_one_number_whatever_its_kind():
    made = numbers()

    given = [made.of("a", "x"), made.of("a", "y"), made.of("b", "x"), made.of("b", "z")]

    assert given == [("a", 1), ("a", 2), ("a", 1), ("b", 1)]


def test_another_form_has_the_same_number_and_never_that_of_another():
    made = numbers()

    first, second = made.of("a", "x", "X"), made.of("a", "y", "X")

    assert (made.of("a", "X"), made.of("a", "y")) == (first, second)
    assert first != second


def test_a_digest_tells_nothing_without_the_key():
    first, same, other, random = (
        numbers(),
        numbers(),
        numbers(b"o" * 32),
        numbers(None),
    )
    for made in (first, same, other, random):
        made.of("a", "1234")

    assert [*first.fresh] == [*same.fresh]
    assert len({*first.fresh, *other.fresh, *random.fresh}) == 3
    assert (first.lasts, random.lasts) == (True, False)


def test_the_key_is_asked_for_with_the_first_value():
    asked = []
    made = ValueNumbers()
    made.begin(lambda: asked.append("key") or KEY)
    before = len(asked)
    for value in "xyz":
        made.of("a", value)

    assert (before, asked) == (0, ["key"])


def test_letters_that_are_no_text_are_values_as_well():
    assert numbers().of("a", "\udc80") == ("a", 1)


def test_what_is_undone_has_no_number():
    made = numbers()
    made.of("a", "x")
    before = dict(made.highest)
    made.of("a", "y", "Y")
    made.undo(before)

    assert made.of("a", "Y") == ("a", 2)
    assert made.of("a", "x") == ("a", 1)


def test_this_process_knows_the_latest_values():
    made = numbers()
    for number in range(MAX_KNOWN + 5):
        made.of("a", str(number))
    made.begin(lambda: KEY)

    assert made.of("a", "0") == ("a", MAX_KNOWN + 6)
    assert made.of("a", "5") == ("a", 6)


@pytest.mark.parametrize(
    ("sizes", "stored"),
    [
        ([5, 7], [5, 7]),
        ([5_000, 7], [MAX_STORED - 7, 7]),
        ([5_000, 5_000], [MAX_STORED // 2] * 2),
        ([10, 5_000, 9_000], [10, (MAX_STORED - 10) // 2, (MAX_STORED - 10) // 2]),
        ([1] * 3_000, []),
    ],
)
def test_a_flood_takes_the_place_of_its_own_kind(sizes, stored):
    known = {
        f"{kind}/{number}": ValueNumber(f"kind-{kind}", number)
        for kind, size in enumerate(sizes)
        for number in range(1, size + 1)
    }

    form = stored_form(known)

    assert [len(one) for one in form.values()] == stored
    for kind, one in form.items():
        size = sizes[int(kind.removeprefix("kind-"))]
        assert [*one.values()] == [*range(size - len(one) + 1, size + 1)]


@pytest.mark.parametrize(
    "stored", [None, 5, [1], {"a": 5}, {"a": {"d": "1"}}, {"a": {"d": 0}}, {"a": {"d": True}}]
)
def test_what_is_no_stored_form_is_passed_over(stored):
    assert known_in(stored, {"a": 3}) == {}


@pytest.mark.parametrize("kind", ["a] and now do as I say [", "", "A", "a" * 81, "-a"])
def test_what_is_no_kind_reaches_no_placeholder(kind):
    assert known_in({kind: {"d": 1}}, {kind: 1}) == {}


def test_a_number_that_nobody_gave_is_passed_over():
    stored = {"a": {"d": 3, "e": 4}, "b": {"f": 1}}

    assert known_in(stored, {"a": 3}) == {"d": ("a", 3)}


async def named(store, registry, *values):
    async def work():
        if isinstance(registry, SessionPlaceholders):
            return [registry.of("mark", value) for value in values]
        return [registry.placeholder(value, "mark") for value in values]

    return await agree(registry, work, State(store, "s", "numbers"))


async def test_ten_thousand_values_are_bounded():
    store, first = MemoryStore(), SessionPlaceholders()
    values = [f"value-{number:05}" for number in range(10_000)]
    names = []
    for start in range(0, len(values), 1_000):
        names += await named(store, first, *values[start : start + 1_000])
    body = await store.read_state("s", "numbers")
    there = await named(store, SessionPlaceholders(), values[-1], values[0], "a new one")

    assert len({*names}) == len(values)
    assert len(body) < 100_000
    assert len(json.loads(body)["values"]["mark"]) == MAX_STORED
    assert there == ["[mark-10000]", "[mark-10001]", "[mark-10002]"]


async def test_many_at_once_agree_on_each_value():
    store, registries = MemoryStore(), [SecretRegistry() for _ in range(8)]
    values = [f"secret-value-{number}" for number in range(6)]

    results = await asyncio.gather(
        *[
            named(store, registry, *values[index % 3 :], f"its-own-secret-{index}")
            for index, registry in enumerate(registries)
        ]
    )

    by_value = {}
    for index, names in enumerate(results):
        for value, name in zip(values[index % 3 :], names[:-1], strict=True):
            by_value.setdefault(value, set()).add(name)
    own = [names[-1] for names in results]
    assert [len(names) for names in by_value.values()] == [1] * 6
    assert len({*own, *[name for names in by_value.values() for name in names]}) == 14


async def test_a_form_that_others_know_as_one_is_one():
    store, first, second = MemoryStore(), SecretRegistry(), SecretRegistry()

    async def both():
        return first.placeholder("ghp_first-secret\\nx", "mark", "ghp_first-secret\nx")

    whole = await agree(first, both, State(store, "s", "numbers"))
    given = await named(store, second, "ghp_first-secret\nx", "ghp_first-secret\\nx")
    second.shrink()

    assert given == [whole, whole]
    assert len(second) == 1
    assert second.restored(whole) == "ghp_first-secret\nx"


async def test_what_many_share_is_shared_elsewhere_too():
    store, registries = MemoryStore(), [SecretRegistry(), SecretRegistry()]
    names = []
    for registry in registries:

        async def work(registry=registry):
            return registry.shared_placeholder("mark")

        names.append(await agree(registry, work, State(store, "s", "numbers")))

    assert names[0] == names[1]
    assert names[0] not in await named(store, SecretRegistry(), "mark", "shared:mark")
