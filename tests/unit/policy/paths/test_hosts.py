import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.policy.commands import Word
from toolbus.policy.paths.hosts import (
    canonical_host,
    host_patterns,
    reaches,
    read_host,
    stays_among,
)


def reach(text, *patterns, **word):
    return reaches(Word(text, **word), host_patterns(patterns)).answer


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/x?y#z",
        "HTTPS://EXAMPLE.com",
        "https://example.com./",
        "https://user:word@example.com:8443/",
        "https://good.org@example.com",
        "https://%65xample.com/",
        "//example.com/x",
        "example.com",
        "example.com/path@good.org",
        "example.com:443",
        "git@example.com:org/repo.git",
        "example.com:src/file",
        "user@example.com",
        "example.com::module/x",
        "git+ssh://git@example.com/x",
        "user:word@example.com/x",
    ],
)
def test_a_host_is_denied_however_it_is_written(text):
    assert reach(text, "example.com") == "yes"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com@good.org/",
        "https://good.org/example.com",
        "https://good.org/?example.com",
        "https://good.org/#@example.com",
        "https://notexample.com",
        "good.org:example.com/x",
        "/srv/example.com",
        "../example.com",
        "file:///srv/example.com",
    ],
)
def test_another_host_is_not(text):
    assert reach(text, "example.com") == "no"


@pytest.mark.parametrize(
    "text",
    [
        "https://good.org\\@other.org/",
        "https:other.org",
        "http://a@b@good.org/",
        "http://{good,other}.org/",
        "http://good.org\t.other.org/",
        "http://good.org:x/",
        "http://1.2.3.4.5/",
        "http://0x7g/",
        "devbox",
        "devbox:file",
        "http:///good.org",
        "https://example.com\\@good.org/",
        "https:/example.com",
        "https://good.org?@example.com",
        "https://\uff45xample\u3002com/",
        "http://\uff11\uff12\uff17.0.0.1/",
        "https://b\u00fccher.example/",
    ],
)
def test_what_can_be_read_in_several_ways_is_asked_about(text):
    assert reach(text, "example.com") == "maybe"
    assert stays_among(Word(text), host_patterns(["good.org"])).answer != "yes"


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f000001",
        "127.0.0.1.",
        "[::1]",
        "::1",
        "[::ffff:127.0.0.1]:80",
        "[::ffff:7f00:1]",
        "localhost",
        "LOCALHOST.",
        "0",
        "http://127.0.0.1:8000/",
        "app.localhost",
        "[::]",
        "64:ff9b::7f00:1",
    ],
)
def test_this_machine_has_many_names(text):
    assert reach(text, "loopback") == "yes"
    assert reach(text, "private") == "yes"


@pytest.mark.parametrize(
    "text",
    [
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "[fd00::1]",
        "[fe80::1%25eth0]",
        "100.64.0.1",
        "metadata.google.internal",
        "printer.local",
        "2002:0a00:0001::",
    ],
)
def test_private_addresses_are_not_of_the_internet(text):
    assert reach(text, "private") == "yes"
    assert reach(text, "loopback") == "no"


def test_public_ones_are():
    assert reach("8.8.8.8", "private", "loopback") == "no"
    assert reach("example.com", "private", "loopback") == "no"


def test_a_star_is_what_is_below_a_domain():
    assert reach("https://a.b.example.com", "*.example.com") == "yes"
    assert reach("https://example.com", "*.example.com") == "no"
    assert reach("https://aexample.com", "*.example.com") == "no"
    assert reach("https://8.8.8.8", "*") == "yes"


def test_ports_and_networks():
    assert reach("http://example.com:8080/", "example.com:8080") == "yes"
    assert reach("http://example.com/", "example.com:8080") == "no"
    assert reach("https://example.com/", "example.com:443") == "yes"
    assert reach("example.com", "example.com:8080") == "yes"
    assert reach("10.20.0.1", "10.0.0.0/8") == "yes"
    assert reach("0x0a.1", "10.0.0.0/8") == "yes"
    assert reach("[fd12::1]:22", "fd00::/8") == "yes"
    assert reach("[fd12::1]:22", "[fd12::1]:22") == "yes"


def test_a_rule_may_name_a_host_in_another_script():
    assert reach("https://xn--bcher-kva.example", "b\u00fccher.example") == "yes"
    assert reach("https://b\u00fccher.example", "xn--bcher-kva.example") == "maybe"


def test_a_rule_that_allows_wants_each_host_among_its_own():
    good = host_patterns(["good.org", "strasse.de"])

    assert stays_among(Word("https://good.org/x"), good).answer == "yes"
    assert stays_among(Word("https://other.org/x"), good).host == "other.org"
    assert stays_among(Word("https://stra\u00dfe.de/"), good).answer == "maybe"
    assert stays_among(Word("good.org:x@other.org/y"), good).answer == "no"


def test_a_word_that_is_not_known_may_have_a_known_host():
    assert reach("https://example.com/$x", "example.com", known=False) == "maybe"
    assert (
        reach("https://example.com/$x", "example.com", known=False, start="https://example.com/")
        == "yes"
    )
    assert (
        reach("https://good.org$x", "example.com", known=False, start="https://good.org") == "maybe"
    )
    assert reach("https://example.com/a?b=c", "example.com", pattern=True) == "yes"


def test_a_local_file_is_no_host():
    assert read_host("file:///etc/pass%77d?x").path == "/etc/passwd"
    assert read_host("file://localhost/etc/x").path == "/etc/x"
    assert read_host("./repo").path == "./repo"
    assert reach("file://other/x", "example.com") == "maybe"


@pytest.mark.parametrize(
    "text", ["", "a*.com", "*.*.com", "a b", "https://example.com", "1.2.3.4.5", "*example.com"]
)
def test_a_pattern_that_is_no_host_is_refused(text):
    with pytest.raises(ValueError, match="is not a host"):
        host_patterns([text])


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
def test_an_address_is_the_same_in_all_its_forms(number, form):
    address = str(ipaddress.IPv4Address(number))

    assert canonical_host(form.format(number)) == address
    assert canonical_host(address) == address


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading(text):
    reading = read_host(text)

    assert reading.hosts or reading.path or reading.doubt or not text
