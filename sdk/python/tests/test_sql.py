"""Operations that `forebay.sql` sends to the server: nested transactions, abandoned loops, cancelled coroutines."""

import asyncio
import gc
import json
import signal
import socket
import threading
import time
import unittest
from unittest import mock

from forebay import _calls
from forebay import _wire as wire
from forebay._calls import JOB, Calls, CallSocket
from forebay._context import Interrupted
from forebay.sql import SqlError, sql
from forebay.worker.blocking import BlockingEngine

from .peer import GENERATION, PATIENCE

main = sql.main
WITHIN = "a transaction within this one has not ended"


class Server:
    """A server's side of databases. Operations whose name is in `held` are answered when they are released."""

    def __init__(self):
        self.operations = []
        #: Slot and number of the job of each operation.
        self.jobs = []
        #: Open transactions and the like, by number.
        self.open = {}
        self.held = set()
        self.failing = set()
        self._held_answers = []
        self._last = 0
        self._came = threading.Condition()

    @property
    def names(self):
        return [operation["op"] for operation in self.operations]

    def hear(self, operation, job, answer):
        """Handles an operation; `answer` sends its outcome."""
        with self._came:
            self.operations.append(operation)
            self.jobs.append(job)
            self._came.notify_all()
        if operation["op"] in self.held:
            self._held_answers.append((operation, answer))
        else:
            answer(self._outcome(operation))

    def wait_for(self, name):
        """Waits, in a thread, until an operation arrives."""
        with self._came:
            assert self._came.wait_for(lambda: name in self.names, PATIENCE), self.operations

    def let_go(self):
        answers, self._held_answers = self._held_answers, []
        self.held = set()
        for operation, answer in answers:
            answer(self._outcome(operation))

    def _outcome(self, operation):
        name = operation["op"]
        if name in self.failing:
            return {"error": {"code": "57014", "message": "cancelled"}}
        if name in ("release", "rollback_to"):
            del self.open[operation["savepoint"]]
        elif name in ("commit", "rollback"):
            del self.open[operation["transaction"]]
        elif name == "close":
            self.open.pop(operation["id"], None)
        elif name == "copy_done":
            del self.open[operation["copy"]]
            return {"count": 1}
        more = {"rows": [{"i": 1}], "count": 1}
        if name == "statements":
            return [more] * len(operation["statements"])
        if name == "fetch":
            return {"cursor": operation["cursor"], **more}
        if name == "copy_read":
            return {"text": "1\n"}
        kinds = {"begin": "transaction", "savepoint": "savepoint", "cursor": "cursor", "listen": "listen"}
        kinds.update(copy_in="copy", copy_out="copy")
        if name not in kinds:
            return {}
        self._last += 1
        self.open[self._last] = name
        return {kinds[name]: self._last, **more}


def calls_in(data):
    """The calls of frames that each carry one: number, operation and job."""
    at = 0
    while at < len(data):
        length, kind, flags, _, job, slot = wire.HEADER.unpack_from(data, at)
        assert (kind, flags) == (wire.CALL, wire.END), (kind, flags)
        start = at + wire.HEADER_BYTES
        at = start + length
        yield wire.U32.unpack_from(data, start)[0], json.loads(data[start + wire.U32.size : at]), (slot, job)


def returned(number, outcome):
    return wire.U32.pack(number) + json.dumps(outcome).encode()


class Link:
    """The link of a worker on an event loop."""

    def __init__(self, server, calls):
        self.loop = asyncio.get_running_loop()
        self._server = server
        self._calls = calls
        calls.on_loop(self)

    def write(self, data):
        for number, operation, job in calls_in(data):
            self._server.hear(operation, job, lambda outcome, number=number: self._answer(number, outcome))

    def _answer(self, number, outcome):
        data = returned(number, outcome)
        self._calls.handle_return(wire.END, data, 0, len(data))


class SqlTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.server = Server()
        ours, self._theirs = socket.socketpair()
        self.socket = CallSocket(ours.detach(), GENERATION)
        self.calls = Calls("api", ["main"], GENERATION, self.socket)
        patch = mock.patch.object(_calls, "_calls_or_reason", self.calls)
        patch.start()
        self.addCleanup(patch.stop)
        self._server_thread = threading.Thread(target=self._serve, daemon=True)
        self._server_thread.start()
        self.addCleanup(self._close)

    def _close(self):
        # Calls that still wait for an answer get none.
        self._theirs.shutdown(socket.SHUT_RDWR)
        self._server_thread.join(PATIENCE)
        self._theirs.close()
        self.socket.close()

    def _serve(self):
        """Answers calls on the call socket."""
        while True:
            data = self._theirs.recv(65_536)
            if not data:
                return
            for number, operation, job in calls_in(data):
                self.server.hear(operation, job, lambda outcome, number=number: self._answer(number, outcome))

    def _answer(self, number, outcome):
        self._theirs.sendall(wire.frame(wire.RETURN, wire.END, GENERATION, 0, 0, returned(number, outcome)))

    def on_loop(self):
        return Link(self.server, self.calls)

    async def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, self.server.operations)
            await asyncio.sleep(0)

    async def heard(self, name):
        await self.until(lambda: name in self.server.names)

    def run_in_thread(self, work):
        """Runs a function that may block in a thread; returns its result."""
        results = []
        thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        self.assertFalse(thread.is_alive(), "it stands still")
        return results[0]


class SavepointsTest(SqlTest):
    async def test_what_is_asked_of_a_transaction_while_a_savepoint_of_it_is_opened_is_refused(self):
        self.on_loop()

        async def part(t):
            async with t.atx() as u:
                await u.aquery("insert a")
                raise KeyError

        async with main.atx() as t:
            results = await asyncio.gather(part(t), t.aquery("insert b"), return_exceptions=True)
            self.assertIsInstance(results[0], KeyError)
            self.assertIsInstance(results[1], TypeError)
            self.assertIn(WITHIN, str(results[1]))
            await t.aquery("insert c")
        texts = [operation["statements"][0][0] for operation in self.server.operations if operation["op"] == "statements"]
        self.assertEqual(texts, ["insert a", "insert c"])
        self.assertEqual(self.server.names, ["begin", "savepoint", "statements", "rollback_to", "statements", "commit"])

    async def test_of_two_savepoints_at_a_time_the_second_is_not_opened(self):
        self.on_loop()

        async def part(t):
            async with t.atx() as u:
                await u.aquery("select 1")

        async with main.atx() as t:
            results = await asyncio.gather(part(t), part(t), return_exceptions=True)
            self.assertIsNone(results[0])
            self.assertIsInstance(results[1], TypeError)
        self.assertEqual(self.server.names, ["begin", "savepoint", "statements", "release", "commit"])

    async def test_nothing_is_asked_of_a_transaction_before_a_savepoint_of_it_is_gone(self):
        self.on_loop()

        async def part(t):
            async with t.atx():
                self.server.held = {"release"}

        async with main.atx() as t:
            task = asyncio.ensure_future(part(t))
            await self.heard("release")
            with self.assertRaisesRegex(TypeError, WITHIN):
                await t.aquery("select 1")
            self.server.let_go()
            await task
            await t.aquery("select 1")

    async def test_a_transaction_goes_on_after_a_savepoint_that_could_not_be_opened(self):
        self.on_loop()
        self.server.failing = {"savepoint"}
        async with main.atx() as t:
            with self.assertRaises(SqlError):
                async with t.atx():
                    self.fail("there is none")
            self.assertEqual(await t.avalue("select 1"), 1)

    def test_functions_that_wait_go_on_after_it_too(self):
        self.server.failing = {"savepoint"}
        with main.tx() as t:
            with self.assertRaises(SqlError):
                with t.tx():
                    self.fail("there is none")
            self.assertEqual(t.value("select 1"), 1)


class CollectedTest(SqlTest):
    """An abandoned loop ends its statement when the garbage collector runs."""

    def leave(self, rows):
        """Leaves a loop over the rows after the first, in a reference cycle."""
        next(rows)
        cycle = [rows]
        cycle.append(cycle)

    def collect_at_each_read(self):
        gc.disable()
        self.addCleanup(gc.enable)
        read = self.socket._read

        def collecting(size):
            gc.collect()
            return read(size)

        self.socket._read = collecting

    def test_it_may_be_collected_in_the_middle_of_another_call(self):
        for open_one in (lambda: main.cursor("select"), lambda: main.copy_out("copy")):
            with self.subTest(open_one):
                self.collect_at_each_read()

                def work(open_one=open_one):
                    JOB.set((2, 7))
                    self.leave(open_one())
                    JOB.set((3, 8))
                    return main.value("select 1")

                self.assertEqual(self.run_in_thread(work), 1)
                self.assertEqual(self.server.names[-2:], ["statements", "close"])
                self.assertEqual(self.server.jobs[-2:], [(3, 8), (2, 7)])
                self.assertEqual(self.server.open, {})

    def test_it_does_not_wait_for_another_thread_that_asks_for_something(self):
        rows = main.cursor("select")
        next(rows)
        self.server.held = {"statements"}
        slow = threading.Thread(target=lambda: main.query("select"), daemon=True)
        slow.start()
        self.server.wait_for("statements")
        self.run_in_thread(rows.close)
        self.assertEqual(self.server.names, ["cursor", "statements"])

        def after():
            self.server.let_go()
            return main.row("select 1")

        self.assertEqual(self.run_in_thread(after), {"i": 1})
        slow.join(PATIENCE)
        self.assertEqual(self.server.names, ["cursor", "statements", "close", "statements"])

    async def test_a_thread_beside_a_loop_does_not_wait_for_its_end(self):
        self.on_loop()
        rows = main.cursor("select")
        await asyncio.get_running_loop().run_in_executor(None, next, rows)
        # The loop is blocked meanwhile.
        self.run_in_thread(rows.close)
        await self.until(lambda: not self.server.open)
        self.assertEqual(self.server.names, ["cursor", "close"])

    def test_a_signal_that_came_before_it_still_interrupts_the_handler(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            engine = BlockingEngine(ours, GENERATION, 1, False, None)
            engine._running = mock.Mock(gone=1)
            engine._in_handler = True

            def work():
                engine._on_sigterm(signal.SIGTERM, None)
                engine.uninterrupted(lambda: None)
                return "done"

            with self.assertRaises(Interrupted):
                engine.uninterrupted(work)


async def first(rows):
    async for row in rows:
        return row


async def nothing(t):
    pass


#: Operations that open something.
OPENING = {
    "begin": lambda: main.atx(nothing),
    "cursor": lambda: first(main.acursor("select")),
    "copy_in": lambda: main.acopy_in("copy", "1\n"),
    "copy_out": lambda: first(main.acopy_out("copy")),
    "listen": lambda: main.listen("orders").ready(),
}


class CancelledTest(SqlTest):
    """A cancelled coroutine leaves nothing open."""

    async def cancelled(self, task):
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)

    async def test_what_is_opened_for_nobody_is_ended_once_it_is_there(self):
        # First over the call socket, as in a loop made by a handler, and then over the link.
        for way in ("call socket", "link"):
            if way == "link":
                self.on_loop()
            for name, work in OPENING.items():
                with self.subTest(name, way=way):
                    self.server.operations.clear()
                    self.server.held = {name}
                    task = asyncio.ensure_future(work())
                    await self.heard(name)
                    await self.cancelled(task)
                    self.assertEqual(self.server.names, [name])
                    self.server.let_go()
                    end = "rollback" if name == "begin" else "close"
                    await self.heard(end)
                    await self.until(lambda: not self.server.open)
                    self.assertEqual(self.server.names, [name, end])

    async def test_so_is_what_was_opened_in_the_turn_of_the_loop_in_which_it_is_cancelled(self):
        self.on_loop()
        for name, work in OPENING.items():
            with self.subTest(name):
                self.server.held = {name}
                task = asyncio.ensure_future(work())
                await self.heard(name)
                self.server.let_go()
                await self.cancelled(task)
                await self.until(lambda: not self.server.open)
                self.server.operations.clear()

    async def test_what_could_not_be_opened_is_not_ended(self):
        self.on_loop()
        self.server.held = self.server.failing = {"begin"}
        task = asyncio.ensure_future(main.atx(nothing))
        await self.heard("begin")
        await self.cancelled(task)
        self.server.let_go()
        await main.aquery("select 1")
        self.assertEqual(self.server.names, ["begin", "statements"])

    async def test_what_is_open_is_ended_when_the_next_part_of_it_is_not_waited_for(self):
        self.on_loop()

        async def all_of(rows):
            async for _ in rows:
                pass

        parts = {
            "fetch": lambda: all_of(main.acursor("select")),
            "copy_read": lambda: all_of(main.acopy_out("copy")),
            "copy_send": lambda: main.acopy_in("copy", "1\n"),
        }
        for name, work in parts.items():
            with self.subTest(name):
                self.server.held = {name}
                task = asyncio.ensure_future(work())
                await self.heard(name)
                await self.cancelled(task)
                await self.heard("close")
                self.assertEqual(self.server.open, {})
                self.server.let_go()
                self.server.operations.clear()

    async def test_a_cursor_that_may_not_go_on_is_ended(self):
        self.on_loop()
        async with main.atx() as t:
            rows = t.acursor("select")
            await rows.__anext__()
            async with t.atx():
                with self.assertRaisesRegex(TypeError, WITHIN):
                    await rows.__anext__()
        self.assertIn("close", self.server.names)

    async def test_in_a_transaction_it_is_ended_before_anything_else_is_asked(self):
        self.on_loop()

        async def savepoint(t):
            async with t.atx():
                self.fail("nobody waits for it")

        works = {
            "savepoint": savepoint,
            "copy_in": lambda t: t.acopy_in("copy", "1\n"),
            "copy_out": lambda t: first(t.acopy_out("copy")),
            "cursor": lambda t: first(t.acursor("select")),
        }
        for name, work in works.items():
            with self.subTest(name):
                self.server.operations.clear()
                async with main.atx() as t:
                    self.server.held = {name}
                    task = asyncio.ensure_future(work(t))
                    await self.heard(name)
                    for _ in range(3):
                        # Any number of times.
                        task.cancel()
                        await asyncio.sleep(0)
                    self.assertFalse(task.done())
                    self.server.let_go()
                    await self.cancelled(task)
                    self.assertEqual(await t.avalue("select 1"), 1)
                end = "release" if name == "savepoint" else "close"
                self.assertEqual(self.server.names, ["begin", name, end, "statements", "commit"])
                self.assertEqual(self.server.open, {})

    async def test_a_transaction_is_undone_although_who_undoes_it_is_cancelled_again(self):
        self.on_loop()

        async def work(t):
            async with t.atx() as u:
                asyncio.ensure_future(u.aquery("select 1"))
                await asyncio.get_running_loop().create_future()

        self.server.held = {"statements"}
        task = asyncio.ensure_future(main.atx(work))
        await self.heard("statements")
        task.cancel()
        # It waits for operations in progress.
        await asyncio.sleep(0)
        await self.cancelled(task)
        self.assertEqual(self.server.names[-2:], ["rollback_to", "rollback"])
        self.server.let_go()
        await self.until(lambda: not self.server.open)
