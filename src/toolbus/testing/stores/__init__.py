'''Laws for stores: everything that the `Store` protocol promises, to run on a store of your own.

    import pytest

    from acme_store import AcmeStore
    from toolbus.testing.stores import SharedStoreLaws, StoreLaws, StoreSubject


    @pytest.fixture
    def stores(tmp_path):
        return StoreSubject(lambda: AcmeStore(tmp_path), "acme_store:AcmeStore", str(tmp_path))


    class TestAcmeStore(StoreLaws, SharedStoreLaws):
        """What it promises."""

Each test gets an empty place of its own from the fixture. `StoreLaws` is for every store,
`SharedStoreLaws` for one that outlives its process and that others may open, `DamagedStoreLaws`
for one that notices damage (the fixture then says how to make some). `LongStoreLaws` and
`KilledStoreLaws` take a minute: messages of 100 MB, thousands of drawn steps compared with a
model, processes killed at any moment. A test's failure says in words what is not as promised.
`LongStoreLaws` needs `toolbus[testing]`, which is hypothesis.
'''

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.settings.lazy_names import lazily

if TYPE_CHECKING:
    from toolbus.testing.stores.classes import StoreLaws as StoreLaws
    from toolbus.testing.stores.damage_laws import DamagedStoreLaws as DamagedStoreLaws
    from toolbus.testing.stores.kill_laws import KilledStoreLaws as KilledStoreLaws
    from toolbus.testing.stores.long_laws import LongStoreLaws as LongStoreLaws
    from toolbus.testing.stores.shared_laws import SharedStoreLaws as SharedStoreLaws
    from toolbus.testing.stores.subject_store import StoreSubject as StoreSubject

__getattr__, __dir__ = lazily(
    __name__,
    {
        "DamagedStoreLaws": "damage_laws",
        "KilledStoreLaws": "kill_laws",
        "LongStoreLaws": "long_laws",
        "SharedStoreLaws": "shared_laws",
        "StoreLaws": "classes",
        "StoreSubject": "subject_store",
    },
)
