"""A FastAPI route that does nothing but give out a file's bytes: what the framework itself takes here.

python -m benchmarks.bare_route FILE
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Response


def main() -> None:
    body = Path(sys.argv[1]).read_bytes()
    app = FastAPI()

    @app.get("/v1/jobs/{job_id}")
    async def read_job(job_id: str) -> Response:
        return Response(body, media_type="application/json")

    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_config=None, access_log=False, http="httptools", loop="uvloop")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
