# A handler for the tests of Python pools. As in toolbox.mjs, a file in the configuration's folder is a gate that opens when the test
# writes it, and `ran` holds a line for everything that has happened.
import os
import subprocess
import time

from forebay import App, HttpError, json, reply

app = App()


def note(line):
    with open("ran", "a") as ran:
        ran.write(line + "\n")


@app.on_start
def started(ctx):
    ctx.state.served = 0
    note(f"start {ctx.worker.pid}")


@app.on_stop
def stopped(ctx):
    note(f"stop {ctx.worker.pid}")


@app.get("/pid")
def pid():
    return str(os.getpid())


@app.post("/echo")
def echo(request):
    return reply(request.bytes(), headers={"content-type": request.headers.get("content-type", "application/octet-stream")})


@app.post("/length")
def length(request):
    return sum(len(piece) for piece in request.stream())


@app.get("/hold/:gate/:name")
def hold(request):
    name, gate = request.params["name"], request.params["gate"]
    note(f"begin {name}")
    while not os.path.exists(gate):
        time.sleep(0.002)
    note(f"end {name}")
    return f"{name} {os.getpid()}"


@app.get("/spin")
def spin():
    note("begin spin")
    while True:
        pass


# The loop looks whether anybody still waits, as a long computation would.
@app.get("/patient")
def patient(request, ctx):
    note("begin patient")
    while not ctx.aborted:
        pass
    note("abort patient")


# The signal that ends the worker gets it out of the wait.
@app.get("/sleep")
def sleep():
    note("begin sleep")
    try:
        time.sleep(1000)
    finally:
        note("cleaned up")


@app.get("/stubborn")
def stubborn():
    note("begin stubborn")
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            note("ignored")


@app.get("/exit/:code")
def leave(request):
    os._exit(int(request.params["code"]))


@app.get("/throw")
def throw():
    raise ValueError("a secret about the inside")


@app.get("/error")
def error():
    raise HttpError(418, "short and stout", headers={"x-tea": "yes"}, extra={"size": "small"})


@app.get("/print")
def output(request, ctx):
    print("printed by the handler")
    os.write(1, b"written to the descriptor\n")
    subprocess.run(["echo", "by a program"])
    ctx.log.warning("logged", number=7)
    return "done"


@app.get("/endless")
def endless():
    def pieces():
        note("begin endless")
        sent = 0
        try:
            while True:
                sent += 16384
                yield b"x" * 16384
        finally:
            note(f"end endless {sent}")

    return pieces()


@app.get("/ticks/:count")
def ticks(request):
    for number in range(int(request.params["count"])):
        yield f"tick {number}\n"
        while not os.path.exists(f"gate{number}"):
            time.sleep(0.002)


@app.get("/broken")
def broken():
    yield "a piece\n"
    raise ValueError("it broke")


@app.get("/count")
def count(request, ctx):
    ctx.state.served += 1
    return json({"served": ctx.state.served, "pool": ctx.worker.pool})


@app.get("/env/:name")
def environment(request):
    return {"value": os.environ.get(request.params["name"]), "cwd": os.getcwd()}


@app.get("/deadline")
def deadline(request, ctx):
    return {"left": ctx.remaining(), "has": ctx.deadline is not None}
