import pytest

from toolbus.components.components import AgentComponent
from toolbus.config import configuration
from toolbus.config.snapshots import take_snapshot
from toolbus.config.trust import trust
from toolbus.toml.config_source import config_source

COMPONENT = """
from toolbus.components.components import AgentComponent
from toolbus.toml.config_source import config_source

class Reader(AgentComponent):
    def __init__(self, file: str):
        super().__init__()
        self.origin = config_source.get()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "shop"
    folder.mkdir(mode=0o700)
    (folder / "reader.py").write_text(COMPONENT)
    (folder / "rules.toml").write_text("one")
    (folder / "toolbus.toml").write_text(
        '[[component]]\nuse = "./reader.py:Reader"\nsettings = { file = "rules.toml" }\n'
    )
    for file in folder.iterdir():
        file.chmod(0o600)
    monkeypatch.chdir(folder)
    return folder


def origin_of(*, named):
    (component,) = configuration.read("toolbus.toml" if named else None).components
    assert isinstance(component, AgentComponent)
    assert config_source.get() is None
    return component.origin


def test_who_names_a_configuration_trusts_what_it_names_as_it_is(project):
    origin = origin_of(named=True)
    rules = project / "rules.toml"

    assert origin.files == (project / "toolbus.toml", project / "reader.py", rules)
    assert origin.check_first(rules, b"one") is None
    assert "toolbus trust" in origin.check_changed(rules, b"two")

    trust(take_snapshot(project / "toolbus.toml"))
    assert origin.check_changed(rules, b"one") is None
    assert "toolbus trust" in origin.check_changed(rules, b"two")


def test_what_was_trusted_is_what_is_used(project):
    trust(take_snapshot(project / "toolbus.toml"))
    origin = origin_of(named=False)
    rules = project / "rules.toml"

    assert set(origin.files) == {project / "toolbus.toml", project / "reader.py", rules}
    assert origin.check_first(rules, b"one") is None
    assert "differs from the version trusted" in origin.check_first(rules, b"two")
    assert "differs from the version trusted" in origin.check_first(project / "other.toml", b"one")

    rules.write_text("two")
    assert "toolbus trust" in origin.check_changed(rules, b"two")
    trust(take_snapshot(project / "toolbus.toml"))
    assert origin.check_changed(rules, b"two") is None


def test_the_users_own_is_trusted_unless_others_may_write_it(project, tmp_path):
    own = tmp_path / "config" / "toolbus"
    own.mkdir(parents=True, mode=0o700)
    for file in project.iterdir():
        file.rename(own / file.name)
    origin = origin_of(named=False)
    rules = own / "rules.toml"

    assert origin.check_changed(rules, b"two") is None
    rules.chmod(0o666)
    assert "others may write" in origin.check_changed(rules, b"two")
    rules.unlink()
    assert origin.check_changed(rules, b"two")
