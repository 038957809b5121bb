"""The application of `beside_uvicorn.py fastapi`: one view that answers JSON."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/")
async def hello() -> dict[str, str]:
    """As in the JSON test of the public benchmarks."""
    return {"message": "Hello, World!"}
