"""How long a list of tools is good for others."""

from toolbus.bus.bus import EventBus
from toolbus.events.call_values import ToolSpec
from toolbus.events.catalogue import Scope
from toolbus.mcp.http.listings import Listings
from toolbus.mcp.session.tool_list import ToolList
from toolbus.tools.toolset import Toolset


class Told:
    """A session, as far as a list of tools is about it."""

    is_filtering = True

    def __init__(self, *names):
        self.tool_list = ToolList(EventBus(), Scope(agent_id="a"), Toolset())
        self.tool_list.specs = {name: ToolSpec(name=name) for name in names}
        self.tool_list.listed = bool(names)


def got(listings, key):
    session = Told()
    listings.get(key, session)
    return tuple(session.tool_list.specs)


def test_a_list_is_given_for_a_minute_to_its_like():
    now = [0.0]
    listings = Listings(lambda: now[0])
    listings.put("a", Told("echo"))
    listings.put("b", Told())

    found = [got(listings, "a"), got(listings, "b"), got(listings, "c")]
    now[0] = 61.0
    later = got(listings, "a")

    assert found == [("echo",), (), ()]
    assert later == ()


def test_lists_are_few_and_may_change():
    listings = Listings(lambda: 0.0)
    for number in range(101):
        listings.put(number, Told("echo"))

    known = [bool(got(listings, number)) for number in (0, 1, 100)]
    listings.forget()

    assert known == [False, True, True]
    assert got(listings, 100) == ()
