from forebay import App, HttpError

app = App()


@app.get("/")
def root():
    return {"hello": "world"}


@app.get("/hello/:name")
def hello(request):
    return {"hello": request.params["name"]}


@app.post("/sum")
def add(request):
    numbers = request.json()
    if not isinstance(numbers, list) or not all(isinstance(number, (int, float)) for number in numbers):
        raise HttpError(400, "expected an array of numbers")
    return {"sum": sum(numbers)}
