"""What a release consists of agrees with itself: versions, dependencies, extras, workflows and their commands."""

import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

import advmetric

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))
RECIPE = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
DISTRIBUTIONS = {"sklearn": "scikit-learn", "ot": "POT", "cv2": "opencv-python-headless", "PIL": "pillow"}
DISTRIBUTIONS |= {"faiss": "faiss-cpu", "markupsafe": "jinja2"}
CONDA = {"matplotlib": "matplotlib-base", "opencv-python-headless": "py-opencv", "torch": "pytorch", "POT": "pot"}
CONDA |= {"dask": "dask-core"}


def names(requirements):
    return {re.split(r"[\[><=]", line)[0] for line in requirements}


def imported():
    """Top-level packages that the source imports at the top of a module, whatever the module."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"advmetric"}


def test_every_package_that_is_imported_is_declared():
    declared = names(PROJECT["dependencies"]).union(*map(names, PROJECT["optional-dependencies"].values()))
    assert {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in imported()} <= declared


def test_the_version_is_the_same_everywhere():
    version = advmetric.__version__
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'{{% set version = "{version}" %}}' in RECIPE
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def recipe_list(start, end):
    block = RECIPE.partition(f"  {start}:\n")[2].partition(f"\n{end}:")[0]
    return {line.strip("- ") for line in block.splitlines() if line.startswith("    - ") and "python " not in line}


def test_the_recipe_needs_what_the_wheel_needs():
    assert {line.replace(" ", "") for line in recipe_list("run", "  run_constrained")} == set(PROJECT["dependencies"])


def test_the_recipe_constrains_what_the_extras_need():
    tool = runpy.run_path(str(ROOT / "tools" / "check_dist.py"))
    lines = {line for name in tool["extras"]() for line in PROJECT["optional-dependencies"][name]}
    foreign = [line for line in lines if not line.startswith("advmetric[")]
    found = [re.fullmatch(r"([\w-]+)(?:\[.+\])?(>=[\d.]+)", line) for line in foreign]
    assert {f"{CONDA.get(match[1], match[1])} {match[2]}" for match in found} == recipe_list("run_constrained", "test")


def test_the_recipe_gets_the_version_and_the_checksum_of_the_sdist(tmp_path):
    filled = runpy.run_path(str(ROOT / "tools" / "conda_recipe.py"))["filled"]
    sdist = tmp_path / "advmetric-1.2.3.tar.gz"
    sdist.write_bytes(b"abc")
    recipe = filled(RECIPE, sdist)
    assert '{% set version = "1.2.3" %}' in recipe
    assert "\n  sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n" in recipe
    assert "make dist" not in recipe
    with pytest.raises(ValueError, match="not once"):
        filled(recipe, sdist)  # there is no place left


def test_the_files_that_the_recipe_names_exist():
    files = re.findall(r"^    - (\S+)$", RECIPE.partition("license_file:\n")[2].partition("\nextra")[0], re.MULTILINE)
    assert len(files) == 2
    assert all((ROOT / name).is_file() for name in files)


def test_every_extra_has_a_smoke_test():
    tool = runpy.run_path(str(ROOT / "tools" / "check_dist.py"))
    assert set(tool["SMOKE"]) == {"none", *tool["extras"]()}
    for code in tool["SMOKE"].values():
        compile(tool["START"] + code, "smoke.py", "exec")


def test_least_versions_are_those_of_the_project():
    least = runpy.run_path(str(ROOT / "tools" / "least_versions.py"))["least_versions"]()
    assert least["numpy"] == "2.1"
    assert {"scipy", "scikit-learn", "pandas", "dask", "plotly"} <= set(least)
    for name, version in least.items():
        assert any(f"{name}>={version}" in re.sub(r"\[.*?\]", "", line) for line in _all_requirements())


def _all_requirements():
    return [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]


def test_workflows_run_commands_of_the_makefile():
    commands = re.findall(r"- run: (.+)", WORKFLOWS)
    assert len(commands) >= 5
    assert all(command.startswith("make ") for command in commands)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {command.split()[1] for command in commands if "$" not in command.split()[1]}
    assert asked | set(re.findall(r"target: ([a-z-]+)", WORKFLOWS)) <= targets


def test_the_tested_versions_of_python_are_the_classified_ones():
    tested = re.search(r"python: \[(.+)\]", WORKFLOWS).group(1).replace('"', "").split(", ")
    classified = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+", c)]
    assert tested == classified
    assert PROJECT["requires-python"] == f">={tested[0]}"
