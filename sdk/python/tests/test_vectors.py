"""The golden frames of protocol/vectors: read and written byte for byte by the code that workers run."""

import json
import mmap
import pathlib
import tempfile
import unittest

from forebay import Request
from forebay import _wire as wire
from forebay._reply import error_reply, is_failure
from forebay._sql.error import SqlError
from forebay.worker.claims import Page

PROBLEMS = pathlib.Path(__file__).parents[3] / "protocol/vectors/sql/problems.json"
LAYOUT = pathlib.Path(__file__).parents[3] / "protocol/vectors/page/layout.json"
VECTORS = sorted((pathlib.Path(__file__).parents[3] / "protocol/vectors").glob("*.json"))


def encoded(frame):
    """The frame as our code writes it from its decoded form."""
    payload = frame["payload"]
    place = (frame["generation"], frame["job"], frame["slot"])
    if frame["type"] in (wire.RESPONSE, wire.UPGRADE):
        headers = wire.header_block(map(tuple, payload["headers"]))
        parts = (payload["status"], payload["content"], payload["run_us"], headers, bytes.fromhex(payload["body_hex"]))
        return wire.response(frame["flags"], *place, *parts, frame_type=frame["type"])
    return wire.frame(frame["type"], frame["flags"], *place, payload_bytes(frame["type"], payload))


def payload_bytes(kind, payload):
    if kind == wire.REQUEST:
        text = {name: payload[name] for name in ("remaining_ms", "method", "path", "query", "route", "peer")}
        pairs = {name: [tuple(pair) for pair in payload[name]] for name in ("params", "headers")}
        # What only workers get that ask for it, as those of Python do not.
        connection = payload.get("connection")
        behind = connection["port"].to_bytes(2, "little") + bytes([connection["tls"], 0]) if connection else b""
        identity = payload.get("identity", "")
        body = bytes.fromhex(payload["body_hex"]) + behind
        return wire.request_payload(**text, **pairs, request_id=payload["id"], identity=identity, body=body)
    if kind == wire.WINDOW:
        return wire.U32.pack(payload["bytes"])
    if kind == wire.ABORT:
        return bytes([payload["reason"]])
    if kind in (wire.CALL, wire.RETURN):
        return wire.U32.pack(payload["call"]) + payload["body"].encode()
    if "json_text" in payload:
        return payload["json_text"].encode()
    return bytes.fromhex(payload["bytes_hex"])


def decoded_request(data):
    """A REQUEST as a handler sees it, in the vector's form."""
    request = Request(data, wire.HEADER_BYTES, len(data), None)
    return {
        "remaining_ms": wire.REQUEST_TABLE.unpack_from(data, wire.HEADER_BYTES)[0],
        "method": request.method,
        "path": request.path,
        "query": request.url.partition("?")[2],
        "route": request.route,
        "params": [list(pair) for pair in request.params.items()],
        "headers": [list(pair) for pair in request.headers.pairs],
        "peer": request.ip,
        "id": request.id,
        **({"identity": request._identity.decode()} if request.user else {}),
        "body_hex": request.bytes().hex(),
    }


class VectorsTest(unittest.TestCase):
    def test_frames_are_written_byte_for_byte(self):
        self.assertTrue(VECTORS)
        for file in VECTORS:
            for index, frame in enumerate(json.loads(file.read_text("utf-8"))["frames"]):
                with self.subTest(vector=file.stem, frame=index):
                    self.assertEqual(encoded(frame).hex(), frame["hex"])

    def test_requests_are_read(self):
        seen = 0
        for file in VECTORS:
            for index, frame in enumerate(json.loads(file.read_text("utf-8"))["frames"]):
                if frame["type"] == wire.REQUEST and "connection" not in frame["payload"]:
                    seen += 1
                    with self.subTest(vector=file.stem, frame=index):
                        self.assertEqual(decoded_request(bytes.fromhex(frame["hex"])), frame["payload"])
        self.assertGreater(seen, 0)

    def test_jobs_are_claimed_where_the_page_has_their_words(self):
        layout = json.loads(LAYOUT.read_text("utf-8"))
        with tempfile.TemporaryFile() as file:
            file.truncate(layout["page_bytes"])
            words = memoryview(mmap.mmap(file.fileno(), layout["page_bytes"])).cast("I")
            words[layout["format_offset"] // 4] = layout["format"]
            page = Page(file.fileno())
            slot = layout["slots"] - 1
            at = layout["claims_offset"] // 4 + slot
            for word in layout["claim_words"]:
                with self.subTest(job=word["job"]):
                    words[at] = word["offered"]
                    self.assertTrue(page.claim(word["job"], slot))
                    self.assertEqual(words[at], word["claimed"])
                    words[at] = word["revoked"]
                    self.assertFalse(page.claim(word["job"], slot))

    def test_clients_are_told_of_failures_of_databases_as_routes_tell_of_them(self):
        for vector in json.loads(PROBLEMS.read_text("utf-8")):
            with self.subTest(error=vector["error"]["message"]):
                error = SqlError(**vector["error"])
                reply = error_reply(error, "r")
                expected = vector["problem"]
                told = json.loads(reply.body)
                del told["title"]
                self.assertEqual(told, {"type": "about:blank", "request_id": "r", **expected})
                self.assertEqual(reply.status, expected["status"])
                self.assertEqual(dict(reply.headers).get("retry-after"), "1" if reply.status == 503 else None)
                self.assertEqual(is_failure(error), vector["is_failure"])
