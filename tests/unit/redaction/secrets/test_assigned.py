import pytest

from toolbus.redaction.secrets.assigned import assigned_values


def read(text, name="password"):
    data = text.encode()
    start = data.index(name.encode())
    spans = filter(None, assigned_values(data, (start, start + len(name)), 0))
    return [data[first:last].decode() for first, last in spans]


def test_a_value_behind_a_name_is_given_without_its_quotes():
    assert read("password = 'a b', x") == ["a b"]


@pytest.mark.parametrize("text", ["password_policy = 'x1'", "no password", "password_id: 3"])
def test_nothing_is_given_for_a_name_that_is_no_secrets_or_stands_alone(text):
    assert read(text, text.split(" ")[0] if "_" in text else "password") == []


def test_a_long_value_is_given_whole():
    value = "x1y2" * 1_000

    assert read(f'password = "{value}"') == [value]


def test_a_name_within_a_name_is_read_whole():
    # The pattern of the rule begins at "token": what stands before it says that this is an address.
    data = b"next_page_token: abcdefgh12345678"

    assert list(assigned_values(data, (10, 15), 15)) == []


def test_many_names_are_looked_at_one_by_one():
    text = "password: " * 5_000 + "x"

    data = text.encode()
    reads = [list(assigned_values(data, (start, start + 8), 0)) for start in range(0, 50_000, 10)]

    assert len(reads) == 5_000


def test_a_placeholder_is_no_name():
    data = b"[db-password-x7k2m5abcdefqrst]: Falcon47!"

    assert list(assigned_values(data, (4, 21), 21)) == []
