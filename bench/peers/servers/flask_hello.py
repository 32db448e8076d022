# The Flask application that every server of the suite pool-python runs.
from flask import Flask

app = Flask(__name__)


@app.get("/helloworld")
def hello_world():
    return {"hello": "world"}
