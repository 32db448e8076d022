"""The store in Python: the cases of all languages, threads, forks, coroutines, and processes that end."""

import asyncio
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import datetime, timedelta, timezone
from decimal import Decimal

from forebay.records import Records
from forebay.store import StoreError, open_store

FOLDER = pathlib.Path(__file__).resolve().parents[1]
CASES = FOLDER.parents[1] / "protocol" / "vectors" / "store" / "cases.json"


class Thrown(Exception):
    pass


def bounds(step):
    return {("from_" if name == "from" else name): value for name, value in step.get("range", {}).items()}


class StoreTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = self._folder.name
        self.store = open_store(self.folder)
        self.addCleanup(self.store.close)

    def refused(self, code, work):
        with self.assertRaises(StoreError) as caught:
            work()
        self.assertEqual(caught.exception.code, code, caught.exception)
        return str(caught.exception)

    def run_step(self, store, step):
        def node():
            return store.node(*step["at"])

        def transaction():
            def inner():
                with store.transaction():
                    for each in step["steps"]:
                        self.run_step(store, each)
                    if step.get("throws"):
                        raise Thrown

            if step.get("throws"):
                self.assertRaises(Thrown, inner)
            else:
                inner()

        def snapshot():
            with store.snapshot():
                for each in step["steps"]:
                    self.run_step(store, each)

        doing = {
            "get": lambda: node().get(),
            "set": lambda: node().set(step["with"]),
            "document": lambda: node().document,
            "json": lambda: node().json,
            "setJson": lambda: setattr(node(), "json", step["with"]),
            "keys": lambda: list(node().keys(**bounds(step))),
            "items": lambda: [list(item) for item in node().items(**bounds(step))],
            "leaves": lambda: [list(leaf) for leaf in node().leaves()],
            "isArray": lambda: node().is_array,
            "delete": lambda: node().delete(),
            "defined": lambda: node().defined(),
            "next": lambda: node().next(step.get("with")),
            "previous": lambda: node().previous(step.get("with")),
            "ownValue": lambda: node().own_value,
            "layOver": lambda: node().lay_over(step["with"]),
            "patch": lambda: node().patch(step["with"]),
            "merge": lambda: node().merge(store.node(*step["from"])),
            "increment": lambda: node().increment(step.get("with", 1)),
            "transaction": transaction,
            "snapshot": snapshot,
            "defineIndex": lambda: store.define_index(step["index"], node(), step["fields"], unique=step.get("unique", False)),
            "dropIndex": lambda: store.drop_index(step["index"]),
            "query": lambda: [record.key for record in store.query(step["index"], **bounds(step))],
        }[step["do"]]
        if "fails" in step:
            self.refused(step["fails"], doing)
        else:
            self.assertEqual(doing(), step.get("gives"), step)

    def test_it_does_what_it_does_in_every_language(self):
        for case in json.loads(CASES.read_text()):
            with self.subTest(case["name"]), tempfile.TemporaryDirectory() as folder:
                store = open_store(folder)
                for step in case["steps"]:
                    self.run_step(store, step)
                store.close()

    def test_numbers_keep_their_digits_and_their_types(self):
        node = self.store.node("A", 1)
        for value in (9_007_199_254_740_993, -(10**30), 0, 1.5, 1e300, 5e-324, True, None, ""):
            node.set(value)
            self.assertEqual((node.get(), type(node.get())), (value, type(value)))
        node.set(0)
        self.assertEqual((node.increment(Decimal("0.10")), node.increment(0.2), node.increment(10**20)), (Decimal("0.1"), 0.3, 100000000000000000000.3))
        self.assertIs(type(self.store.node("A", 2).increment()), int)

    def test_what_json_cannot_say_is_refused_before_anything_is_written(self):
        circle = []
        circle.append(circle)
        for value in (float("nan"), float("inf"), object(), {1, 2}, b"bytes", circle, {"deep": object()}):
            self.refused("not_json", lambda: self.store.set("A", 1, value))
        self.refused("not_text", lambda: self.store.set("A", 1, "\ud800"))
        self.refused("not_text", lambda: self.store.get("A", "\ud800"))
        self.refused("key", lambda: self.store.get("A", "x" * 5_000))
        self.refused("key", lambda: self.store.get(7))
        self.assertEqual(self.store.node("A").defined(), 0)
        day = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
        self.store.set("A", 1, {"at": day, "pair": (1, 2)})
        self.assertEqual(self.store.get("A", 1), {"at": "2026-01-02T03:04:05+00:00", "pair": [1, 2]})

    def test_long_values_and_long_pages(self):
        long = "\xe9" * 300_000
        self.store.set("A", 1, long)
        self.assertEqual(self.store.get("A", 1), long)
        with self.store.transaction():
            for number in range(3_000):
                self.store.set("B", number, {"n": number, "text": "x" * 1_000})
        self.assertEqual([int(key) for key in self.store.node("B").keys()], list(range(3_000)))
        self.assertEqual([value["n"] for value in self.store.node("B").values(reverse=True, limit=2_500)], list(range(2_999, 499, -1)))
        self.assertEqual(sum(1 for _ in self.store.node("B").leaves()), 6_000)
        self.assertEqual(list(self.store.globals()), ["A", "B"])

    def test_times_at_which_nodes_end(self):
        node = self.store.node("A", 1)
        self.assertFalse(node.expire(datetime.now(timezone.utc)))
        node.set(1)
        at = (datetime.now(timezone.utc) + timedelta(days=1)).replace(microsecond=0)
        self.assertTrue(node.expire(at))
        self.assertEqual(node.expires, at)
        self.assertTrue(node.expire(None))
        self.assertIsNone(node.expires)

    def test_a_transaction_of_a_function_and_of_one_call(self):
        @self.store.transaction(durability="relaxed")
        def add(by, *, fails=False):
            """Adds."""
            total = self.store.node("A").increment(by)
            if fails:
                raise Thrown
            return total

        self.assertEqual((add(2), add(3), add.__doc__), (2, 5, "Adds."))
        self.assertRaises(Thrown, add, 1, fails=True)
        self.assertEqual(self.store.transaction(lambda: add(1) + add(1)), 13)
        self.assertEqual(self.store.get("A"), 7)

        async def coroutine():
            pass

        def generator():
            yield

        for work in (coroutine, generator):
            self.refused("async_transaction", lambda: self.store.transaction()(work))
        self.refused("unsupported", lambda: self.store.transaction(durability="often"))

    def test_threads_share_the_store_and_have_their_own_transactions(self):
        def work():
            for _ in range(200):
                with self.store.transaction():
                    count = self.store.get("A", "count", default=0)
                    self.store.set("A", "count", count + 1)

        with self.store.transaction():
            # Nobody sees it, and nobody else writes.
            self.store.set("A", "other", 1)
            seen = []
            reader = threading.Thread(target=lambda: seen.append(self.store.get("A", "other")))
            reader.start()
            reader.join()
            self.assertEqual(seen, [None])
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.store.get("A", "count"), 800)

    def test_a_thread_that_ends_in_a_transaction_holds_up_nobody(self):
        def work():
            self.store.transaction().__enter__()
            self.store.set("A", 1, "lost")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.store.set("A", 2, "kept")
        self.assertEqual(list(self.store.node("A").keys()), ["2"])

    def test_locks_are_held_by_threads(self):
        node = self.store.node("A", 1)
        self.assertTrue(node.lock())
        got = []
        other = threading.Thread(target=lambda: got.append((node.at("x").lock(0), node.at("x").lock(0.05), self.store.node("B").lock(0))))
        other.start()
        other.join()
        self.assertEqual(got, [(False, False, True)])
        self.assertTrue(node.unlock())
        self.assertFalse(node.unlock())

    def test_a_coroutine_that_awaits_in_a_transaction_loses_it(self):
        async def awaiting():
            with self.store.transaction():
                self.store.set("A", 1, "lost")
                await asyncio.sleep(0)
                self.store.set("A", 2, "by itself")

        async def quick():
            with self.store.transaction():
                self.store.set("B", 1, "kept")
            self.store.set("B", 2, "kept")

        async def both():
            slow = asyncio.ensure_future(awaiting())
            await asyncio.sleep(0)
            await quick()
            await slow

        self.refused("async_transaction", lambda: asyncio.run(both()))
        self.assertIsNone(self.store.get("A", 1))
        self.assertEqual(list(self.store.node("B").keys()), ["1", "2"])
        asyncio.run(quick())

    def test_a_fork_has_no_store_and_harms_none(self):
        self.store.set("A", 1, 1)
        with self.store.transaction():
            self.store.set("A", 2, 2)
            child = os.fork()
            if child == 0:
                code = 3
                try:
                    self.store.get("A", 1)
                except StoreError as error:
                    code = 0 if error.code == "no_store" else 4
                finally:
                    os._exit(code)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(list(self.store.node("A").items()), [("1", 1), ("2", 2)])

    def test_a_process_that_is_killed_in_a_transaction_leaves_nothing_and_holds_up_nobody(self):
        program = (
            "import os, sys\nfrom forebay.store import open_store\nstore = open_store(sys.argv[1])\nstore.set('A', 'before', 1)\n"
            "with store.transaction():\n    store.set('A', 'lost', 1)\n    print('in', flush=True)\n    sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", program, self.folder]
        for _ in range(3):
            process = subprocess.Popen(command, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.assertEqual(process.stdout.readline(), b"in\n")
            process.kill()
            process.communicate()
            self.store.set("A", "after", 1)
        self.assertEqual(list(self.store.node("A").keys()), ["after", "before"])

    def test_how_it_was_opened_counts(self):
        self.store.set("A", 1, 1)
        self.store.close()
        self.assertEqual(self.store.get("A", 1), 1)
        self.store.close()
        only = open_store(self.folder, read_only=True)
        self.assertEqual(only.get("A", 1), 1)
        self.refused("read_only", lambda: only.set("A", 1, 2))
        only.close()
        self.refused("absent", lambda: open_store(os.path.join(self.folder, "none"), create=False))
        small = open_store(os.path.join(self.folder, "small"), value_bytes_max=100, durability="sync")
        self.refused("value_too_long", lambda: small.set("A", 1, "x" * 200))
        small.close()
        self.assertGreater(self.store.stats().last_commit, 0)
        with self.store.transaction():
            self.refused("busy", self.store.close)

    def test_records_and_tql(self):
        records = Records(self.store)
        first, second = records.create({"kind": "Article", "title": "Sample", "n": 3}), records.create({"kind": "Article", "title": "Other"})
        self.assertEqual(records.read(first), {"kind": "Article", "n": 3, "title": "Sample"})
        self.assertIsNone(records.read(first, "Page"))
        self.assertEqual((records.kind_of(first), records.list("Article"), records.list("Article", after=first, full=True)[0]["id"]), ("Article", [first, second], second))
        self.assertEqual(records.tql({"where": ["EQ", "title", "'Sample"], "select": "$ref"})["results"], [first])
        self.assertTrue(records.patch(first, {"n": None, "title": "New"}))
        self.assertEqual(records.read(first), {"kind": "Article", "title": "New"})
        self.assertTrue(records.update(second, {"kind": "Page"}))
        self.assertEqual((records.delete(second), records.delete(second), records.read(second)), (True, False, None))
        self.refused("tql_syntax", lambda: records.tql("nonsense ("))
        with self.assertRaises(Thrown):
            with self.store.transaction():
                records.create({"kind": "Article"})
                raise Thrown
        self.assertEqual(records.list("Article"), [first])

    def test_an_error_can_be_sent_to_another_process(self):
        error = pickle.loads(pickle.dumps(StoreError("full", "no room")))
        self.assertEqual((error.code, str(error)), ("full", "no room"))


if __name__ == "__main__":
    unittest.main()
