"""A service that cuts jobs, as a process of its own, to be killed: says what is made, ends when nothing is left.

python -m tests.transcoder.run_split DATA_DIR
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pipelines.devices import software_device
from transcoder.service import Service
from transcoder.settings import Settings

PIECE_SECONDS = 2.0


async def main(data_dir: Path) -> None:
    settings = Settings(data_dir=data_dir, shutdown_seconds=0, split_piece_seconds=PIECE_SECONDS)
    said = 0
    async with Service(settings, devices=[software_device(2)]) as service:
        while await service.store.active_counts():
            (job,) = (await service.list()).items
            made = sum(each.task > 0 and each.status == "completed" for each in job.attempts)
            for number in range(said, made):
                print("made", number + 1, flush=True)
            said = made
            await asyncio.sleep(0.05)
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
