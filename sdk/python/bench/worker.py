"""What one request costs a worker: CPU microseconds of its process, with one request in flight as the server sends them.

    python3 bench/worker.py [--requests 20000] [--path /] [--profile] FILE[:OBJECT]

`FILE` is an application that answers `GET /`, such as `bench/hello.py`, or `--path /helloworld ../../bench/peers/servers/flask_hello.py`. With `--profile`,
the worker's cProfile is printed as well; the figures beside it are then those of the profiler.
"""

import argparse
import os
import pathlib
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER))

from forebay import _wire as wire  # noqa: E402
from tests.peer import Peer  # noqa: E402

HEADERS = (
    ("host", "127.0.0.1:8080"),
    ("user-agent", "bench"),
    ("accept", "*/*"),
)


def cpu_us(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("handler")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--path", default="/")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    file, _, name = options.handler.partition(":")
    flags = ["-m", "cProfile", "-s", "tottime"] if options.profile else []
    payload = wire.request_payload(method="GET", path=options.path, route="/*", headers=HEADERS, request_id="4f1c2a9b00000001", remaining_ms=30_000)

    with Peer(None, *([f"--object={name}"] if name else []), handler=pathlib.Path(file).resolve(), flags=flags) as peer:

        def run(count):
            for number in range(1, count + 1):
                peer.send(wire.REQUEST, payload, flags=wire.END, number=number)
                assert peer.answer(number).status == 200

        run(1_000)
        before, began = cpu_us(peer.process.pid), time.perf_counter()
        run(options.requests)
        cpu, wall = cpu_us(peer.process.pid) - before, (time.perf_counter() - began) * 1e6
        print(f"{options.handler}: {cpu / options.requests:.1f} us of CPU a request in the worker, {wall / options.requests:.1f} us from request to answer")
        peer.send(wire.DRAIN)
        print(peer.end()[1], end="")


if __name__ == "__main__":
    main()
