from fastapi import FastAPI

app = FastAPI()


@app.get("/fastapi/helloworld")
async def hello():
    return {"hello": "world"}
