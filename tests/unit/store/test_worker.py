"""The thread of a store: which jobs it hands on, and in which order."""

import asyncio

from toolbus.store.worker import NotYetError, Worker


async def test_what_cannot_be_done_yet_comes_first_in_the_next_round():
    rounds, locked = [], {"a"}

    def serve(jobs):
        rounds.append(list(jobs))
        busy = set(locked)
        return [NotYetError() if job[0] in busy else job.upper() for job in jobs]

    worker = Worker("w", serve, lambda: None, limit=8)
    waiting = [asyncio.create_task(worker.submit(name)) for name in ("a1", "a2")]
    await asyncio.sleep(0)
    assert [await worker.submit(name) for name in ("b1", "b2")] == ["B1", "B2"]
    assert not [task for task in waiting if task.done()]
    locked.clear()

    assert await asyncio.gather(*waiting) == ["A1", "A2"]
    assert all(jobs[:2] == ["a1", "a2"] for jobs in rounds if len(jobs) > 2)
    await worker.close()


async def test_a_worker_ends_after_the_jobs_that_wait():
    answers = iter([NotYetError(), NotYetError(), "done"])
    ended = []
    worker = Worker("w", lambda jobs: [next(answers) for _ in jobs], lambda: ended.append(True))

    waiting = asyncio.create_task(worker.submit("a"))
    await asyncio.sleep(0)
    await worker.close()

    assert await waiting == "done"
    assert ended == [True]
