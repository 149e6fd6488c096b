import asyncio
from threading import Event

import psycopg
import pytest
from dbos import DBOS, DBOSClient

from durable_engines import SLOT, until, until_ended
from toolbus.durable.dbos_engine import DbosEngine, JsonSerializer
from toolbus.durable.engine import QueueLimits, WorkflowCall
from toolbus.errors import RegistrationError, StoreError


def call(name, *arguments, **options):
    return WorkflowCall(id=name, arguments=arguments, queue="q", **options)


class Counted:
    """A workflow of three steps, in any loop; the second waits while *may_go* is not set."""

    def __init__(self):
        self.done, self.cancelled = [], []
        self.waits, self.may_go = Event(), Event()

    async def __call__(self, steps, arguments):
        words = [await steps.step("one", self.work(1))]
        words.append(await steps.step("two", self.work(2, waits=arguments == ("wait",))))
        if steps.is_leaving:
            raise asyncio.CancelledError
        words.append(await steps.step("three", self.work(3)))
        return ", ".join(words)

    async def work(self, number, *, waits=False):
        try:
            if waits:
                self.waits.set()
                while not self.may_go.is_set():
                    await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        self.done.append(number)
        return f"word {number}"


class Crowd:
    """A workflow that notes the *most* of them that run at a time."""

    def __init__(self):
        self.running = self.most = 0

    async def __call__(self, steps, arguments):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.05)
        self.running -= 1
        return ""


async def has_begun(counted):
    async def waits():
        return counted.waits.is_set()

    await until(waits)


@pytest.fixture
def run(engines):
    """Give a function that runs a test in a loop, and closes all engines at its end."""

    def run_in_loop(test):
        async def whole():
            try:
                await test()
            finally:
                await engines.close()

        asyncio.run(whole())

    return run_in_loop


def test_a_workflow_runs_once(engines, run):
    async def test():
        counted = Counted()
        engine = await engines.open(counted)

        await engine.enqueue(call("w1"))
        await engine.enqueue(call("w1"))
        words = await until_ended(engine)

        assert words == {"w1": "word 1, word 2, word 3"}
        assert counted.done == [1, 2, 3]

    run(test)


def test_a_killed_workflow_stays_with_its_worker(engines, run):
    async def test():
        first, second = Counted(), Counted()
        engine = await engines.open(first)
        await engine.enqueue(call("w1", "wait"))
        await has_begun(first)
        await engine.close()

        engine = await engines.open(second, slot="worker:q:2")
        await engine.enqueue(call("w2"))

        async def has_ended():
            return await engine.workflows(("ended",))

        await until(has_ended)
        (left,) = await engine.workflows()

        assert (left.id, left.slot, left.state) == ("w1", SLOT, "running")
        assert left.arguments == ("wait",)
        assert (first.done, second.done) == ([1], [1, 2, 3])

    run(test)


def test_steps_of_other_tasks_are_recorded(engines, run):
    async def test():
        async def one(steps, number):
            return await steps.step("one", asyncio.sleep(0.01 * number, f"word {number}"))

        async def workflow(steps, arguments):
            return ", ".join(await asyncio.gather(*[one(steps, number) for number in range(5)]))

        engine = await engines.open(workflow)
        await engine.enqueue(call("w1"))

        assert await until_ended(engine) == {"w1": "word 0, word 1, word 2, word 3, word 4"}

    run(test)


def test_a_cancellation_reaches_the_workflow(engines, run):
    async def test():
        counted = Counted()
        engine = await engines.open(counted)
        await engine.enqueue(call("w1", "wait"))
        await has_begun(counted)

        await engine.cancel("w1")
        words = await until_ended(engine)

        assert words == {"w1": "cancelled"}

        async def was_cancelled():
            return counted.cancelled == [2]

        await until(was_cancelled)
        assert counted.done == [1]

    run(test)


def test_a_stop_ends_the_step_and_no_more(engines, run):
    async def test():
        first = Counted()
        engine = await engines.open(first)
        await engine.enqueue(call("w1", "wait"))
        await has_begun(first)

        stop = asyncio.ensure_future(engine.stop(10))
        await asyncio.sleep(0.1)
        first.may_go.set()
        await stop
        assert [each.state for each in await engine.workflows()] == ["running"]
        await engine.close()

        assert (first.done, first.cancelled) == ([1, 2], [])

    run(test)


def test_an_error_fails_a_workflow_without_its_text(engines, run):
    async def test():
        async def broken(steps, arguments):
            raise ValueError("a secret")

        engine = await engines.open(broken)
        await engine.enqueue(call("w1"))
        await until_ended(engine)

        (failed,) = await engine.workflows(("failed",))
        assert "secret" not in str(failed)

    run(test)


def test_a_child_runs_below_its_workflow(engines, run):
    async def test():
        counted = Counted()

        async def below(steps):
            return await steps.step("one", counted.work(1))

        async def workflow(steps, arguments):
            return f"{await steps.child(below)} below"

        engine = await engines.open(workflow)
        await engine.enqueue(call("w1"))
        words = await until_ended(engine)

        assert words == {"w1": "word 1 below"}
        assert counted.done == [1]

    run(test)


def test_a_cancellation_reaches_the_child(engines, run):
    async def test():
        counted = Counted()

        async def workflow(steps, arguments):
            return await steps.child(lambda below: counted(below, arguments))

        engine = await engines.open(workflow)
        await engine.enqueue(call("w1", "wait"))
        await has_begun(counted)

        await engine.cancel("w1")
        words = await until_ended(engine)

        async def was_cancelled():
            return counted.cancelled == [2]

        await until(was_cancelled)
        assert words == {"w1": "cancelled"}

    run(test)


def test_a_worker_keeps_its_limit(engines, run):
    async def test():
        crowd = Crowd()
        queue = QueueLimits(name="q", running_per_worker=2, poll_seconds=0.05)
        engine = await engines.open(crowd, queue=queue)
        for number in range(6):
            await engine.enqueue(call(f"w{number}", str(number)))
        await until_ended(engine)

        assert crowd.most == 2

    run(test)


def test_a_return_to_an_older_version_takes_calls(engines, run):
    async def test():
        for version in ("1", "2"):
            engine = await engines.open(Counted(), version=version)
            await engine.close()
        engine = await engines.open(Counted(), version="1")

        await engine.enqueue(call("w1"))

        assert list(await until_ended(engine)) == ["w1"]

    run(test)


def test_a_limit_of_all_workers_is_also_that_of_one(engines, run):
    async def test():
        counted = Counted()
        queue = QueueLimits(name="q", running=10, running_per_tenant=20, poll_seconds=0.05)
        engine = await engines.open(counted, queue=queue)
        await engine.enqueue(call("w1", partition="p"))

        assert list(await until_ended(engine)) == ["w1"]

    run(test)


def test_new_limits_apply_to_a_backlog(engines, run):
    async def test():
        crowd = Crowd()
        engine = await engines.open(crowd)
        await engine.close()
        engine = await engines.open()
        for number in range(4):
            await engine.enqueue(call(f"w{number}", str(number)))
        await engine.close()
        queue = QueueLimits(name="q", running_per_worker=1, poll_seconds=0.05)
        engine = await engines.open(crowd, queue=queue)
        await until_ended(engine)

        assert crowd.most == 1

    run(test)


def test_the_hosted_part_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DBOS__CLOUD", "true")

    with pytest.raises(RegistrationError, match="DBOS__CLOUD"):
        DbosEngine(tmp_path / "s.db", version="1")


def test_a_missing_server_is_an_error_soon():
    async def test():
        address = "postgresql://me@localhost:1/nowhere"
        with pytest.raises(StoreError, match="cannot start"):
            await DbosEngine(address, version="1").open()

    asyncio.run(asyncio.wait_for(test(), 10))


def test_the_file_of_the_engine_is_private(tmp_path):
    async def test():
        engine = DbosEngine(tmp_path / "s.db", version="1")
        await engine.open()
        await engine.close()

    asyncio.run(test())

    assert (tmp_path / "s.db.durable").stat().st_mode & 0o777 == 0o600


def test_an_exception_is_written_as_its_type():
    text = JsonSerializer().serialize({"error": ValueError("a secret")})

    assert "secret" not in text
    assert "ValueError" in text


def test_no_other_value_is_written():
    with pytest.raises(TypeError):
        JsonSerializer().serialize({"value": object()})


def test_an_unopened_engine_says_so(tmp_path):
    with pytest.raises(RegistrationError, match="not open"):
        asyncio.run(DbosEngine(tmp_path / "s.db", version="1").enqueue(call("w1")))


@pytest.mark.full
def test_workflows_of_other_applications_are_apart(database):
    url = database.replace("postgresql://", "postgresql+psycopg://")
    DBOS.migrate(url)
    client = DBOSClient(system_database_url=url)
    client.enqueue({"workflow_name": "theirs", "queue_name": "q"})
    client.destroy()

    async def test():
        engine = DbosEngine(database, version="1")
        await engine.open()
        await engine.enqueue(call("ours"))
        listed = await engine.workflows()
        await engine.close()
        return [each.id for each in listed]

    assert asyncio.run(test()) == ["ours"]


@pytest.mark.full
def test_a_role_without_rights_is_named_as_such(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE ROLE durable_guest LOGIN")
    address = f"{database}{'&' if '?' in database else '?'}user=durable_guest"

    with pytest.raises(StoreError, match="InsufficientPrivilege"):
        asyncio.run(DbosEngine(address, version="1").open())
