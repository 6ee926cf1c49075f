# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tandem.bench: small shapes on two ranks. Whether figures are good is not tested; that they fit each other is."""

import json
import os
import signal
import statistics
import subprocess
import sys

import numpy as np
import pytest

import tandem
from tandem import _tandem
from tandem.bench import fusions, report, runner, shapes
from tandem.bench.arms import Programs, numbers, random_bytes
from tandem.bench.shapes import Case, Usage

FAKE_GPU = os.path.join(os.environ.get("TANDEM_BUILD", "build"), "lib", "libTandemFakeCuda.so")
QUICK = ["--iterations=5", "--warmup=1", "--row-time=1000", "--link-bytes=65536", "--timeout=60", "--torch=no"]
SHAPES = ["--dtypes=f32", "--shapes=ag:16x12x8,rs:16x8x12,ar:16x8x12", "--schedules=auto,pipeline:slices=2,exchange,push"]
ARMS = ["sequence", "matmul", "communication", "auto", "pipeline:slices=2", "exchange", "push"]
WAYS = {"threads": ["--channel=local"], "processes": ["--channel=ucx"]}


def command(*arguments):
    return [sys.executable, "-m", "tandem.bench", *map(str, arguments)]


def run(*arguments, status=0, **environment):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=200, check=False, env={**os.environ, **environment})
    assert done.returncode == status, done
    return done


def check_row(row, data, modes):
    by_name = {(m["what"], m["mode"]): m for m in row["measurements"]}
    assert list(by_name) == [(arm, mode) for arm in ARMS for mode in modes]
    for (what, mode), m in by_name.items():
        if "refused" in m:
            assert row["op"] == "ar" and what == "exchange" and "owner" in m["refused"]
            continue
        times = m["times_us"]
        assert len(times) == len(m["hosts_us"]) == data["iterations"]
        assert m["median_us"] == pytest.approx(statistics.median(times))
        assert 0 < min(times) <= m["p10_us"] <= m["median_us"] <= m["p90_us"] <= max(times)
        assert 0 < m["host_us"] <= max(times) and m["late_us"] >= 0
        sequence, matmul = (by_name[name, mode]["median_us"] for name in ("sequence", "matmul"))
        assert m["ratio_to_sequence"] == pytest.approx(sequence / m["median_us"])
        limit = max(matmul, row["bytes"] / data["link"]["bytes_per_second"] * 1e6)
        assert row["limit_us"][mode] == pytest.approx(limit) and m["ratio_to_limit"] == pytest.approx(m["median_us"] / limit)
        assert m["verified"] == (m["role"] in ("sequence", "fused")) and not m["failure"]


def check(path, modes=("eager",)):
    data = json.loads(path.read_text())
    assert data["failure"] == "" and [row["op"] for row in data["rows"]] == ["ag", "rs", "ar"]
    assert data["versions"]["tandem"] and data["description"] and data["command"] and data["order"]
    for row in data["rows"]:
        check_row(row, data, modes)
    return data


@pytest.mark.parametrize("way", WAYS)
def test_reports(way, tmp_path):
    """Each prediction, and a threshold that decides the exit status."""
    path = tmp_path / "b.json"
    done = subprocess.run(command("-n", 2, *WAYS[way], *QUICK, *SHAPES, "--machine=cpu2", "--fail-if-slower=0", f"--json={path}"),
                          capture_output=True, text=True, timeout=200, check=False)
    data = check(path)
    errors = []
    for m in (m for row in data["rows"] for m in row["measurements"] if "refused" not in m):
        assert m["prediction_error"] == pytest.approx(m["predicted_us"] / m["median_us"] - 1)
        errors.append(abs(m["prediction_error"]))
    assert data["median_prediction_error"] == pytest.approx(statistics.median(errors))
    slower = [m for row in data["rows"] for m in row["measurements"]
              if m["what"] == "auto" and m["ratio_to_sequence"] < 1 and m.get("same_as") != "sequence"]
    assert done.returncode == (3 if slower else 0), done
    assert done.stdout.count("slower than the sequence: auto") == len(slower)
    assert "verified" in done.stdout and "refused: " in done.stdout


def test_graphs(tmp_path):
    """Both ways of launching, on GPUs that are threads of the host."""
    if not os.path.exists(FAKE_GPU):
        pytest.skip("this build has no device cuda")
    path = tmp_path / "b.json"
    run("-n", 2, "--device=cuda", "--channel=peer,local", "--threads", *QUICK, *SHAPES, "--machine=h200x2", f"--json={path}",
        TANDEM_CUDA_LIBRARY=FAKE_GPU, TANDEM_CUBLASLT_LIBRARY=FAKE_GPU)
    check(path, ("eager", "graph"))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8E4M3FN", "f8E4M3FN-rows"])
def test_dtypes(dtype, tmp_path):
    """Results of each are NumPy's, with rows that do not divide evenly, too."""
    path = tmp_path / "b.json"
    run("-n", 3, "--channel=local", *QUICK, f"--dtypes={dtype}", "--shapes=ag:16x12x8,rs:18x8x12,ar:18x8x12", "--schedules=auto,push",
        "--link-rate=1", f"--json={path}")
    for row in json.loads(path.read_text())["rows"]:
        assert all(m["verified"] for m in row["measurements"] if m["what"] in ("sequence", "auto")), row


def test_auto_that_is_the_sequence(tmp_path):
    """One program, measured twice, is not slower than itself, whatever the clock says."""
    path = tmp_path / "b.json"
    done = run("-n", 2, "--channel=local", "--dtypes=f32", "--shapes=ag:16x16x16", "--schedules=auto,exchange", "--machine=cpu2",
               "--fail-if-slower=0", *QUICK, f"--json={path}")
    assert "is sequence" in done.stdout
    same = {m["what"]: m.get("same_as") for m in json.loads(path.read_text())["rows"][0]["measurements"]}
    assert same["auto"] == "sequence" and same["exchange"] is None


def test_large_cases_are_compared_with_the_sequence(tmp_path):
    path = tmp_path / "b.json"
    run("-n", 2, "--channel=local", *QUICK, "--dtypes=f32", "--shapes=ag:2048x1024x1024", "--schedules=push", "--iterations=1", "--sets=1",
        f"--json={path}")
    errors = {m["what"]: m["max_relative_error"] for m in json.loads(path.read_text())["rows"][0]["measurements"]}
    assert errors["sequence"] is None and errors["push"] < 1e-5


def test_compiled_elsewhere(tmp_path):
    options = ["-n", 2, "--channel=local", *QUICK, *SHAPES, f"--programs={tmp_path / 'programs'}"]
    done = run(*options, "--compile-only")
    assert "24 programs for 2 ranks, target cpu-local (1 refused)" in done.stdout
    path = tmp_path / "b.json"
    run(*options, f"--json={path}")
    check(path)
    for file in (tmp_path / "programs").glob("*.tsp"):  # these are what runs
        file.rename(f"{file}.refused").write_text("not now")
    done = run(*options, status=1)
    assert "nothing could be run" in done.stdout and "refused: not now" in done.stdout


def test_time_is_up(tmp_path):
    """Cases that are left are named, and the others are there."""
    path = tmp_path / "b.json"
    cases = ",".join(f"ag:{m}x4x4" for m in range(4, 400, 4))
    done = run("-n", 2, "--channel=local", *QUICK, "--dtypes=f32", "--schedules=auto", f"--shapes={cases}", "--row-time=0.001",
               "--total-time=0.5", f"--json={path}", status=4)
    data = json.loads(path.read_text())
    assert len(data["rows"]) + len(data["not_measured"]) == 99 and data["rows"] and data["not_measured"]
    assert done.stdout.count("not measured: ag ") == len(data["not_measured"])


def test_a_rank_that_hangs(tmp_path):
    """All end and start again without that arm; the report has what was measured, and how the arm failed."""
    path = tmp_path / "b.json"
    process = subprocess.Popen(command("-n", 2, "--channel=ucx", *QUICK, "--timeout=10", "--dtypes=f32", "--shapes=ag:16x12x8,ag:64x12x8",
                                       "--schedules=auto", "--iterations=1000", "--row-time=3", "--gap=5", f"--json={path}"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        phase = ""
        while not path.exists() or not path.stat().st_size or not phase.endswith("timed"):  # of the second case
            assert process.poll() is None
            ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
            for rank in ranks[1:]:
                with open(f"/proc/{rank}/cmdline", encoding="utf-8") as file:
                    folder = file.read().rpartition("--folder=")[2].strip("\0")
                if os.path.exists(os.path.join(folder, "phase.1")):
                    with open(os.path.join(folder, "phase.1"), encoding="utf-8") as file:
                        phase = file.read()
        os.kill(int(ranks[1]), signal.SIGSTOP)
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 1 and "FAILED: rank 0: ended with status 1" in err and "eager: timed" in err, err
    data = json.loads(path.read_text())
    assert len(data["rows"]) == 2 and not data["failure"] and not data["not_measured"]
    failed = [m for m in data["rows"][1]["measurements"] if m.get("failure")]
    assert len(failed) == 1 and failed[0]["failure"].startswith("rank 0: ") and "median_us" not in failed[0]


@pytest.mark.parametrize("options, why", [
    (["-n", 2, "--shapes=xx:1x2x3"], "expected layers, many, or one of ag, rs, ar"),
    (["-n", 2, "--shapes=ag:1"], "expected OP:MxNxK"),
    (["-n", 2, "--shapes=ag:0x2x3"], "expected a number from 1 to"),
    (["-n", 2, "--dtypes=f64"], "--dtypes: expected one of f32"),
    (["-n", 2, "--schedules=tree"], "--schedules: expected one of auto"),
    (["-n", 2, "--schedules=push:x"], "expected KEY=VALUE"),
    (["-n", 2, "--schedules=auto:streams=2"], "expected KEY=VALUE, and of auto and sequence deterministic=VALUE"),
    (["-n", 2, "--schedules=push:deterministic=no"], "expected one of bitwise, batch"),
    (["-n", 2, "--modes=traced"], "--modes: expected eager, graph"),
    (["-n", 2, "--part=3/2"], "--part: expected I/P"),
    (["-n", 2, "--machine=none"], "--machine: expected one of the machine files"),
    (["-n", 2, "--json=/none/b.json"], "No such file"),
    (["-n", 2, "--compile-only"], "expected --programs and -n"),
    (["-n", 2, "--channel=local", "--tune=t.json"], "--tune: expected --machine"),
    (["--judge", "/none.json"], "expected a report of tandem.bench"),
    ([], "expected -n N")])
def test_usage(options, why):
    assert why in run(*options, status=2).stderr


def test_tuning(tmp_path):
    """What --tune stores, the compiler takes; other loops stay."""
    source, path = os.path.join(os.path.dirname(__file__), "..", "..", "Programs", "mlp.mlir"), tmp_path / "tuned.json"
    run("-n", 2, f"--tune={path}", "--machine=cpu2", *QUICK, "--program", source)
    known = json.loads(path.read_text())["loops"]
    assert known
    run("-n", 2, f"--tune={path}", "--machine=cpu2", *QUICK, "--dtypes=f32", "--shapes=ag:16x12x8,rs:16x8x12")
    assert json.loads(path.read_text())["loops"][:len(known)] == known
    explained = subprocess.run([os.path.join(os.environ["TANDEM_BUILD"], "bin", "tandem-compile"), source, "--mesh=x=2", "--machine=cpu2",
                                f"--tuned={path}", "--explain"], capture_output=True, text=True, check=True).stdout
    assert all(f"{loop['what']}, by tuned" in explained for loop in known)


# --- parts ---


def test_cases():
    assert shapes.parse("ag:4x8x16,rs:8x16", "1,2", "f32,bf16", 2) == [
        Case(*case, dtype) for dtype in ("f32", "bf16") for case in (("ag", 4, 8, 16), ("rs", 1, 8, 16), ("rs", 2, 8, 16))]
    assert len(shapes.parse("", None, None, 2)) == 3 * 19
    many = shapes.parse("many", None, None, 2)
    assert len(many) == len(set(many)) == 207 and many == shapes.parse("many", None, None, 2)
    parts = [shapes.parse("many", None, None, 2, f"{part}/3") for part in (1, 2, 3)]
    assert sorted(sum(parts, [])) == sorted(many) and all({case.op for case in part} == set(shapes.OPS) for part in parts)
    case = Case("ag", 8, 16, 32, "f8E4M3FN")
    assert case.bytes_received(4) == 3 / 4 * 8 * 32 and case.local_matmul(4) == (8, 4, 32)
    assert Case("ar", 8, 16, 32, "bf16").bytes_received(4) == 2 * 3 / 4 * 8 * 16 * 2


@pytest.mark.parametrize("count, sets", [(1, 1), (4, 2), (5, 2), (6, 3), (7, 3)])
def test_turns(count, sets):
    """Each arm has one turn; neighbours read different sets, and an arm reads one set after the other."""
    orders = set()
    for number in range(12):
        turns = runner.turns_of(number, count, sets)
        assert sorted(arm for arm, _ in turns) == list(range(count))
        assert sets == 1 or all(a[1] != b[1] for a, b in zip(turns, turns[1:]))
        following = dict(runner.turns_of(number + 1, count, sets))
        assert all(following[arm] == (inputs + 1) % sets for arm, inputs in turns)
        orders.add(tuple(arm for arm, _ in turns))
    assert count < 4 or len(orders) > 4


def test_schedules():
    schedule = fusions.Schedule("push:slices=2:order=xor:merge=1-1-2")
    assert schedule.of(4, False) == ("push", {"order": "xor", "merge": [1, 1, 2]})
    assert fusions.Schedule("push:merge=double").of(8, False)[1] == {"merge": [1, 1, 2, 4]}
    assert fusions.Schedule("push:merge=double").of(8, True)[1] == {"merge": [4, 2, 1, 1]}
    with pytest.raises(Usage, match="a power of 2"):
        fusions.Schedule("push:merge=double").of(3, False)
    programs = Programs("cuda-peer", 2)
    for case, text, good in (("ag", "gated:by=sms", True), ("ar", "direct:protocol=block", True), ("ar", "direct:shots=two:blocks=8", True),
                             ("rs", "push:by=epilogue", True), ("ag", "push:by=epilogue", False), ("ar", "exchange", False),
                             ("ag", "ring:directions=2", True), ("ag", "push:compute=gated", True), ("ag", "push:x=2", False)):
        schedule = fusions.Schedule(text)
        program, why = programs.get(text, lambda case=case, schedule=schedule: fusions.fused(Case(case, 64, 64, 64, "bf16"), 2, schedule))
        assert bool(program) == good and bool(why) != good, (text, why)


def test_arrays():
    """Memory of a device: a short pattern fills it, another dtype reads it."""
    with tandem.Context() as context:
        array = _tandem.new_array(context, "bf16", (3, 5))
        array.fill(context, b"abc")
        assert array.read(context) == b"abc" * 10 and array.view("f16").dtype == "f16"
        np.testing.assert_array_equal(np.from_dlpack(array.view("i16")).reshape(-1), np.frombuffer(b"abc" * 10, np.int16))
        with pytest.raises(tandem.ArgumentError, match="expected a dtype of as many bytes, found f32"):
            array.view("f32")


@pytest.mark.parametrize("dtype, size", [("f32", 4), ("f16", 2), ("bf16", 2), ("f8E4M3FN", 1)])
def test_random_numbers(dtype, size):
    data = random_bytes(dtype, 5000, 1)
    values = numbers(dtype, data, (50, 100))
    assert len(data) == 5000 * size and np.isfinite(values).all() and np.abs(values).max() <= 1 and abs(values.mean()) < 0.05
    assert len(np.unique(values)) > 100 and data != random_bytes(dtype, 5000, 2)


def test_numbers_of_8_bits():
    """As ml_dtypes has them."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    data = bytes(range(127)) + bytes(range(128, 255))
    assert (numbers("f8E4M3FN", data, -1) == np.frombuffer(data, ml_dtypes.float8_e4m3fn).astype(np.float32)).all()


# --- what is asked of reports ---


def arm(what, median, mode="graph", role="fused", **more):
    return {"what": what, "role": role, "mode": mode, "median_us": median, "times_us": [median], **more}


def judge(*rows, **asked):
    return report.judge([{"rows": [{"op": "ag", "m": 8, "n": 16, "k": 32, "dtype": "bf16", "limit_us": {"graph": 80}, "measurements": row}
                                   for row in rows], "not_measured": []}], **asked)


def test_a_good_choice():
    """The matmul alone is no choice, nor is what was timed in the other mode, refused or wrong."""
    row = [arm("auto", 102, predicted_us=97.92, same_as="gated"), arm("gated", 98), arm("direct", 99), arm("sequence", 204, role="sequence"),
           arm("matmul", 50, role="matmul"), arm("push", 10, mode="eager"), arm("ring", 20, failure="wrong"), arm("torch fused", 120),
           arm("torch fused", 110, mode="eager"), {"what": "exchange", "role": "fused", "mode": "graph", "refused": "no"}]
    lines, good = judge(row)
    assert good and lines[0] == ("ag 8x16x32 bf16: auto 100.0 us (is gated), best direct 99.0 us, loss +1.0 %, 2.04 x sequence, "
                                 "1.25 of the limit, 1.10 x torch fused, predicted -2.1 %")
    assert lines[1] == "1 cases: 0 lose more than 3 %, the most +1.0 %; median prediction error 2.1 %"
    assert not judge([arm("auto", 102), arm("gated", 100)], most_loss=1)[1]


def test_bad_choices():
    lines, good = judge([arm("auto", 100), arm("push", 99)], [arm("auto", 110), arm("gated", 100)])
    assert not good and "2 cases: 1 lose more than 3 %, the most +10.0 %" in lines
    rows = [[arm("auto", 100, predicted_us=us), arm("push", 100)] for us in (94, 101, 107)]
    assert not judge(*rows)[1] and judge(*rows, most_error=6.5)[1]
    assert not judge([arm("auto", 100), arm("sequence", 98)], most_loss=5)[1]
    lines, good = judge([arm("auto", 100), arm("sequence", 150), arm("torch fused", 99)])
    assert not good and lines[0].endswith("BEHIND torch fused")


def test_nothing_to_judge():
    for row in ([arm("auto", 1)], [arm("push", 1), arm("gated", 1)]):
        assert judge(row) == (["auto was not measured next to another schedule in any case"], False)
