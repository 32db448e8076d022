# An ASGI application for the tests: Starlette and FastAPI as people write them. Gates and notes as in toolbox.py.
import asyncio
import contextlib
import os

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.background import BackgroundTask


def note(line):
    with open("ran", "a") as ran:
        ran.write(line + "\n")


async def gate(name):
    while not os.path.exists(name):
        await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def lifespan(app):
    note("startup")
    yield {"word": "from the lifespan"}
    note("shutdown")


app = FastAPI(lifespan=lifespan)


@app.get("/hello/{name}")
async def hello(name: str, times: int = 1):
    return {"hello": name, "times": times}


@app.get("/sync")
def sync():
    return {"in": "a thread"}


@app.get("/state")
async def state(request: Request):
    return request.state.word


@app.get("/scope/{rest:path}")
async def scope(request: Request):
    names = ("path", "root_path", "method", "http_version", "scheme")
    return {**{name: request.scope[name] for name in names}, "client": request.client.host, "url": str(request.url_for("state"))}


@app.post("/length")
async def length(request: Request):
    return sum([len(piece) async for piece in request.stream()])


@app.get("/error")
async def error():
    raise HTTPException(418, "short and stout")


@app.get("/throw")
async def throw():
    raise ValueError("a secret about the inside")


@app.get("/wait/{name}")
async def wait(name: str):
    note(f"begin {name}")
    try:
        await gate(f"gate-{name}")
    except asyncio.CancelledError:
        note(f"cancelled {name}")
        raise
    note(f"end {name}")
    return name


@app.get("/meet/{name}")
async def meet(name: str):
    note(f"begin {name}")
    # Ends only when the other one runs at the same time.
    while not all(f"begin {other}" in open("ran").read() for other in ("one", "two")):
        await asyncio.sleep(0.002)
    return name


@app.get("/ticks/{count}")
async def ticks(count: int):
    async def pieces():
        for number in range(count):
            yield f"data: {number}\n\n"
            await gate(f"gate{number}")

    return StreamingResponse(pieces(), media_type="text/event-stream")


@app.get("/endless")
async def endless():
    async def pieces():
        note("begin endless")
        try:
            while True:
                yield b"x" * 16384
        finally:
            note("end endless")

    return StreamingResponse(pieces())


@app.get("/silent")
async def silent():
    async def pieces():
        yield b"begun"
        try:
            await asyncio.sleep(1000)
        finally:
            note("end silent")

    return StreamingResponse(pieces())


@app.get("/later")
async def later():
    async def work():
        await gate("gate-later")
        note("later")

    return PlainTextResponse("now", background=BackgroundTask(work))


@app.websocket("/socket")
async def socket(websocket):
    note("a websocket")
