"""Laws for stores: everything that the `Store` protocol promises, for each of our stores.

A test class inherits them and has a fixture `stores`, which gives each test an empty place.
`StoreLaws` is for every store, `SharedStoreLaws` for a store that outlives its process,
`LookupLaws` for a store in a database, `DamagedStoreLaws` for a store that notices damage.
`LongStoreLaws` and `KilledStoreLaws` take a minute. Authors of other stores have
`toolbus.testing.check_store`.
"""

from store_laws.content_laws import ContentLaws, ForgetLaws
from store_laws.damage_laws import DamagedStoreLaws
from store_laws.kill_laws import KilledStoreLaws
from store_laws.long_laws import LongStoreLaws
from store_laws.order_laws import OrderLaws
from store_laws.reader_laws import LookupLaws, ReaderLaws
from store_laws.shared_laws import SharedStoreLaws
from store_laws.state_laws import StateLaws
from store_laws.subject_store import StoreSubject
from store_laws.writer_laws import WriterLaws


class StoreLaws(OrderLaws, ContentLaws, ForgetLaws, WriterLaws, StateLaws, ReaderLaws):
    """What every store promises; a test class that inherits it runs them all."""


__all__ = [
    "DamagedStoreLaws",
    "KilledStoreLaws",
    "LongStoreLaws",
    "LookupLaws",
    "SharedStoreLaws",
    "StoreLaws",
    "StoreSubject",
]
