from importlib.metadata import entry_points

from toolbus.config.entry_points import GROUP, SHIPPED


def test_what_is_shipped_is_what_the_package_says():
    points = [point for point in entry_points(group=GROUP) if point.dist.name == "toolbus"]
    assert {point.name: point.value for point in points} == SHIPPED
