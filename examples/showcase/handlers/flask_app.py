# An ordinary Flask application: nothing in it knows of Forebay. `flask --app handlers/flask_app run` serves it, too.
import time

from flask import Flask, Response, request, url_for

app = Flask(__name__)


@app.get("/helloworld")
def hello_world():
    return {"hello": "world"}


@app.get("/users/<name>")
def user(name):
    return {"name": name, "here": url_for("user", name=name), "agent": request.headers.get("user-agent", "")}


@app.post("/echo")
def echo():
    return Response(request.get_data(), content_type=request.content_type)


@app.get("/stream")
def stream():
    def chunks():
        for number in range(1, 6):
            yield f"chunk {number} of 5\n"
            time.sleep(0.1)

    return Response(chunks(), content_type="text/plain; charset=utf-8")
