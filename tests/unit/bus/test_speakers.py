import threading

import pytest

from toolbus.bus.speakers import AgentIds
from toolbus.errors import RegistrationError


class Speaker:
    pass


def test_of_many_threads_one_gets_the_id():
    ids, speakers, refused = AgentIds(), [Speaker() for _ in range(8)], []
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
    ids, first, second = AgentIds(), Speaker(), Speaker()
    ids.claim("clerk", first)
    ids.claim("clerk", first)

    ids.release("clerk", second)
    with pytest.raises(RegistrationError, match="another agent on this bus has that id"):
        ids.claim("clerk", second)
    ids.release("clerk", first)
    ids.release("clerk", first)

    ids.claim("clerk", second)
