"""The browser of the tests: what it lets pass, and what it complains about."""

import pytest

from browsers import Look, axe_violations, serving_folder, watched_page

pytestmark = pytest.mark.full
HEAD = "<!doctype html><html lang='en'><title>A page</title>"


@pytest.fixture
def complaints_about(chromium, tmp_path):
    """Return what loads a page of this HTML and returns the complaints about it."""

    def loaded(html, host="127.0.0.1"):
        (tmp_path / "page.html").write_text(HEAD + html)
        page, complaints = watched_page(chromium, Look(1280, "light"))
        with serving_folder(tmp_path) as port:
            page.goto(f"http://{host}:{port}/page.html", wait_until="networkidle")
        page.context.close()
        return complaints

    return loaded


def test_a_good_page_has_no_complaint(complaints_about):
    assert complaints_about("<link rel=icon href=data:,>") == []


def test_an_error_of_a_script_is_a_complaint(complaints_about):
    assert "script: here" in complaints_about(
        "<link rel=icon href=data:,><script>throw 'here'</script>"
    )


def test_a_violation_of_the_policy_is_a_complaint(complaints_about):
    policy = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
    (complaint,) = complaints_about(policy + "<p style='color: red'>")
    assert "violates the following Content Security Policy directive" in complaint


def test_a_request_to_another_origin_is_a_complaint(complaints_about):
    complaints = complaints_about("<link rel=icon href=data:,><img src=http://127.0.0.1:9/x>")
    assert "request to another origin: http://127.0.0.1:9/x" in complaints


def test_names_below_localhost_are_this_machine(complaints_about):
    assert complaints_about("<link rel=icon href=data:,>", "x7.localhost") == []


def test_the_look_is_that_of_the_person(chromium):
    page, _ = watched_page(chromium, Look(390, "dark"))
    page.set_content("<p>")

    facts = page.evaluate("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]")

    assert facts == [390, True]
    page.context.close()


def test_axe_names_what_is_wrong(chromium):
    page, _ = watched_page(chromium, Look(390, "light"))
    page.set_content(f"{HEAD}<main><h1>A form</h1><input>")

    (violation,) = axe_violations(page)

    assert violation.startswith("label: <input>")
    page.context.close()
