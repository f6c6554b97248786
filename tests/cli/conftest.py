"""What the tests of commands share. Progress says nothing, however slow the machine."""

import pytest

from advmetric.workflows import stages, stream


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(stages, "QUIET", 1e6)
    monkeypatch.setattr(stream, "_QUIET", 1e6)


@pytest.fixture
def done(cli):
    """Run a command that must succeed (`fit` may replace a metric); return its stdout."""

    def run(*arguments):
        code, out, err = cli(*arguments, *(["--force"] if arguments[0] == "fit" and "--help" not in arguments else []))
        assert code == 0, err
        return out

    return run


@pytest.fixture
def refused(cli, tmp_path):
    """Run a command that must fail with a code, in one line, and leave no new file; return the line."""

    def run(code, *arguments):
        before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        got, out, err = cli(*arguments)
        assert got == code, err
        assert out == ""
        lines = [line for line in err.splitlines() if not line.startswith("Tuning ")]
        assert len(lines) == 1, err
        assert lines[0].startswith("error: ")
        assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
        return lines[0]

    return run
