import pytest
from tests.unit.redaction.secrets.builtin.shapes import surviving

from toolbus.redaction.secrets.assigned import copied_values, inserted_values, table_values

BOX = """
┌────┬──────────┐
│ id │ password │
├────┼──────────┤
│ 1  │ x1       │
└────┴──────────┘
"""
TABLES = {
    "markdown": ("| host | password |\n|---|---|\n| a | x1 |\n| b | `y2` |\n\nc | d", ["x1", "y2"]),
    "psql": (
        " id | password | n\n----+---+---\n  1 | x1 | \n  2 | y2 | 3\n(2 rows)\n",
        ["x1", "y2"],
    ),
    "mysql": (
        "+----+----------+\n| id | password |\n+----+---+\n|  1 | x1       |\n+---+\n",
        ["x1"],
    ),
    "box": (BOX, ["x1"]),
    "csv": ('id,password,m\n1,x1,a@b\n2,"y,2",c\n3,,d\n', ["x1", "y,2", ""]),
    "csv with semicolons": ("id;password\r\n1;x1\r\n", ["x1"]),
    "tsv": ("password\tid\nx1\t1\n", ["x1"]),
    "aligned": (
        "USER   password   ROLE\nadm    x1         root\nb      y2         c\n",
        ["x1", "y2"],
    ),
    "an end": ("id,password\n1,x1\nno more of it\n2,y2\n", ["x1"]),
    "no heading": ("def login(user, password):\n    return (user, x1)\n", []),
    "a word below": ("word,password\nx,x1\n", ["x1"]),
    "a word in a row": ("en,de\npassword,Passwort\nx1,y2\n", []),
    "a line without an end": ("password," + "x1," * 2_000, []),
    "one column": ("password\nx1\n", []),
}
ROWS = {
    "a row": ("INTO t (id, password) VALUES (1, 'x1');", ["x1"]),
    "rows": ("INTO t (password, m) VALUES ('x''1', 'a'), ('y2', NOW()),\n (N'z3', NULL)",
             ["x''1", "y2", "z3"]),
    "a comma in a text": ("INTO t (m, password) VALUES ('a, (b)', 'x1')", ["x1"]),
    "no text": ("INTO t (id, password) VALUES (1, NULL)", []),
    "cut": ("INTO t (id, password) VALUES (1, 'x1", []),
}  # fmt: skip


def read(reader, text, behind=""):
    data = text.encode()
    start = data.index(b"password")
    stop = data.index(behind.encode()) + len(behind)
    spans = filter(None, reader(data, (start, start + 8), stop))
    return [data[first:last].decode() for first, last in spans]


@pytest.mark.parametrize(("text", "values"), TABLES.values(), ids=TABLES)
def test_what_stands_below_a_name_is_read_up_to_the_end_of_the_table(text, values):
    assert read(table_values, text) == values


@pytest.mark.parametrize(("text", "values"), ROWS.values(), ids=ROWS)
def test_texts_of_a_column_are_read_from_rows_of_sql(text, values):
    assert read(inserted_values, text, "VALUES ") == values


def test_a_copy_of_postgresql_is_read_by_its_tabs():
    text = "COPY t (id, password) FROM stdin;\n1\tx1\n2\ty2\n\\.\n"

    assert read(copied_values, text, "stdin;\n") == ["x1", "y2"]


def test_others_have_their_turn_while_a_long_table_is_read():
    text = "id,password\n" + "1,\n" * 2_000

    assert list(table_values(text.encode(), (3, 11), 0)).count(None) == 4


@pytest.mark.parametrize(
    "shape",
    [
        "| host | user | password |\n|------|------|----------|\n| db01 | root | «» |",
        " id | login | password \n----+-------+----------\n  1 | admin | «»\n(1 row)",
        "name,api_token,active\nci,«»,true\n",
        "USER    PASSWORD            ROLE\nadmin   «»   owner\n",
        "| key | value |\n|-----|-------|\n| DB_PASSWORD | «» |",
        "-[ RECORD 1 ]\nid       | 1\npassword | «»\n",
    ],
)
def test_a_secret_in_a_column_is_taken(shape):
    assert surviving(shape, "px") == []


def test_each_line_is_read_for_one_heading():
    text = "id,password\n" * 2_000
    starts = [12 * number + 3 for number in range(2_000)]

    spans = [list(table_values(text.encode(), (start, start + 8), 0)) for start in starts]

    assert sum(map(len, spans)) < 2_100
