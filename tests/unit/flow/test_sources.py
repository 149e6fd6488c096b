"""Sources of texts: trusted and private paths and hosts, against names that look alike."""

import pytest

from toolbus import Scope, ToolCall
from toolbus.components.call_facts import CallEffects
from toolbus.flow.sources import CallFolders, FlowSettings, ResultOrigin


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "shop [1]"
    (folder / "docs").mkdir(parents=True)
    return folder


def scope_of(folder):
    return Scope(session_id="s", folder=str(folder), project=str(folder))


@pytest.mark.parametrize(
    ("host", "is_trusted"),
    [
        ("docs.shop.example", True),
        ("DOCS.Shop.Example.", True),
        ("docs.shop.example:8443", True),
        ("shop.example", False),
        ("evilshop.example", False),
        ("docs.shop.example.evil.test", False),
        ("docs.shop.example@evil.test", False),
        ("", False),
    ],
)
def test_only_hosts_of_the_pattern_are_trusted(host, is_trusted):
    assert FlowSettings(trusted_hosts=("*.shop.example",)).trusts_host(host) is is_trusted


@pytest.mark.parametrize(
    ("path", "is_trusted"),
    [
        ("src/a.py", True),
        (".", True),
        ("docs/../src/a.py", True),
        ("../other/a.py", False),
        ("docs/../../a.py", False),
        ("node_modules/x/README.md", False),
        ("packages/a/node_modules/x.js", False),
        ("vendor/x.go", False),
        ("/etc/passwd", False),
        ("~/notes.txt", False),
        ("bad\0name", False),
    ],
)
def test_only_paths_of_the_project_are_trusted(project, path, is_trusted):
    folders = CallFolders.of(scope_of(project))

    assert FlowSettings().trusts_path(folders.absolute(path), folders) is is_trusted


def test_a_setting_may_trust_a_folder_of_dependencies(project):
    folders = CallFolders.of(scope_of(project))
    settings = FlowSettings(trusted_paths=("vendor/**",))

    assert settings.trusts_path(folders.absolute("vendor/x.go"), folders)
    assert not settings.trusts_path(folders.absolute("vendor/node_modules/x.js"), folders)
    assert not settings.trusts_path(folders.absolute("src/a.py"), folders)


@pytest.mark.parametrize("folder", ["/", "/tmp", "not recorded"])
def test_a_shared_or_unknown_folder_is_no_project(folder):
    folders = CallFolders.of(scope_of(folder))

    assert not FlowSettings().trusts_path("/tmp/a.txt", folders)
    assert not FlowSettings().trusts_path(folders.absolute("a.txt"), folders)


def origin(folder, *, text="", arguments=None, **effects):
    made = CallEffects(does=frozenset({"read"}), is_known=True, **effects) if effects else None
    call = ToolCall(id="c", name="bash", arguments=arguments or {})
    return ResultOrigin(call, scope_of(folder), text, made)


def test_a_search_that_names_dependencies_is_untrusted(project):
    reads = (f"{project}/**",)

    assert origin(project, reads=reads, text="src/a.py: found").is_trusted(FlowSettings())
    found = "./node_modules/x/README.md: do this"
    assert not origin(project, reads=reads, text=found).is_trusted(FlowSettings())


def test_a_call_without_a_reader_is_untrusted_and_its_arguments_may_be_private(project):
    settings = FlowSettings(private_paths=("customers/**",))
    made = origin(project, arguments={"path": "docs/../customers/may.csv", "line": 3})

    assert not made.is_trusted(settings)
    assert made.is_private(settings)
    assert not origin(project, arguments={"path": "customers.md"}).is_private(settings)


def test_a_file_below_a_downloaded_folder_is_untrusted(project):
    downloads = frozenset({f"{project}/docs/page"})
    near = origin(project, reads=(f"{project}/docs/page2",))._replace(downloads=downloads)
    below = origin(project, reads=(f"{project}/docs/page/a.md",))._replace(downloads=downloads)
    around = origin(project, reads=(f"{project}/docs/**",))._replace(downloads=downloads)

    assert near.is_trusted(FlowSettings())
    assert not below.is_trusted(FlowSettings(trusted_tools=("bash",)))
    assert not around.is_trusted(FlowSettings())


def test_private_files_are_known_by_any_form(project):
    settings = FlowSettings(private_paths=("**/.env",))
    scope = scope_of(project)
    folders = CallFolders.of(scope)
    nested = ToolCall(name="read", arguments={"paths": ["docs/.env"]})

    assert settings.is_private(folders.absolute(".env"), folders)
    assert settings.is_private(folders.absolute("docs/.env"), folders)
    assert not settings.is_private(folders.absolute("docs/env"), folders)
    assert ResultOrigin(nested, scope).is_private(settings)
