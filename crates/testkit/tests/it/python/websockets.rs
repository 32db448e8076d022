//! `WebSockets` of Python applications, spoken to by the Python package `websockets`.

use std::process::Command;

use forebay_testkit::{Server, Setup};

use super::pool;
use crate::support::{ONE_WORKER, wait_for_note};

/// What all applications do: `/echo/:name` echoes, `/refused` refuses, `/denied` answers 401.
const STARLETTE: &str = r#"
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

async def echo(socket):
    offered = socket.scope["subprotocols"]
    await socket.accept("chat" if "chat" in offered else None, headers=[(b"x-name", socket.path_params["name"].encode())])
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message["code"], message.get("reason"))
            text = message.get("text")
            if text == "close":
                await socket.close(4001, "bye")
                return
            if text == "fail":
                raise ValueError("as told")
            if text is None:
                await socket.send_bytes(message["bytes"])
            else:
                await socket.send_text(text)
    except WebSocketDisconnect as gone:
        open("ran", "a").write(f"gone {gone.code}\n")

async def refused(socket):
    await socket.close()

async def denied(socket):
    await socket.send_denial_response(PlainTextResponse("no entry", 401))

async def page(request):
    return PlainTextResponse("a page")

app = Starlette(routes=[WebSocketRoute("/echo/{name}", echo), WebSocketRoute("/refused", refused), WebSocketRoute("/denied", denied), Route("/page", page)])
"#;

const FASTAPI: &str = r#"
from fastapi import FastAPI, WebSocket, WebSocketDisconnect, WebSocketException
from fastapi.responses import PlainTextResponse
app = FastAPI()

@app.websocket("/echo/{name}")
async def echo(socket: WebSocket, name: str):
    await socket.accept("chat" if "chat" in socket.scope["subprotocols"] else None, headers=[(b"x-name", name.encode())])
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message["code"])
            if message.get("text") == "close":
                raise WebSocketException(4001, "bye")
            if message.get("text") == "fail":
                raise ValueError("as told")
            if message.get("bytes") is not None:
                await socket.send_bytes(message["bytes"])
            else:
                await socket.send_text(message["text"])
    except WebSocketDisconnect as gone:
        open("ran", "a").write(f"gone {gone.code}\n")

@app.websocket("/refused")
async def refused(socket: WebSocket):
    raise WebSocketException(1008)

@app.websocket("/denied")
async def denied(socket: WebSocket):
    await socket.send_denial_response(PlainTextResponse("no entry", 401))

@app.get("/page")
async def page():
    return PlainTextResponse("a page")
"#;

const CHANNELS: &str = r#"
import asyncio
from django.conf import settings
settings.configure(DEBUG=False, SECRET_KEY="x", ROOT_URLCONF="app", ALLOWED_HOSTS=["*"])
import django
django.setup()
from channels.exceptions import DenyConnection
from channels.generic.websocket import AsyncWebsocketConsumer, WebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("page", lambda request: HttpResponse("a page"))]

class Echo(AsyncWebsocketConsumer):
    async def connect(self):
        name = self.scope["url_route"]["kwargs"]["name"]
        await self.accept("chat" if "chat" in self.scope["subprotocols"] else None, headers=[(b"x-name", name.encode())])

    async def receive(self, text_data=None, bytes_data=None):
        if text_data == "close":
            await self.close(4001, "bye")
        elif text_data == "fail":
            raise ValueError("as told")
        else:
            await self.send(text_data, bytes_data)

    async def disconnect(self, code):
        open("ran", "a").write(f"gone {code}\n")

class Refused(WebsocketConsumer):
    def connect(self):
        self.close()

async def denied(scope, receive, send):
    await receive()
    await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "websocket.http.response.body", "body": b"no entry"})

sockets = URLRouter([path("echo/<name>", Echo.as_asgi()), path("refused", Refused.as_asgi()), path("denied", denied)])
app = ProtocolTypeRouter({"http": get_asgi_application(), "websocket": sockets})
"#;

const FOREBAY: &str = r#"
from forebay import App, HttpError, reply
app = App()

@app.websocket("/echo/:name")
async def echo(socket):
    offered = socket.request.headers.get("sec-websocket-protocol", "")
    socket.accept("chat" if "chat" in offered else None, {"x-name": socket.request.params["name"]})
    async for message in socket:
        if message == "close":
            socket.close(4001, "bye")
            return
        if message == "fail":
            raise ValueError("as told")
        await socket.send(message)
    open("ran", "a").write(f"gone {socket.closed.code}\n")

@app.websocket("/refused")
async def refused(socket):
    raise HttpError(403, "no")

@app.websocket("/denied")
async def denied(socket):
    raise HttpError(401, "no entry")

@app.get("/page")
async def page():
    return "a page"
"#;

/// Speaks to all of that, and says `done`.
const CLIENT: &str = r#"
import asyncio, sys
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

base = sys.argv[1]

async def closed(socket):
    try:
        while True:
            await asyncio.wait_for(socket.recv(), 10)
    except ConnectionClosed as end:
        return end.rcvd.code, end.rcvd.reason

async def status(path):
    try:
        await connect(base + path)
    except InvalidStatus as refused:
        return refused.response.status_code, refused.response.body.decode()

async def main():
    async with connect(base + "/echo/a", subprotocols=["other", "chat"]) as socket:
        assert socket.subprotocol == "chat", socket.subprotocol
        assert socket.response.headers["x-name"] == "a"
        for message in ("text \u00e9 \U0001f600", b"\x00\xff", "", b"", "x" * 1_000_000, bytes(range(256)) * 4_000):
            await socket.send(message)
            assert await asyncio.wait_for(socket.recv(), 10) == message, len(message)
        for number in range(2_000):
            await socket.send(str(number))
        for number in range(2_000):
            assert await asyncio.wait_for(socket.recv(), 10) == str(number)
        await asyncio.wait_for(await socket.ping(), 10)
        # A piece at a time.
        await socket.send(piece for piece in ["one ", "two ", "three"])
        assert await asyncio.wait_for(socket.recv(), 10) == "one two three"
        await socket.close(4000, "enough")
    async with connect(base + "/echo/b") as socket:
        assert socket.subprotocol is None
        await socket.send("close")
        assert await closed(socket) == (4001, "bye"), socket
    async with connect(base + "/echo/c") as socket:
        await socket.send("fail")
        code, _ = await closed(socket)
        assert code == 1011, code
    many = await asyncio.gather(*[connect(base + f"/echo/{number}") for number in range(200)])
    for number, socket in enumerate(many):
        await socket.send(str(number))
    for number, socket in enumerate(many):
        assert await asyncio.wait_for(socket.recv(), 10) == str(number)
    many[0].transport.abort()
    await asyncio.gather(*[socket.close() for socket in many[1:]])
    code, _ = await status("/refused")
    assert code == 403, code
    code, body = await status("/denied")
    assert code == 401 and "no entry" in body, (code, body)
    print("done")

asyncio.run(main())
"#;

/// Runs a program of Python beside a server; returns what it prints.
fn client(server: &Server, program: &str, arguments: &[&str]) -> String {
    let url = format!("ws://{}", server.address());
    let output = Command::new(forebay_testkit::python())
        .args(["-c", program, &url])
        .args(arguments)
        .output()
        .expect("the Python of the tests can be started");
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        server.log()
    );
    String::from_utf8(output.stdout).expect("it prints text")
}

fn echoes(setup: Setup) {
    let server = setup.start();
    assert_eq!(client(&server, CLIENT, &[]), "done\n");
    for code in [4000, 1000, 1006] {
        wait_for_note(&server, &format!("gone {code}"));
    }
    server.wait_for_log(&["ValueError: as told"]);
    assert_eq!(server.get("/page").text(), "a page");
}

#[test]
fn starlette_has_its_websockets() {
    echoes(pool(STARLETTE, ONE_WORKER));
}

#[test]
fn fastapi_has_its_websockets() {
    echoes(pool(
        FASTAPI,
        &format!("{ONE_WORKER}\nenv = {{ FOREBAY_LOOP = \"asyncio\" }}"),
    ));
}

#[test]
fn django_channels_has_its_websockets() {
    echoes(pool(CHANNELS, ONE_WORKER));
}

#[test]
fn an_app_of_forebay_has_its_websockets() {
    echoes(pool(FOREBAY, ONE_WORKER));
}

#[test]
fn rooms_reach_all_workers_and_a_request_may_speak_to_them() {
    let app = r#"
import os
from forebay import App, broadcast
app = App()

@app.websocket("/chat/:room")
async def chat(socket):
    room = socket.request.params["room"]
    socket.join(room)
    await socket.send(f"in {os.getpid()}")
    async for message in socket:
        if message == "leave":
            socket.leave(room)
            await socket.send("left")
        else:
            socket.broadcast(room, message)

@app.post("/tell/:room")
async def tell(request):
    broadcast(request.params["room"], await request.text())

@app.post("/tell-from-thread/:room")
def tell_from_thread(request):
    broadcast(request.params["room"], request.text())
"#;
    let program = r#"
import asyncio, sys, urllib.request
from websockets.asyncio.client import connect
base = sys.argv[1]

async def receive(socket):
    return await asyncio.wait_for(socket.recv(), 10)

async def main():
    sockets = [await connect(base + "/chat/a") for _ in range(12)]
    other = await connect(base + "/chat/b")
    workers = {await receive(socket) for socket in sockets}
    await receive(other)
    assert len(workers) == 2, workers
    await sockets[0].send("hello")
    assert [await receive(socket) for socket in sockets[1:]] == ["hello"] * 11
    await sockets[1].send("leave")
    assert await receive(sockets[1]) == "left"
    for path in ("/tell/a", "/tell-from-thread/a"):
        url = base.replace("ws:", "http:") + path
        await asyncio.to_thread(urllib.request.urlopen, urllib.request.Request(url, data=path.encode(), method="POST"))
        for number, socket in enumerate(sockets):
            if number != 1:
                assert await receive(socket) == path
    await sockets[0].send("last")
    assert [await receive(socket) for socket in sockets[2:]] == ["last"] * 10
    await sockets[2].send("end")
    assert await receive(sockets[0]) == "end"
    print("done")

asyncio.run(main())
"#;
    let server = pool(app, "workers = { min = 2, max = 2 }").start();
    for worker in ["\"worker\":1", "\"worker\":2"] {
        server.wait_for_log(&["worker ready", worker]);
    }
    assert_eq!(client(&server, program, &[]), "done\n");
}

#[test]
fn sockets_and_event_streams_take_no_slot_and_end_with_their_worker() {
    let app = r#"
import asyncio
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute

async def socket(socket):
    await socket.accept()
    open("ran", "a").write("open\n")
    message = await socket.receive()
    open("ran", "a").write(f"{message['type']} {message.get('code')}\n")

async def events(request):
    async def endless():
        yield "data: first\n\n"
        await asyncio.Event().wait()
    return StreamingResponse(endless(), media_type="text/event-stream")

async def page(request):
    return PlainTextResponse("a page")

app = Starlette(routes=[WebSocketRoute("/socket", socket), Route("/events", events), Route("/page", page)])
"#;
    let program = r#"
import sys
from websockets.sync.client import connect
from websockets.exceptions import ConnectionClosed
sockets = [connect(sys.argv[1] + "/socket") for _ in range(5)]
open(sys.argv[2], "w").close()
for socket in sockets:
    try:
        socket.recv(20)
    except ConnectionClosed as end:
        assert end.rcvd.code == 1012, end
print("done")
"#;
    let server = pool(
        app,
        &format!("{ONE_WORKER}\nconcurrency = 1\nrun_timeout = \"1s\""),
    )
    .start();
    let connected = server.folder().path().join("connected");
    std::thread::scope(|scope| {
        let mut events = server.connect();
        events.request("GET", "/events");
        events.head().unwrap();
        assert!(String::from_utf8(events.some_bytes()).unwrap().contains("first"));
        let sockets = scope.spawn(|| client(&server, program, &[connected.to_str().unwrap()]));
        forebay_testkit::wait_until("five sockets", || connected.exists());
        for _ in 0..3 {
            assert_eq!(server.get("/page").text(), "a page");
        }
        // A reload replaces the worker.
        server.hang_up();
        assert_eq!(sockets.join().unwrap(), "done\n");
        let mut rest = Vec::new();
        while !rest.ends_with(b"0\r\n\r\n") {
            rest.extend(events.some_bytes());
        }
    });
    wait_for_note(&server, "websocket.disconnect 1012");
}
