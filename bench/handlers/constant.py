"""A handler in Python that answers a record from its own memory: Python has no store."""

from forebay import App

app = App()
RECORD = {"kind": "Article", "text": "Just some text, and a little more.", "title": "Sample 1"}


@app.get("/py")
def record():
    return RECORD
