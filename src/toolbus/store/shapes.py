"""What the tables of a database look like: facts that tell whether a row may be one of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.store.opening import Connection
    from toolbus.store.pages import Value

_KINDS: dict[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "TEXT": (str,),
    "BLOB": (bytes,),
    "REAL": (float, int),
}


class Column(NamedTuple):
    """One column; *place* is that of its value in a stored row."""

    name: str
    type: str
    required: bool
    place: int


class Shape(NamedTuple):
    """One table; *key* is the column that is the rowid, if one is, and *parents* its references.

    A reference is column, table and column there. *has_rowid* is False for a table that is
    stored as an index.
    """

    table: str
    columns: tuple[Column, ...]
    key: str | None
    parents: tuple[tuple[str, str, str], ...]
    has_rowid: bool

    def row(self, rowid: int, values: Sequence[Value]) -> dict[str, Value] | None:
        """Return the row that *values* are, by column, or None if they are none of this table.

        Columns that were added after the row was written are None.
        """
        if not len(self.columns) >= len(values) > 0:
            return None
        row: dict[str, Value] = {}
        for name, kind, required, place in self.columns:
            value = values[place] if place < len(values) else None
            if name == self.key and value is None:
                value = rowid
            if required if value is None else not isinstance(value, _KINDS.get(kind, (object,))):
                return None
            row[name] = value
        return row


def read_shapes(connection: Connection) -> dict[str, Shape]:
    """Return the tables of a database, in the order in which they were made."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
    names = [name for (name,) in found.fetchall() if not name.startswith("sqlite_")]
    return {name: _shape(connection, name) for name in names}


def _shape(connection: Connection, table: str) -> Shape:
    info = connection.execute(
        'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)
    )
    columns = info.fetchall()
    indexes = connection.execute(
        "SELECT name FROM pragma_index_list(?) WHERE origin = 'pk'", (table,)
    )
    # A table without rowids is its primary key's index, and shows no other of its own.
    keyed = indexes.fetchone()
    has_rowid = keyed is None or _is_listed(connection, keyed[0])
    order = columns if has_rowid else sorted(columns, key=lambda one: (not one[3], one[3]))
    places = {one[0]: at for at, one in enumerate(order)}
    parents = connection.execute(
        'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (table,)
    )
    keys = [name for name, kind, _, rank in columns if rank and kind == "INTEGER" and keyed is None]
    return Shape(
        table=table,
        columns=tuple(
            [
                Column(name, kind, bool(required), places[name])
                for name, kind, required, _ in columns
            ]
        ),
        key=keys[0] if len(keys) == 1 else None,
        parents=tuple(parents.fetchall()),
        has_rowid=has_rowid,
    )


def _is_listed(connection: Connection, index: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (index,))
    return found.fetchone() is not None
