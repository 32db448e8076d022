"""Long WSGI responses, from a pool of one worker and from gunicorn with one sync worker, in turns.

    python bench/responses.py [--forebay ../../target/dist/forebay] [--rounds 5]

Runs with a Python that has Flask and gunicorn (`make bench/peers/.venv/installed`). For each response it prints the median of the wall time and
of the CPU time, both of all the server's processes, and the median of the ratios of neighbouring requests with their range. Every body is
checked for its length. The client is curl.
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
PIECES, FILE_BYTES = 200_000, 200_000_000

#: What both servers serve.
APPLICATION = f'''
from flask import Flask, Response, send_file

app = Flask(__name__)


@app.get("/pieces")
def pieces():
    return Response((b"%07d\\n" % number for number in range({PIECES})), mimetype="text/plain")


@app.get("/file")
def file():
    return send_file("file.bin")
'''
SIZES = {"/pieces": PIECES * 8, "/file": FILE_BYTES}
CONFIGURATION = """
[pool.app]
handler = "application.py"
python = "{python}"
workers = {{ min = 1, max = 1 }}
[[route]]
path = "/*"
pool = "app"
"""


def cpu_seconds(leader):
    """CPU time of all threads of a session's processes, in seconds."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                total += sum(int(task.read_text().split()[0]) for task in stat.parent.glob("task/*/schedstat"))
    return total / 1e9


class Server:
    def __init__(self, name, command, folder, port):
        self.name = name
        self.port = port
        self.process = subprocess.Popen(command, cwd=folder, start_new_session=True)
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        sys.exit(f"{name} has ended")

    def get(self, path):
        """Wall and CPU seconds of one request."""
        before = cpu_seconds(self.process.pid)
        curl = ["curl", "-sS", "-o", os.devnull, "-w", "%{size_download} %{time_total} %{http_code}", f"http://127.0.0.1:{self.port}{path}"]
        size, wall, status = subprocess.run(curl, check=True, capture_output=True, text=True).stdout.split()
        assert (int(size), status) == (SIZES[path], "200"), f"{self.name} sent {size} bytes of {path} with status {status}"
        return float(wall), cpu_seconds(self.process.pid) - before

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--forebay", default=FOLDER / "../../../target/dist/forebay", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "application.py").write_text(APPLICATION)
        (folder / "forebay.toml").write_text(CONFIGURATION.format(python=sys.executable))
        (folder / "file.bin").write_bytes(os.urandom(1_000_000) * (FILE_BYTES // 1_000_000))
        ports = free_port(), free_port()
        ours = [options.forebay.resolve(), "serve", "-c", "forebay.toml", "--listen", f"127.0.0.1:{ports[0]}", "--admin", "off"]
        gunicorn = [sys.executable, "-m", "gunicorn.app.wsgiapp", "--workers", "1", "--log-level", "warning", "--bind", f"127.0.0.1:{ports[1]}", "application:app"]
        servers = [Server("forebay", ours, folder, ports[0]), Server("gunicorn", gunicorn, folder, ports[1])]
        try:
            for path in SIZES:
                for server in servers:
                    server.get(path)
                runs = [[server.get(path) for server in servers[:: 1 - 2 * (number % 2)]][:: 1 - 2 * (number % 2)] for number in range(options.rounds)]
                print(re.sub("^/", "", path))
                for at, what in enumerate(("wall", "CPU")):
                    mine, theirs = ([run[server][at] for run in runs] for server in (0, 1))
                    ratios = sorted(b / a for a, b in zip(mine, theirs))
                    print(
                        f"  {what:4} forebay {statistics.median(mine):6.3f} s, gunicorn {statistics.median(theirs):6.3f} s, gunicorn : forebay "
                        f"{statistics.median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                    )
        finally:
            for server in servers:
                server.end()


if __name__ == "__main__":
    main()
