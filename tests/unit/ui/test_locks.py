"""What the locks of the page promise, apart from a server."""

import pytest

from toolbus.ui.locks import LINK_SECONDS, PageLogin, UiLocks


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def code_of(link):
    return link.partition("code=")[2]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def locks(clock):
    return UiLocks(8000, clock=clock)


def test_a_link_logs_in_once(locks):
    link, numeric = locks.new_links()

    assert link.startswith(f"http://{locks.host}/enter?code=")
    assert numeric == f"http://127.0.0.1:8000/enter?code={code_of(link)}"
    login = locks.enter(code_of(link), locks.host)
    assert isinstance(login, PageLogin)
    assert locks.find_login(login.cookie, locks.host) == login
    assert locks.enter(code_of(link), locks.host) == (
        "this link has been used; press Enter at the terminal of `toolbus ui` for a new link"
    )


def test_a_link_ends_after_five_minutes(locks, clock):
    link, _ = locks.new_links()
    clock.now += LINK_SECONDS + 1

    assert "expired" in locks.enter(code_of(link), locks.host)
    assert "expired" in locks.enter(code_of(link), locks.host)


def test_a_newer_link_ends_the_older(locks):
    (first, _), (second, _) = locks.new_links(), locks.new_links()

    assert "a newer link was made" in locks.enter(code_of(first), locks.host)
    assert isinstance(locks.enter(code_of(second), locks.host), PageLogin)


def test_wrong_links_are_bounded(locks):
    link, _ = locks.new_links()
    for _ in range(100):
        assert "unknown" in locks.enter("é\0" * 9, locks.host)

    assert "too many wrong links" in locks.enter(code_of(link), locks.host)
    assert isinstance(locks.enter(code_of(locks.new_links()[0]), locks.host), PageLogin)


def test_no_link_is_open_at_first(locks):
    assert isinstance(locks.enter("", locks.host), str)


def test_a_login_is_bound_to_its_host(locks):
    login = locks.enter(code_of(locks.new_links()[0]), locks.numeric_host)

    assert locks.find_login(login.cookie, locks.host) is None
    assert locks.find_login("", locks.host) is None
    assert locks.find_login(login.cookie, locks.numeric_host) == login
    assert "only reads" in locks.reason_not_to_answer(login)


def test_a_form_token_fits_one_subject(locks):
    login, other = PageLogin("a", locks.host), PageLogin("b", locks.host)
    token = locks.form_token(login, "answer", "id", "digest")

    assert locks.check_form_token(token, login, "answer", "id", "digest")
    assert not locks.check_form_token(token, other, "answer", "id", "digest")
    assert not locks.check_form_token(token, login, "answer", "iddigest")
    assert not locks.check_form_token(token, login, "replay", "id", "digest")
    assert not locks.check_form_token("", login, "answer", "id", "digest")
    assert not UiLocks(8000).check_form_token(token, login, "answer", "id", "digest")
