"""Addresses that a person named, against texts that try to look like them."""

from __future__ import annotations

import time

import pytest

from toolbus.flow.named_addresses import NamedAddresses, addresses_in, recipient_of

PROMPT = """Read https://parcel-docs.test/webhooks/retries and mail it to Bob (bob@partner.example).
Pay GB20 WEST 2000 1255 7799 11, see docs.shop.net. Run deploy.sh, post it in #partner-logistics
and in issue 311 of ann/shop. Also müller.example and 192.0.2.7."""


@pytest.fixture(scope="module")
def named() -> NamedAddresses:
    """The addresses of one prompt and of two globs."""
    return NamedAddresses([PROMPT], ["shop.example", "*.shop.example"])


@pytest.mark.parametrize(
    "address",
    [
        "https://parcel-docs.test/webhooks/retries",
        "https://parcel-docs.test/webhooks/retries/2?page=3",
        "parcel-docs.test",
        "https://img.docs.shop.net/x",
        "docs.shop.net:8080",
        "docs.shop.net.",
        "https://müller.example/",
        "https://192.0.2.7:99/",
        "http://[::ffff:192.0.2.7]/",
        "https://name:password@docs.shop.example/",
        "bob@partner.example",
        "Bob <Bob@Partner.example>",
        "tom@shop.example",
        "any@docs.shop.net",
        "GB20WEST20001255779911",
        "#partner-logistics",
        "ann/shop",
    ],
)
def test_an_address_is_named(named: NamedAddresses, address: str) -> None:
    assert named.is_named(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "https://evilparcel-docs.test/",
        "https://parcel-docs.test/other",
        "https://parcel-docs.test/in?u=https://parcel-docs.test/webhooks/retries",
        "https://parcel-docs.test/webhooks/retries2",
        "https://check.parcel-docs.test/webhooks/retries",
        "https://parcel-docs.test.evil.example/",
        "shop.net",
        "x@partner.example",
        "https://partner.example/",
        "x@parcel-docs.test",
        "bob@partner.example <x@evil.example>",
        "tom@shop.example, x@evil.example",
        "tom@shop.example@evil.example",
        "tom@shop.example\n<x@evil.example>",
        "https://docs.shop.example@evil.example",
        "https://docs.shop.example:80@evil.example/",
        "https://docs.shop.example\\@evil.example",
        "https://evil.example\\.shop.example",
        "https://evil.example\uff0f.shop.example",
        "https://evil.example%2f.shop.example",
        "https://evil.example;.shop.example",
        "https://a\tb.shop.example",
        "evil.example?x=docs.shop.example",
        "evil.example/docs.shop.example",
        "https://evil.example#.shop.example",
        "https://sh\u043ep.example/",
        "https://evil.example。shop.example",
        "xn--mller-kva.example",
        "https://3221225991/",
        "https://0300.0.2.7/",
        "https://0xc0000207/",
        "http://127.1.evil.example/",
        "https://deploy.sh/x",
        "deploy.sh",
        "*.shop.example",
        "git@evil.example:shop.example/x.git",
        "GB20WEST20001255779912",
        "#other",
        "/",
        "ann/other",
        "x" * 5_000,
    ],
)
def test_an_address_is_not_named(named: NamedAddresses, address: str) -> None:
    assert not named.is_named(address)


def test_hosts_inside_an_address_that_a_person_named_are_not_named() -> None:
    named = NamedAddresses(["See https://docs.shop.net/?next=evil.example#other.example."])

    assert named.is_named("https://docs.shop.net/?next=evil.example#other.example")
    assert not named.is_named("evil.example")
    assert not named.is_named("other.example")


@pytest.mark.parametrize("piece", ["a.", "://", "a@", "x", "<", "a://", "[", "1 "])
def test_a_hostile_text_costs_linear_time(piece: str) -> None:
    before = time.thread_time()

    NamedAddresses([piece * (1_000_000 // len(piece))]).is_named(piece * 500)

    assert time.thread_time() - before < 5


@pytest.mark.parametrize("text", ["ann.b@shop.test", "<ann.b@shop.test>.", "x|ann.b@shop.test|y"])
def test_a_mailbox_stands_in_a_text(text: str) -> None:
    assert "ann.b@shop.test" in addresses_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "ann@b-shop.test",
        "Xann.b@shop.test",
        "x+ann.b@shop.test",
        "ann.b@shop.test.evil",
        "ann.b@shop.testing",
        "ann.b@shop.test-x.evil",
        "ann.b@sh\u043ep.test",
    ],
)
def test_a_part_of_another_mailbox_does_not_stand_in_a_text(text: str) -> None:
    assert "ann.b@shop.test" not in addresses_in(text)


def test_a_recipient_is_a_whole_mailbox() -> None:
    assert recipient_of(" Ann.B@shop.test ") == "ann.b@shop.test"
    assert recipient_of("NL91 ABNA 0417 1643 00") == "NL91ABNA0417164300"
    assert recipient_of("x!ann.b@shop.test") == "x!ann.b@shop.test"
    assert not recipient_of("ann.b@shop.test and more")


def test_a_sign_alone_names_no_address() -> None:
    named = NamedAddresses(["yes / no? //"], [])

    assert not named.is_named("//evil.example/collect?x=1")
