import threading

import pytest

from toolbus.components.roster import Roster
from toolbus.errors import RegistrationError


class Speaker:
    pass


def test_of_many_threads_one_gets_the_id():
    ids, speakers, refused = Roster(), [Speaker() for _ in range(8)], []
    barrier = threading.Barrier(len(speakers))

    def claim(speaker):
        barrier.wait()
        try:
            ids.claim("clerk", speaker)
        except RegistrationError:
            refused.append(speaker)

    threads = [threading.Thread(target=claim, args=(speaker,)) for speaker in speakers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == len(speakers) - 1


def test_only_who_has_an_id_gives_it_back():
    ids, first, second = Roster(), Speaker(), Speaker()
    ids.claim("clerk", first)
    ids.claim("clerk", first)

    ids.release("clerk", second)
    with pytest.raises(RegistrationError, match="another agent on this bus has that id"):
        ids.claim("clerk", second)
    ids.release("clerk", first)
    ids.release("clerk", first)

    ids.claim("clerk", second)


def test_a_number_is_the_next_or_the_lowest_free_one():
    roster, speakers = Roster(), [Speaker() for _ in range(5)]
    (first, release), (second, _) = [roster.number("row", each) for each in speakers[:2]]
    other, _ = roster.number("other", speakers[2])

    release()
    release()
    third, _ = roster.number("row", speakers[3])
    lowest, _ = roster.number("row", speakers[4], lowest=True)

    assert (first, second, other, third, lowest) == (1, 2, 1, 3, 1)


def test_a_number_goes_with_its_owner():
    roster, owner = Roster(), Speaker()
    roster.number("row", owner)

    del owner

    assert roster.number("row", Speaker())[0] == 1
