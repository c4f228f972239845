"""A client of the service for Python programs: `Client` for plain code, `AsyncClient` for asyncio.

with Client("http://127.0.0.1:8080", api_key="tk_…") as client:
    upload = client.upload("holiday.mov")
    job = client.submit({"input": {"upload": upload.id}, "preset": "h264-720p"})
    client.download(client.wait(job.id), "results")
"""

from transcoder.client.aio import AsyncClient
from transcoder.client.errors import ApiError, JobFailed, Unreachable, UploadInterrupted
from transcoder.client.plain import Client
from transcoder.client.values import Event

__all__ = ["ApiError", "AsyncClient", "Client", "Event", "JobFailed", "Unreachable", "UploadInterrupted"]
