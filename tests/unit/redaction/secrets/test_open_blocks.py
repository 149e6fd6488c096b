"""What may go on behind the end of a line."""

import pytest

from toolbus.redaction.secrets.open_blocks import open_block

LABEL, BODY = "PRIVATE " + "KEY", "abcdefgh" * 8
HEAD = f"-----BEGIN {LABEL}-----\n"


def held(text, before="Well then:\n"):
    """Return the lines at the end of *text* that are held, behind text that is not."""
    data = f"{before}{text}".encode()
    return data[data.rfind(b"\n", 0, open_block(data, 0)) + 1 :].decode()


@pytest.mark.parametrize(
    "text",
    [
        "To begin with, look at the log.\n",
        "for name in names:\n    print(name)\n",
        "the password is\n",
        "password:\n",
        f"{HEAD}{BODY}\n-----END {LABEL}-----\nand so it goes on as before\n",
        '{"a": [1, 2]}\n',
        'function f() {\n  return "x";\n',
        'the state is {"open" and so on,\n',
        "\x1b[31mred\x1b[0m and\n",
        "one \\\n  two three four\n",
        "text: >\n  abc def\nso it is\n",
        "INSERT INTO t (id, password) VALUES (1, 'x');\nand then\n",
        "user,password\na,b\nno row\nat all\n",
        "| a | b |\n| c | d |\n",
        "<p>one</p> two\n",
        'the value: "x"\nand nothing else\n',
        "tokens = [\n  'x',\n",
        "data:\n  a: b\n```\nThat is all.\n",
        f"$ANSIBLE_VAULT;1.1;AES256\n{'6162' * 20}\nThat is all of it.\n",
        "先打开设置\u3002\n",
    ],
)
def test_whole_lines_are_not_held(text):
    assert held(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}abc\n",
        HEAD + f"{BODY}\n" * 40,
        f"{HEAD}{BODY}\n\n\n",
        "Private-Lines: 2\nAAAA\n",
        f"$ANSIBLE_VAULT;1.1;AES256\n{'6162' * 20}\n",
        f"{BODY}\n{BODY}\n",
        "\x1b]0;title of",
        "ab\\\n",
        "ab\\\n  cd",
        ">\n  abc\n  def\n",
        "INSERT INTO t (id, password) VALUES (1, 'x'),\n",
        "COPY t (id, password) FROM stdin;\n1\tabc\n",
        "user,password\na,b\n",
        "| user | password |\n|---|---|\n| jane | x |\n",
        '{"client_secret": "x",\n',
        '{\n  "client_secret": "x",\n',
        "{\n",
        'value: "x",\n  type: "y",\n',
        "<input value='x'\n",
        "<password>\n  x\n",
        "['x'\n",
        "crypt('x',\n",
        "kind: Secret\nmetadata:\n  name: x\n",
        "data:\n  a: b\n",
        '"random_password",\n"instances": [ {\n',
        "FlyV1\n",
    ],
)
def test_open_blocks_are_held_from_their_begin(text):
    assert held(text) == text


def test_an_open_quote_holds_its_line():
    assert open_block(b'It is "here", and "so', 0) == 18
    assert open_block(b"don't do `it", 0) == 9
    assert open_block(b'It is "so\nand on', 0) == 16


def test_a_block_with_a_limit_is_closed_behind_it():
    assert held("data:\n" + "  a: b\n" * 60) != ""
    assert held("data:\n" + "  a: b\n" * 70) == ""


def test_blocks_before_the_begin_count_no_more():
    data = b"data:\n  a: b\n"

    assert open_block(data, 0) == 0
    assert open_block(data, 6) == len(data)


@pytest.mark.parametrize(
    "line", [b"data:\n", b"value = 'x'\n", b'{"a": \n', b"<a b='\n", b"crypt(\n", b"a" * 79 + b"\n"]
)
def test_many_openers_take_linear_time(line):
    # A quadratic search of this would take minutes.
    assert open_block(line * 40_000, 0) <= len(line) * 40_000
