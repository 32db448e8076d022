# What every server of the suite pool-python runs: an ordinary Flask application.
from flask import Flask

app = Flask(__name__)


@app.get("/helloworld")
def hello_world():
    return {"hello": "world"}
