"""A FastAPI application that knows nothing of Forebay."""

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class User(BaseModel):
    name: str
    age: int = 0


@app.get("/helloworld")
async def helloworld():
    return {"hello": "world"}


@app.get("/users/{name}")
async def user(name: str, age: int = 0):
    return User(name=name, age=age)


@app.post("/users", status_code=201)
async def add(user: User):
    return user
