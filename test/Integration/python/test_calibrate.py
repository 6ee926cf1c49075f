# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Machine files from probes, on simulated machines: the numbers that come out are those that were put in."""

import copy
import functools
import json
import os
import statistics

import numpy as np
import pytest
from test_bench import FAKE_GPU, QUICK, run

from tandem.bench import probes, shapes
from tandem.bench.arms import Programs
from tandem.bench.calibrate import Calibration, curve_at, machine_path, read_figures, read_machine
from tandem.bench.probes import Probe, parse, probes_for, text_of
from tandem.bench.shapes import Case, Usage

CASES = (Case("ag", 8192, 5504, 4096, "bf16"), Case("rs", 2048, 4096, 5504, "bf16"), Case("ag", 1024, 2752, 4096, "bf16"))
LAYERS = [Case(*case, dtype) for dtype in ("bf16", "f16") for case in shapes.known_layers([8192])]


def machine(name):
    return read_machine(machine_path(name))


@functools.lru_cache(maxsize=None)
def programs(is_gpu, ranks, cases):
    """(name, program) of all probes; it takes long to compile them."""
    compiler, found = Programs("cuda-peer" if is_gpu else "cpu-local", ranks, check=False), []
    for probe in probes_for(ranks, is_gpu, cases, LAYERS):
        for one in (probe.once, probe):
            program, why = compiler.get(one.name, lambda one=one: text_of(one, ranks))
            assert program, f"{one.name}: {why}"
            found.append((one.name, program))
    return found


def simulated(path, is_gpu, ranks, cases=()):
    """What the probes take on a machine, with the noise of a percent."""
    noise, found = np.random.default_rng(1), []
    for name, program in programs(is_gpu, ranks, cases):
        for mode in ("eager", "graph") if is_gpu else ("eager",):
            seconds = program.simulate(path, graph=mode == "graph").seconds * noise.uniform(.99, 1.01, 5)
            host = np.minimum(seconds, seconds / 2 + 1e-6 * parse(name).repeats)
            found.append({"name": name, "mode": mode, "seconds": seconds.tolist(), "host": host.tolist()})
    return found


def number(machine, path):
    for key in path.split("."):
        machine = machine[key]
    return machine[0]


@pytest.mark.parametrize("true, base, ranks, cases, near", [
    ("cpu2", "cpu2", 2, (), {"device.contention.matmul": .05, "transports.collectives.startup": .3, "launch.streams.run": .3}),
    ("h200x2", "h100x8", 2, CASES, {"launch.graph.device.kernel": .1, "launch.graph.run": .3, "transports.one_sided.startup": .2,
                                    "device.copy_interference": .05, "transports.fused_exchange.signal": .2,
                                    "transports.fused_exchange.count": .2}),
    ("h200x8", "h100x8", 8, (), {"launch.graph.device.kernel": .1, "transports.one_sided.startup": .2,
                                 "transports.fused_exchange.startup": .3})])
def test_a_machine_again(true, base, ranks, cases, near, tmp_path):
    """Probes take on the new machine what they took on the old one; fields have its numbers, though the base file has others."""
    is_gpu, path = true != "cpu2", tmp_path / "again.json"
    measured = simulated(true, is_gpu, ranks, cases)
    calibration = Calibration(ranks, is_gpu, ranks, 2, measured)
    other, wanted = machine(base), machine(true)
    for fields in (other["launch"]["streams"]["issue"], other["transports"]["collectives"], other["device"].get("contention", {})):
        for name in fields:  # so that what is not measured shows
            if isinstance(fields[name], list) and not isinstance(fields[name][0], list):
                fields[name][0] *= 3
    made = calibration.apply(other, "again", "how")
    path.write_text(json.dumps(made))
    taken = {(m["name"], m["mode"]): statistics.median(m["seconds"]) for m in measured}
    errors = [abs(program.simulate(path, graph=mode == "graph").seconds / taken[name, mode] - 1)
              for name, program in programs(is_gpu, ranks, cases) for mode in (("eager", "graph") if is_gpu else ("eager",))]
    assert np.median(errors) < .03 and np.quantile(errors, .8) < .2
    for field, within in near.items():
        found, true_number = number(made, field), number(wanted, field)
        if isinstance(true_number, list):
            true_number = [value for _, value in true_number]
            found = np.median([value for _, value in found]) if isinstance(found, list) else found
            assert min(true_number) * (1 - within) <= found <= max(true_number) * (1 + within), field
        else:
            assert found == pytest.approx(true_number, rel=within), field
    table = next(table for table in made["device"]["matmul"] if "bf16" in table["dtypes"])
    assert table["source"] == "calibrated" and made["sources"]["calibrated"] == {"kind": "measured", "text": "how"}
    took = {(p.m, p.n, p.k): s for p, s in calibration.measured("matmul", not is_gpu) if p.dtype == "bf16"}
    assert table["points"] and all(us * 1e-6 == pytest.approx(took[m, n, k], rel=1e-3) for m, n, k, us in table["points"])


def test_machines_that_extend_others(tmp_path):
    """As the simulator reads them."""
    (tmp_path / "top.json").write_text('{"extends": "middle", "name": "top", "device": {"sms": [66, "1", "estimate"], "gated_matmul": null}}')
    (tmp_path / "middle.json").write_text('{"extends": "h200x4", "devices_per_node": 3}')
    found, base = read_machine(tmp_path / "top.json"), machine("h200x4")
    assert (found["name"], found["devices_per_node"], found["device"].pop("sms")) == ("top", 3, [66, "1", "estimate"])
    del base["device"]["sms"], base["device"]["gated_matmul"]
    assert found["device"] == base["device"] and found["sources"] == base["sources"] and "extends" not in found
    merged = tmp_path / "merged.json"
    merged.write_text(json.dumps(read_machine(tmp_path / "top.json")))
    program = next(program for _, program in programs(True, 2, ()))
    assert program.simulate(merged).data == program.simulate(tmp_path / "top.json").data


def test_nothing_changes_no_number():
    base = machine("h200x8")
    made = Calibration(2, True, 2, 8, []).apply(base, base["name"], "how")
    assert json.dumps({**made, "sources": base["sources"]}, sort_keys=True) == json.dumps({**base, "device": {
        **base["device"], "matmul": made["device"]["matmul"]}}, sort_keys=True)
    tables = {(dtype, json.dumps(table["points"])) for table in base["device"]["matmul"].values() for dtype in table["dtypes"]}
    assert {(dtype, json.dumps(table["points"])) for table in made["device"]["matmul"] for dtype in table["dtypes"]} == tables


def pair(probe, seconds, fixed=20e-6, mode="graph"):
    """A probe of which one command takes so long."""
    return [{"name": one.name, "mode": mode, "seconds": [fixed + seconds * one.repeats] * 3, "host": [5e-6 * one.repeats] * 3}
            for one in (probe.once, probe)]


def calibrated(measured, base="h200x2", ranks=2, is_gpu=True, host_ranks=2, cores=2, change=None):
    data = copy.deepcopy(machine(base))
    if change:
        change(data)
    calibration = Calibration(ranks, is_gpu, host_ranks, cores, measured)
    return calibration.apply(data, "made", "how"), calibration


def test_what_is_shorter_than_the_noise():
    """Has a bound, and keeps the base's number."""
    probe = Probe("put", bytes=4096, repeats=5)
    made, calibration = calibrated(pair(probe, 0))
    assert calibration.seconds(probe) is None and calibration.bound(probe, "graph") == pytest.approx(4e-6)
    assert made["transports"]["one_sided"] == machine("h200x2")["transports"]["one_sided"]


def test_devices_without_kernels():
    """Have no price for them; a refusal for another reason says nothing."""
    for lacks in (True, False):
        refused = [{"name": Probe(kind, **size, repeats=2).name, "mode": "graph", "refused": "no", "no_kernels": lacks} for kind, size in (
            ("gated_product", {"dtype": "bf16", "m": 64, "n": 64, "k": 64}), ("peer_exchange", {"bytes": 256}))]
        made, _ = calibrated(refused, "h200x4")
        assert ("gated_matmul" in made["device"]) != lacks and ("fused_exchange" in made["transports"]) != lacks


def test_messages_by_sms_reach_their_rate_late():
    sizes = [1 << 12, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
    startup = dict(zip(sizes, (10e-6, 20e-6, 30e-6, 40e-6, 40e-6)))
    measured = sum((pair(Probe("message", bytes=size, repeats=3), startup[size] + size / 3e11) for size in sizes), [])

    def by_sms(data):
        data["transports"]["two_sided"]["mover"] = "sm"

    made, _ = calibrated(measured, change=by_sms)
    curve = dict(made["transports"]["two_sided"]["startup"][0])
    assert all(curve[size] * 1e-6 == pytest.approx(startup[size], rel=.01) for size in sizes)
    assert made["links"]["node"]["bandwidth"][0][-1][1] == pytest.approx(300, rel=.01)


def test_puts_with_gaps():
    whole = pair(Probe("put", bytes=probes.ROWS_BYTES, repeats=3), 100e-6) + pair(Probe("put", bytes=4096, repeats=3), 3e-6)
    slow = pair(Probe("rows", bytes=1024, repeats=9), 200e-6) + pair(Probe("rows", bytes=8192, repeats=9), 100e-6)
    made, _ = calibrated(whole + slow)
    assert made["transports"]["one_sided"]["rows"][0] == [[1024, .5], [8192, 1]]
    made, _ = calibrated(whole + slow[2:])
    assert "rows" not in made["transports"]["one_sided"]


def test_matmuls_whose_rows_do_not_begin_at_lines():
    """Follow from those whose do, and are no points of the table."""
    measured = []
    for n, k, seconds in ((4096, 4096, 100e-6), (4096, 4104, 150e-6), (4104, 4104, 180e-6), (4104, 4096, 101e-6)):
        measured += pair(Probe("matmul", "bf16", 1024, n, k, repeats=5), seconds)
    made, _ = calibrated(measured)
    table = next(table for table in made["device"]["matmul"] if "bf16" in table["dtypes"])
    assert table["points"] == [[1024, 4096, 4096, 100]]
    assert table["unaligned"]["left"][0][0] == [16, pytest.approx(1.5 * 4096 / 4104, rel=1e-3)]
    assert table["unaligned"]["both"][0][0] == [16, pytest.approx(1.8 * 4096 / 4104 * 4096 / 4160, rel=1e-3)]
    assert table["unaligned"]["left"][0][-1] == [128, 1]


def test_contention_is_that_of_one_host():
    measured = []
    for alone, seconds in ((True, 1e-3), (False, 1.5e-3)):
        measured += pair(Probe("matmul", "f32", 512, 512, 512, repeats=5, alone=alone), seconds, mode="eager")
    for host_ranks, cores, factor in ((2, 2, 1.5), (4, 2, 1)):
        made, _ = calibrated(measured, "cpu2", host_ranks, False, host_ranks, cores)
        assert made["device"]["contention"]["matmul"][:1] == [factor] and made["device"]["cores"][0] == cores
    made, _ = calibrated(measured, "cpu2", 2, False, 1, 2)  # a rank of this host has a core to itself
    assert made["device"]["contention"] == machine("cpu2")["device"]["contention"]


def test_a_longer_run_takes_more_besides_its_commands():
    measured = []
    for seconds, fixed, count in ((20e-6, 10e-6, 3), (80e-6, 12e-6, 6), (150e-6, 11e-6, 6), (300e-6, 20e-6, 4)):
        for at in range(count):
            measured += pair(Probe("matmul", "bf16", 64 * (at + 1), int(seconds * 1e8), 4096, repeats=5), seconds, fixed)

    def without_issue(data):
        data["launch"]["graph"]["issue"]["matmul"] = [0, "us", "test"]

    made, _ = calibrated(measured, change=without_issue)
    assert made["launch"]["graph"]["run"][0] == [[20, 10], [80, 12], [150, 12]]  # never shorter; four are too few


def test_names_and_texts():
    found = probes_for(4, True, CASES)
    assert len({probe.name for probe in found}) == len(found) and all(parse(probe.name) == probe for probe in found)
    for name in ("", "put", "put x", "put 12", "put f32 1x2x3 4 x5", "matmul x5", "none 4 x5", "put 4 x5 alon", "put 04 x5", "x" * 200):
        assert parse(name) is None
    assert curve_at([[0, 1], [1024, 11]], 32) == 6 and curve_at([[4, 1], [8, 2]], 100) == 2


def test_calibration_of_this_host(tmp_path):
    """A machine file that the simulator takes; it is the same from the recording."""
    path, figures, again = (tmp_path / name for name in ("here.json", "figures.json", "again.json"))
    done = run("-n", 2, "--channel=local", f"--calibrate={path}", "--iterations=2", "--warmup=1", "--sets=1", f"--json={figures}")
    assert "probes simulated on it: median error" in done.stdout
    made = json.loads(path.read_text())
    assert made["name"] == "here" and f"--calibrate={path}" in made["sources"]["calibrated"]["text"]
    points = [point for table in made["device"]["matmul"] if table["source"] == "calibrated" for point in table["points"]]
    assert points and all(1e-3 < m * n * k / us / 1e3 < 1e6 for m, n, k, us in points)  # GFLOP/s, halved
    wanted = run(f"--probe-figures={figures}", f"--calibrate={again}")
    assert wanted.stdout.splitlines()[:-1] == done.stdout.splitlines()[:-1]
    assert {**json.loads(again.read_text()), "name": "here"} == made
    for change, why in (({"tandem_probe_figures": 2}, "expected version 1"), ({"ranks": 1}, "ranks: expected 2 to 65536"),
                        ({"figures": [{"name": "x", "mode": "traced"}]}, "mode: expected eager or graph"),
                        ({"figures": [{"name": "x", "mode": "graph", "times_us": [1], "host_us": []}]}, "expected as many of both")):
        figures.write_text(json.dumps({**json.loads(again.read_text()), "tandem_probe_figures": 1, "ranks": 2, "target": "cpu-local",
                                       "host_ranks": 2, "cores": 2, "command": "", "figures": [], **change}))
        with pytest.raises(Usage, match=why):
            read_figures(figures)


def test_calibration_of_fused_exchanges(tmp_path):
    """Where GPUs that are threads of the host have kernels for them; else the machine has none."""
    if not os.path.exists(FAKE_GPU):
        pytest.skip("this build has no device cuda")
    for channel in ("peer", "local"):
        path = tmp_path / f"{channel}.json"
        run("-n", 2, "--device=cuda", f"--channel={channel}", "--threads", *QUICK, "--modes=graph", "--machine=h200x2", "--iterations=2",
            "--warmup=0", "--sets=1", "--shapes=ag:16x16x16", "--dtypes=f32", f"--calibrate={path}",
            "--probes=peer_exchange,peer_exchange_twice,peer_exchange_blocks", TANDEM_CUDA_LIBRARY=FAKE_GPU, TANDEM_CUBLASLT_LIBRARY=FAKE_GPU)
        exchange = json.loads(path.read_text())["transports"].get("fused_exchange")
        assert (exchange is None) == (channel == "local")
        if exchange:
            assert exchange["startup"][2] == exchange["count"][2] == "calibrated" and exchange["block_signal"][2] == "signals"


def test_too_little_time(tmp_path):
    """What is left is named, and keeps the base's numbers."""
    path = tmp_path / "here.json"
    done = run("-n", 2, "--channel=local", f"--calibrate={path}", "--iterations=1", "--warmup=0", "--sets=1", "--total-time=0.1", status=4)
    assert "not measured, time was up: " in done.stdout and json.loads(path.read_text())["name"] == "here"
