"""The server's side of a link, for tests and benchmarks of the worker program."""

import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

from forebay import _wire as wire

FOLDER = pathlib.Path(__file__).parents[1]
GENERATION = 7
#: Seconds that a test waits for a worker at most.
PATIENCE = 20


class Answer:
    """A RESPONSE frame, decoded."""

    def __init__(self, flags, payload):
        self.flags = flags
        self.status, self.kind, _, self.micros, block = wire.RESPONSE_TABLE.unpack_from(payload)
        pairs = wire.read_pairs(payload, 12, 12 + block)
        self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
        self.body = payload[12 + block :]
        self.whole = flags & wire.END != 0


class Peer:
    """A worker that runs a module's text, or the module `handler`, and its link. `flags` are those of the interpreter."""

    def __init__(
        self, source, *options, concurrency=1, window=262_144, ready=True, without=None, start=None, handler=None, flags=()
    ):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)
        if handler is None:
            handler = self.folder / "app.py"
            handler.write_text(source)
        if start is not None:
            (self.folder / "start.py").write_text(start)
        self.link, theirs = socket.socketpair()
        self.link.settimeout(PATIENCE)
        env = {
            "PATH": os.environ["PATH"],
            "FOREBAY_GENERATION": str(GENERATION),
            "FOREBAY_LINK_FD": str(theirs.fileno()),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Tests of the built server run on uvloop.
            "FOREBAY_LOOP": "asyncio",
        }
        command = [sys.executable, *flags, str(FOLDER / "__main__.py"), *options]
        files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()], cwd=self.folder, **files)
        theirs.close()
        self._received = b""
        self.numbers = 0
        self.hello = json.loads(self.expect(wire.HELLO))
        init = {
            "protocol": 1,
            "pool": "api",
            "worker": 3,
            "handler": str(handler),
            "start": None if start is None else str(self.folder / "start.py"),
            "concurrency": concurrency,
            "window_bytes": window,
            "later": "members that are not known are ignored",
        }
        init.pop(without, None)
        self.send(wire.INIT, json.dumps(init).encode())
        if ready:
            self.expect(wire.READY)

    def send(self, kind, payload=b"", *, flags=0, number=0, slot=0, generation=GENERATION):
        self.link.sendall(wire.frame(kind, flags, generation, number, slot, payload))

    def request(self, path, method="GET", body=b"", *, end=True, headers=(), slot=0, tls=None, **parts):
        """Sends a request; returns the job's number. With `tls`, it tells whether the client speaks that."""
        self.numbers += 1
        headers = [("host", "localhost"), *headers]
        payload = wire.request_payload(method=method, path=path, headers=headers, request_id=f"id-{self.numbers}", body=body, **parts)
        flags = wire.END if end else 0
        if tls is not None:
            flags |= wire.CONNECTION
            payload += bytes((0, 0, tls, 0))
        self.send(wire.REQUEST, payload, flags=flags, number=self.numbers, slot=slot)
        return self.numbers

    def frame(self):
        """The next frame: type, flags, job, payload; None at the end of the link."""
        header = self._exactly(wire.HEADER_BYTES)
        if header is None:
            return None
        length, kind, flags, generation, number, slot = wire.HEADER.unpack(header)
        assert generation == GENERATION, generation
        return kind, flags, number, self._exactly(length)

    def _exactly(self, size):
        while len(self._received) < size:
            data = self.link.recv(65_536)
            if not data:
                return None
            self._received += data
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def expect(self, kind, number=None):
        """The payload of the next frame, which must be of this type and, if given, of this job."""
        found = self.frame()
        assert found is not None, f"the link ended: {self.end()[2]}"
        assert found[0] == kind, found
        assert number in (None, found[2]), found
        return found[3]

    def answer(self, number=None):
        """The next frame, which must be a RESPONSE."""
        found = self.frame()
        assert found is not None, f"the link ended: {self.end()[2]}"
        assert found[0] == wire.RESPONSE, found
        assert number in (None, found[2]), found
        return Answer(found[1], found[3])

    def rest(self, number):
        """The body of a streamed response; None if it was aborted."""
        body = b""
        while True:
            kind, flags, job, payload = self.frame()
            assert job == number, (kind, job)
            if kind == wire.RESET:
                return None
            assert kind == wire.BODY, kind
            body += payload
            if flags & wire.END:
                return body

    def get(self, path, method="GET", **parts):
        """Sends a request and returns its whole response."""
        answer = self.answer(self.request(path, method, **parts))
        if not answer.whole:
            answer.body += self.rest(self.numbers)
        return answer

    def grant(self, number, size):
        self.send(wire.WINDOW, struct.pack("<I", size), number=number)

    def abort(self, number, reason):
        self.send(wire.ABORT, bytes([reason]), number=number)

    def end(self):
        """Waits for the process; returns its exit status and its output."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode(), err.decode()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.link.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._folder.cleanup()
