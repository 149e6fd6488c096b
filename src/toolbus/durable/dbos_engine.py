"""The engine DBOS, in the database of the store; no other file imports dbos."""

from __future__ import annotations

import asyncio
import logging
import os
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolbus.durable.engine import OPEN, WorkflowInfo
from toolbus.errors import RegistrationError, StoreError
from toolbus.messages.ids import new_id
from toolbus.settings.extras import needs_extra
from toolbus.store.store_factory import is_postgres

_log = logging.getLogger("dbos")

try:
    from dbos import DBOS, DBOSClient, Serializer
    from sqlalchemy import URL
except ImportError as error:
    msg = needs_extra("durable runs need the engine DBOS", "dbos")
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from dbos import DBOSConfig, EnqueueOptions, WorkflowStatus

    from toolbus.durable.engine import (
        QueueLimits,
        Steps,
        Workflow,
        WorkflowCall,
        WorkflowState,
    )

START_SECONDS = 30.0
"""The most seconds until the engine has opened its database."""

_NAME, _SCHEMA = "toolbus", "toolbus_durable"
"""The name of application and workflow; a schema apart from that of others who use DBOS."""

_CONNECTIONS = 4
_BELOW = "below"
"""The first argument of the workflows of sub-agents."""
_STATES: dict[str, WorkflowState] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "ended",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}


class JsonSerializer(Serializer):
    """Values as JSON; an exception keeps its type alone, since its text may quote a session."""

    def serialize(self, data: Any) -> str:
        """Return *data* as JSON."""
        return msgspec.json.encode(data, enc_hook=_type_name).decode()

    def deserialize(self, serialized_data: str) -> Any:
        """Return the value in *serialized_data*."""
        return msgspec.json.decode(serialized_data)

    def name(self) -> str:
        """Return the name of the format, which the engine stores beside each value."""
        return "toolbus_json"


class DbosSteps:
    """The steps of the present task's workflow; *engine* runs it."""

    def __init__(self, engine: DbosEngine) -> None:
        self._engine, self._context = engine, copy_context()

    @property
    def is_leaving(self) -> bool:
        """Whether the worker stops."""
        return self._engine.is_stopping.is_set()

    async def step(self, name: str, call: Awaitable[str]) -> str:
        """Record the word of *call* as a step once it has ended, and return it."""

        async def body() -> str:
            return await call

        return await self._inside(DBOS.run_step_async({"name": name}, body))

    async def child(self, work: Callable[[Steps], Awaitable[str]]) -> str:
        """Record *work* as a workflow below this one, in this process, and return its word."""
        return await self._inside(self._engine.run_below(work))

    async def _inside(self, work: Coroutine[Any, Any, str]) -> str:
        """Await *work* in the context of the workflow, whatever the caller's."""
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        try:
            return await task
        finally:
            task.cancel()


class DbosEngine:
    """DBOS with its tables in the database at *address*, the address of a store.

    Beside an SQLite file it has a file of its own, `FILE.durable`, for one worker. *version* is
    the version of the workflows. Raises `RegistrationError` where DBOS would use its hosted part.
    """

    def __init__(self, address: str | os.PathLike[str], *, version: str) -> None:
        hosted = sorted(name for name in os.environ if name.startswith("DBOS_"))
        if hosted:
            reason = "it would make DBOS use its hosted part; unset it"
            raise RegistrationError(f"variable {hosted[0]}", reason)
        self._address, self._version = address, version
        self.workers = None if is_postgres(address) else 1
        self._database = _Database("")
        self._client: DBOSClient | None = None
        self._below: dict[str, Callable[[Steps], Awaitable[str]]] = {}
        self._run: Callable[..., Coroutine[Any, Any, str]]
        self.is_stopping, self._is_started = Event(), False
        # Its texts may quote anything, and it advertises; a worker reports what goes wrong.
        _log.disabled = True

    async def open(self) -> None:
        """Create the engine's tables if they do not exist; raises `StoreError` within a bound."""
        await _bounded(self._connect, self._where)

    def _connect(self) -> None:
        self._database = _database_at(self._address)
        DBOS.migrate(self._database.url, schema=_SCHEMA)
        self._client = DBOSClient(
            system_database_url=self._database.url,
            serializer=JsonSerializer(),
            application_name=_NAME,
            dbos_system_schema=_SCHEMA,
            system_database_pool_size=2,
        )

    @property
    def _where(self) -> str:
        """The database, for errors."""
        if not is_postgres(self._address):
            return f"{os.fspath(self._address)}.durable"
        from toolbus.store.postgres.addresses import parse_address  # noqa: PLC0415 - not for files

        return parse_address(os.fspath(self._address)).label

    @property
    def _opened(self) -> DBOSClient:
        if self._client is None:
            raise RegistrationError("engine", "it is not open; `await engine.open()` first")
        return self._client

    async def start(self, slot: str, workflow: Workflow, queue: QueueLimits) -> None:
        """Run *workflow* for the calls of *queue* as the worker *slot*."""
        await _bounded(partial(self._launch, slot, workflow, queue), self._where)
        self._is_started = True

    def _launch(self, slot: str, workflow: Workflow, queue: QueueLimits) -> None:
        config: DBOSConfig = {
            "name": _NAME,
            "system_database_url": self._database.url,
            "dbos_system_schema": _SCHEMA,
            "sys_db_pool_size": _CONNECTIONS,
            # More would only contend for the interpreter: twice the processor time for a step.
            "max_executor_threads": _CONNECTIONS,
            "executor_id": slot,
            "application_version": self._version,
            "serializer": JsonSerializer(),
            "enable_otlp": False,
        }
        if self._database.connect is not None:
            config["db_engine_kwargs"] = {"creator": self._database.connect}
        DBOS(config=config)
        self._run = self._registered(workflow)
        DBOS.listen_queues([queue.name])
        self._register_queue(queue)  # Before any workflow begins under the limits of before.
        DBOS.launch()
        # A queued workflow has no version, and is run by workers of the latest one alone. Without
        # this, a return to an older version would leave all of them in the queue.
        DBOS.set_latest_application_version(self._version)

    def _register_queue(self, queue: QueueLimits) -> None:
        rate, total = queue.rate, queue.running

        def at_most(limit: int | None) -> int | None:
            # The engine refuses a limit that is above that of all workers.
            return limit if limit is None or total is None else min(limit, total)

        self._opened.register_queue(
            queue.name,
            global_concurrency=total,
            worker_concurrency=at_most(queue.running_per_worker),
            partition_concurrency=at_most(queue.running_per_tenant),
            limiter=None if rate is None else {"limit": rate.starts, "period": rate.seconds},
            polling_interval_sec=queue.poll_seconds,
        )

    def _registered(self, workflow: Workflow) -> Callable[..., Coroutine[Any, Any, str]]:
        @DBOS.workflow(name=_NAME)
        async def run(*arguments: str) -> str:
            steps = DbosSteps(self)

            async def body() -> str:
                if arguments[:1] != (_BELOW,):
                    return await workflow(steps, arguments)
                # After a kill it has no caller any more, and nothing to do.
                work = self._below.pop(arguments[1], None)
                return "gone" if work is None else await work(steps)

            try:
                # A step around all others, since those can be cancelled in their midst.
                return await DBOS.run_step_async({"name": "run", "preemptible": True}, body)
            except Exception as error:  # noqa: BLE001 - its text may quote a session
                raise RuntimeError(type(error).__name__) from None

        return run

    async def run_below(self, work: Callable[[Steps], Awaitable[str]]) -> str:
        """Run *work* as a workflow below the present one."""
        key = new_id()
        self._below[key] = work
        handle = await DBOS.start_workflow_async(self._run, _BELOW, key)
        word: str = await handle.get_result()
        return word

    async def enqueue(self, call: WorkflowCall) -> None:
        """Queue a workflow; a second call with the same id does nothing."""
        options: EnqueueOptions = {
            "workflow_name": _NAME,
            "queue_name": call.queue,
            "workflow_id": call.id,
        }
        if call.partition:
            options["queue_partition_key"] = call.partition
        await self._opened.enqueue_async(options, *call.arguments)

    async def cancel(self, workflow_id: str) -> None:
        """Cancel an open workflow and its children, on any worker."""
        await self._opened.cancel_workflow_async(workflow_id, cancel_children=True)

    async def workflows(
        self, states: Sequence[WorkflowState] = OPEN, *, queue: str = "", limit: int = 1000
    ) -> tuple[WorkflowInfo, ...]:
        """Return the oldest workflows in *states* but children, the oldest first."""
        listed = await self._opened.list_workflows_async(
            status=[name for name, state in _STATES.items() if state in states],
            queue_name=queue or None,
            has_parent=False,
            limit=limit,
        )
        return tuple([_info(each) for each in listed])

    async def stop(self, seconds: float) -> None:
        """Let workflows leave for so many seconds, cancel the rest; both stay as running."""
        self.is_stopping.set()
        await self._destroy(round(seconds))

    async def close(self) -> None:
        """Release the connections; running workflows are left as after a kill."""
        if self._is_started:
            await self._destroy(0)
        if self._client is not None:
            await asyncio.to_thread(self._client.destroy)
            self._client = None

    async def _destroy(self, seconds: int) -> None:
        self._is_started = False
        await asyncio.to_thread(
            DBOS.destroy, destroy_registry=True, workflow_completion_timeout_sec=seconds
        )


def _info(status: WorkflowStatus) -> WorkflowInfo:
    arguments = status.input["args"] if status.input else ()
    return WorkflowInfo(
        id=status.workflow_id,
        arguments=tuple(arguments),
        queue=status.queue_name or "",
        state=_STATES[status.status],
        slot=status.executor_id or "",
        version=status.app_version or "",
        word=status.output or "",
    )


def _type_name(value: Any) -> dict[str, str]:
    """Return an exception as JSON; raises `TypeError` for any other value."""
    if isinstance(value, BaseException):
        return {"exception": type(value).__name__}
    raise TypeError(type(value).__name__)


class _Database(NamedTuple):
    """The *url* of a database for SQLAlchemy, and how to *connect* to a server."""

    url: str
    connect: Callable[[], Any] | None = None


def _database_at(address: str | os.PathLike[str]) -> _Database:
    """Return the database for the store at *address*, created beside an SQLite file."""
    if not is_postgres(address):
        path = Path(f"{os.fspath(address)}.durable").absolute()
        # Readable by its owner only; SQLite's further files have the rights of this one.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        return _Database(f"sqlite:///{path}")
    from toolbus.store.postgres.addresses import parse_address  # noqa: PLC0415 - not for files
    from toolbus.store.postgres.driver import psycopg  # noqa: PLC0415 - as above

    place = psycopg.conninfo.make_conninfo(
        parse_address(os.fspath(address)).conninfo, connect_timeout=10
    )

    def connect() -> Any:
        try:
            return psycopg.connect(place)
        except psycopg.OperationalError as error:
            # The engine tries again after any failed connection, by a socket as well.
            raise psycopg.errors.SqlclientUnableToEstablishSqlconnection from error

    with psycopg.connect(place) as connection:
        name = connection.info.dbname  # A service, a variable or the user may name it.
    words = psycopg.conninfo.conninfo_to_dict(place).items()
    query = {key: str(value) for key, value in words if key != "dbname"}
    url = URL.create("postgresql+psycopg", database=name, query=query)
    return _Database(url.render_as_string(hide_password=False), connect)


async def _bounded(work: Callable[[], None], where: str) -> None:
    """Do *work* in a thread; raises `StoreError` about *where* if it fails, or lasts too long."""
    try:
        await asyncio.wait_for(asyncio.to_thread(work), START_SECONDS)
    except TimeoutError:
        reason = f"the workflow engine did not start in {START_SECONDS:.0f} s"
        raise StoreError(where, reason) from None
    except Exception as error:
        kind = type(getattr(error, "orig", None) or error).__name__  # That of SQLAlchemy says less.
        reason = f"the workflow engine cannot start: {kind}"
        raise StoreError(where, reason) from error
