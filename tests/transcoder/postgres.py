"""A PostgreSQL server of its own for tests: Debian's package, a cluster in a temporary folder, a free port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

START_SECONDS = 30.0
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "logging_collector": "off",
    "log_min_messages": "fatal",
}
_numbers = count()


def binaries() -> Path | None:
    """The newest version's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def missing() -> str | None:
    """Why tests with PostgreSQL can't run here."""
    if binaries() is None:
        return "PostgreSQL is not installed (Debian: postgresql)"
    try:
        import procrastinate  # noqa: F401
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"the extra transcoder[cluster] is not installed: {error}"
    return None


def _as_server(command: list[str | Path]) -> list[str]:
    """PostgreSQL does not run as root."""
    words = [str(word) for word in command]
    return ["runuser", "-u", "postgres", "--", *words] if os.geteuid() == 0 else words


@dataclass
class Postgres:
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folder = binaries()
        assert folder is not None
        options = [word for name, value in _OPTIONS.items() for word in ("-c", f"{name}={value}")]
        command = [folder / "postgres", "-D", self.folder / "data", "-p", str(self.port), "-k", self.folder, *options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(_as_server(command), stdout=log, stderr=log, start_new_session=True)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """At once, and so that clients lose their connections."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty one."""
        import psycopg

        name = f"t{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    folder = binaries()
    assert folder is not None
    home = Path(tempfile.mkdtemp(prefix="transcoder-pg-"))
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(home, user.pw_uid, user.pw_gid)
        initdb = [folder / "initdb", "-D", home / "data", "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8"]
        subprocess.run(_as_server(initdb), check=True, stdout=subprocess.DEVNULL, cwd=home)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        server = Postgres(home, port)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_postgres() as server:
        yield server


@pytest.fixture
def cluster_url(postgres: Postgres) -> str:
    """A database of one's own."""
    return postgres.new_database()
