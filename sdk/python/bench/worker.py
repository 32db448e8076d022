"""What one request costs a worker: CPU microseconds of its process, with one request in flight as the server sends them.

    python3 bench/worker.py [--requests 20000] [--profile] FILE[:OBJECT]

`FILE` is an application that answers `GET /`, such as `bench/hello.py` or `bench/flask_hello.py`. With `--profile`, the worker's cProfile
is printed as well; the figures beside it are then those of the profiler.
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, FOLDER)

from forebay import _wire as wire  # noqa: E402

GENERATION = 1
HEADERS = (
    ("host", "127.0.0.1:8080"),
    ("user-agent", "bench"),
    ("accept", "*/*"),
    ("x-request-id", "4f1c2a9b00000001"),
)


def start(handler, profile):
    """A worker and its link, ready for requests."""
    file, _, name = handler.partition(":")
    ours, theirs = socket.socketpair()
    command = [sys.executable, *(["-m", "cProfile", "-s", "tottime"] if profile else []), os.path.join(FOLDER, "__main__.py")]
    if name:
        command.append(f"--object={name}")
    env = {**os.environ, "FOREBAY_GENERATION": str(GENERATION), "FOREBAY_LINK_FD": str(theirs.fileno())}
    worker = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()])
    theirs.close()
    link = ours.makefile("rb")
    assert read(link)[0] == wire.HELLO
    init = {"pool": "bench", "worker": 1, "handler": os.path.abspath(file), "concurrency": 1, "window_bytes": 262144}
    ours.sendall(wire.frame(wire.INIT, 0, GENERATION, 0, 0, json.dumps(init).encode()))
    kind, payload = read(link)
    assert kind == wire.READY, payload
    return worker, ours, link


def read(link):
    header = link.read(wire.HEADER_BYTES)
    length, kind, *_ = wire.HEADER.unpack(header)
    return kind, link.read(length)


def cpu_us(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("handler")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    worker, ours, link = start(options.handler, options.profile)
    payload = wire.request_payload(method="GET", path="/", route="/*", headers=HEADERS, remaining_ms=30_000)

    def run(count):
        for number in range(1, count + 1):
            ours.sendall(wire.frame(wire.REQUEST, wire.END, GENERATION, number, 0, payload))
            kind, answer = read(link)
            status = struct.unpack_from("<H", answer)[0]
            assert (kind, status) == (wire.RESPONSE, 200), answer

    run(1_000)
    before, began = cpu_us(worker.pid), time.perf_counter()
    run(options.requests)
    cpu, wall = cpu_us(worker.pid) - before, (time.perf_counter() - began) * 1e6
    print(f"{options.handler}: {cpu / options.requests:.1f} us of CPU a request in the worker, {wall / options.requests:.1f} us from request to answer")
    ours.sendall(wire.frame(wire.DRAIN, 0, GENERATION, 0, 0))
    worker.wait()


if __name__ == "__main__":
    main()
