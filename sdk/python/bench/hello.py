from forebay import App

app = App()


@app.get("/")
def hello():
    return {"hello": "world"}
