"""The code for answers, apart from its page and terminal."""

from toolbus.presence.answer_code import AnswerLock, reader_of_terminal


def test_an_answer_needs_the_code():
    lock = AnswerLock()
    assert not lock.check("").accepted
    code = lock.show()

    assert lock.show() == code
    assert lock.check(code).accepted
    assert lock.check(f" {code.lower().replace('-', ' ')}").accepted
    assert lock.check("").text.startswith("the answer code is missing")
    assert lock.check("wrong").text == "the answer code is wrong; 4 of 5 tries remain"


def test_five_wrong_codes_end_answers_until_enter():
    lock = AnswerLock()
    code = lock.show()
    for _ in range(5):
        assert not lock.check("wrong").accepted

    assert "answers are off after 5 wrong codes" in lock.refusal
    assert lock.check(code).text == lock.refusal
    renewed = lock.show()
    assert renewed != code
    assert not lock.check(code).accepted
    assert lock.check(renewed).accepted


def test_without_a_person_no_code_is_right():
    lock = AnswerLock("this process has no terminal")

    assert lock.show() == ""
    assert lock.check("").text == lock.check("A").text == "this process has no terminal"


def test_terminals_that_others_read_are_known():
    known = {
        "ASCIINEMA_REC": "asciinema",
        "INSIDE_EMACS": "emacs",
        "KITTY_LISTEN_ON": "kitty",
        "NVIM": "nvim",
        "STY": "screen",
        "TMUX": "tmux",
        "WEZTERM_UNIX_SOCKET": "wezterm",
        "ZELLIJ": "zellij",
    }

    assert {name: reader_of_terminal({name: "0"}) for name in known} == known
    assert reader_of_terminal({"TERM_PROGRAM": "vscode"}).startswith("the editor")
    assert reader_of_terminal({"TMUX": "", "TERM_PROGRAM": "Apple_Terminal"}) == ""
