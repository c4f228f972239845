"""Rules of the repository: which package may import what, how large a module gets, what is documented."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from pipelines.presets import load_presets
from transcoder.cli.failures import EXIT_CODES
from transcoder.settings import Settings

ROOT = Path(__file__).parent.parent
ENGINE_MAY_IMPORT = {"av", "chardet", "numpy", "pydantic", "pipelines"}
MAX_LINES = 320
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

MODULES = sorted(path for package in ("pipelines", "transcoder") for path in (ROOT / package).rglob("*.py"))


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    return {normalised(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in (*project["dependencies"], *optional)}


def imports(path: Path) -> Iterator[str]:
    """Top-level names of what a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("path", [path for path in MODULES if "pipelines" in path.parts], ids=label)
def test_engine_imports_the_standard_library_and_what_it_decodes_with_only(path: Path) -> None:
    foreign = {name for name in imports(path) if name not in sys.stdlib_module_names} - ENGINE_MAY_IMPORT
    assert foreign == set()


def test_imports_are_declared_dependencies() -> None:
    declared = declared_dependencies()
    providers = packages_distributions()
    for path in MODULES:
        for name in set(imports(path)) - sys.stdlib_module_names - {"pipelines", "transcoder"}:
            assert {normalised(provider) for provider in providers[name]} & declared, f"{label(path)} imports {name}"


def test_arrays_are_used_only_where_numpy_is_declared() -> None:
    # PyAV turns frames into arrays only where numpy happens to be installed: no import shows it
    users = [label(path) for path in MODULES if "ndarray" in path.read_text(encoding="utf-8")]
    assert not users or "numpy" in declared_dependencies(), users


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_module_stays_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", [path for path in MODULES if path.name != "__init__.py"], ids=label)
def test_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("field", Settings.model_fields)
def test_setting_is_documented(field: str) -> None:
    variable = f"TRANSCODER_{field.upper()}"
    assert f"`{variable}`" in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert Settings.model_fields[field].description


def test_documented_settings_exist() -> None:
    of_the_client = {"TRANSCODER_SERVER", "TRANSCODER_API_KEY"}
    known = {f"TRANSCODER_{field.upper()}" for field in Settings.model_fields} | of_the_client
    for page in DOCS:
        words = page.read_text(encoding="utf-8").replace("`", " ").replace("=", " ").split()
        named = {word.strip(".,;:()|") for word in words if word.startswith("TRANSCODER_")}
        assert named - known == set(), page


@pytest.mark.parametrize("preset", load_presets())
def test_preset_is_documented(preset: str) -> None:
    assert f"`{preset}`" in (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")


def test_links_between_documents_lead_somewhere() -> None:
    for page in DOCS:
        for part in page.read_text(encoding="utf-8").split("](")[1:]:
            target = part.partition(")")[0]
            if "://" not in target and not target.startswith("#"):
                assert (page.parent / target.partition("#")[0]).exists(), f"{page}: {target}"


def test_exit_codes_are_documented() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"| {code} |" in table for code in {0, 1, *EXIT_CODES.values(), 4})


def test_help_loads_neither_engine_nor_web_framework() -> None:
    script = (
        "import sys\n"
        "sys.argv = ['transcoder', '--help']\n"
        "from transcoder.__main__ import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n"
        "    heavy = {'av', 'pydantic', 'fastapi', 'uvicorn', 'sqlalchemy', 'httpx2', 'asyncio'} & set(sys.modules)\n"
        "    sys.exit(f'loaded: {sorted(heavy)}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
