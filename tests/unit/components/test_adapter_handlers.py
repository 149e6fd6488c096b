from toolbus import AgentComponent, ToolAdapter
from toolbus.components.adapter_handlers import adapter_methods


class Adapts(ToolAdapter):
    def adapt_parameters(self, call): ...


class Fills(ToolAdapter):
    def fill_parameters(self, call): ...


class Both(Adapts, Fills):
    name = "Both"


def test_who_fills_is_listed_behind_who_adapts():
    component = AgentComponent()
    for adapter in (Adapts(), Fills(), Both(), ToolAdapter()):
        component.register_tool_adapter(adapter)

    methods = adapter_methods(component._on_tool_call_before_adapter)

    assert [(adapter.name, method.__name__) for adapter, method in methods] == [
        ("Both", "adapt_parameters"),
        ("Adapts", "adapt_parameters"),
        ("Both", "fill_parameters"),
        ("Fills", "fill_parameters"),
    ]
