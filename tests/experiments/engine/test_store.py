"""The store: appending, half-written lines, claims, two writers at once."""

import json
import os
import signal
import threading

import pytest

from advmetric.experiments.engine.store import Record, Store, Task
from reference.processes import quick_start

TASK = Task("table1", "vehicle", "AML", 0)


def task(trial):
    return Task("table1", "vehicle", "AML", trial)


def test_what_was_appended_is_read_back(tmp_path):
    store = Store(tmp_path / "new" / "folder")
    assert store.records() == {}
    record = Record(TASK, {"error": 0.1 + 0.2, "params": {"t": 0.1}}, seconds=1.5)
    store.append(record)
    assert Store(store.folder).records() == {TASK: record}
    assert store.remaining([TASK, task(1)]) == [task(1)]


def test_profile_seed_and_trial_make_a_run_another_run(tmp_path):
    store = Store(tmp_path)
    store.append(Record(TASK, {"error": 0.1}))
    others = [Task("table1", "vehicle", "AML", 0, "quick"), Task("table1", "vehicle", "AML", 0, seed=1), task(1)]
    assert store.remaining([TASK, *others]) == others


@pytest.mark.parametrize("cut", [1, 20, -1, -2])
def test_a_half_written_last_line_is_skipped_and_does_not_spoil_the_next(tmp_path, cut):
    store = Store(tmp_path)
    store.append(Record(task(0), {"error": 0.1}))
    whole = store.path.read_bytes()
    store.append(Record(task(1), {"error": 0.2}))
    second = store.path.read_bytes()[len(whole) :]
    store.path.write_bytes(whole + second[:cut])
    # Without its newline alone the line is still whole.
    survivors = {task(0), task(1)} if cut == -1 else {task(0)}
    assert set(store.records()) == survivors
    store.append(Record(task(2), {"error": 0.3}))
    assert set(store.records()) == survivors | {task(2)}
    assert store.records()[task(2)].result == {"error": 0.3}


def test_lines_that_are_not_ours_are_skipped(tmp_path):
    store = Store(tmp_path)
    store.path.write_bytes(b'\xff\xfe\n[1]\n"x"\n{"task": 3}\n{"task": {"colour": 1}}\n{}\n\n')
    assert store.records() == {}
    store.append(Record(TASK, {"error": 0.5}))
    assert list(store.records()) == [TASK]


def test_a_success_replaces_a_failure_and_not_the_other_way_round(tmp_path):
    store = Store(tmp_path)
    store.append(Record(TASK, failure="ValueError: no"))
    assert store.remaining([TASK]) == []
    assert store.remaining([TASK], retry_failed=True) == [TASK]
    store.append(Record(TASK, {"error": 0.5}))
    store.append(Record(TASK, failure="ValueError: again"))
    assert store.records()[TASK].result == {"error": 0.5}
    assert store.remaining([TASK], retry_failed=True) == []


def _append_many(folder, start):
    store = Store(folder)
    for trial in range(start, start + 150):
        store.append(Record(task(trial), {"error": trial / 7, "filler": "x" * 5000}))


def test_two_writers_at_once_lose_and_mix_nothing(tmp_path):
    context = quick_start()
    writers = [context.Process(target=_append_many, args=(tmp_path, start)) for start in (0, 1000)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert all(json.loads(line) for line in (tmp_path / "results.jsonl").read_bytes().splitlines())
    found = Store(tmp_path).records()
    assert {t.trial for t in found} == {*range(150), *range(1000, 1150)}
    assert all(record.result["error"] == t.trial / 7 for t, record in found.items())


def _claim_and_hang(folder, claimed):
    with Store(folder).claim(TASK) as mine:
        claimed.put(mine)
        threading.Event().wait()  # until it is killed


def test_a_claim_keeps_others_out_until_its_process_is_gone(tmp_path):
    context = quick_start()
    claimed = context.Queue()
    holder = context.Process(target=_claim_and_hang, args=(tmp_path, claimed), daemon=True)
    holder.start()
    assert claimed.get(timeout=300) is True
    with Store(tmp_path).claim(TASK) as mine:
        assert mine is False
    with Store(tmp_path).claim(task(1)) as mine:
        assert mine is True
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with Store(tmp_path).claim(TASK) as mine:
        assert mine is True


@pytest.mark.parametrize(
    "line",
    [
        b'{"task":{"experiment":"a","dataset":"b","method":"c","trial":[1],"profile":"full","seed":0},'
        b'"result":{},"failure":"","seconds":1.0}',
        b'{"task":{"experiment":"a","dataset":"b","method":"c","trial":0,"profile":"full","seed":0},'
        b'"result":{"error":' + b"[" * 40 + b"1" + b"]" * 40 + b'},"failure":"","seconds":1.0}',
        b'{"task":null,"result":{},"failure":"","seconds":1.0}',
        b'{"task":{"experiment":"a","dataset":"b","method":"c","trial":0,"profile":"full","seed":0},'
        b'"result":{},"failure":"","seconds":"long"}',
        b"null",
        b"no record at all",
        b"[" * 100_000,
    ],
    ids=["list for a number", "deep", "null task", "text for a number", "null", "text", "nested"],
)
def test_lines_that_are_no_records_are_left_out_and_counted(tmp_path, line):
    store, task = Store(tmp_path), Task("table1", "vehicle", "AML", 0)
    store.append(Record(task, {"error": 0.1}))
    with open(store.path, "ab") as stream:
        stream.write(line + b"\n")
    assert [list(store.read()[0]), store.read()[1]] == [[task], 1]


def test_a_line_that_a_killed_writer_left_is_not_counted(tmp_path):
    store, task = Store(tmp_path), Task("table1", "vehicle", "AML", 0)
    store.append(Record(task, {"error": 0.1}))
    whole = store.path.read_bytes()
    with open(store.path, "ab") as stream:
        stream.write(whole[:60])
    assert store.read()[1] == 0
    assert list(store.records()) == [task]
