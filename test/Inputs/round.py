# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a machine file with round numbers, for tests of choices by cost:

    round.py [FIELD=JSON ...] [transports.fused_exchange=]

A device multiplies 500 TFLOP/s, its memory gives 4 TB/s, its link 400 GB/s, and collectives 300 GB/s. Messages begin after
10 us, copies after 5 us. FIELD is a path such as device.sm_interference; its value is a number with its unit, or what the
field takes. null takes the field out. There are no kernels of gated matmuls or fused exchanges unless given; without a value
the latter have round numbers, too."""

import json
import sys


def of(value, unit="us"):
    return [value, unit, "round"]


COMMANDS = ("kernel", "matmul", "copy", "message", "collective", "event", "signal", "wait_signal")


def launch(microseconds):
    return {kind: of(microseconds) for kind in COMMANDS}


MACHINE = {
    "tandem_machine": 1, "name": "round", "about": "Round numbers, for tests.",
    "sources": {"round": {"kind": "estimate", "text": "made up"}},
    "nodes": 1, "devices_per_node": "any",
    "device": {
        "sms": of(100, "1"), "copy_engines": of(4, "1"), "copy_interference": of(1, "1"), "sm_interference": of(2, "1"),
        "least_gain_beside_sms": of(0.2, "1"),
        "memory": {kind: of(4, "TB/s") for kind in ("copy", "reduce", "elementwise")},
        "matmul": [
            {"dtypes": ["f16", "bf16"], "unit": "GFLOP/s", "source": "round", "points": [[128, 1024, 1024, 250000], [1024, 1024, 1024, 500000]]},
            {"dtypes": ["f32"], "unit": "GFLOP/s", "source": "round", "points": [[1024, 1024, 1024, 250000]]},
            {"dtypes": ["f8E4M3FN", "f8E5M2"], "unit": "GFLOP/s", "source": "round",
             "points": [[1024, 1024, 1024, 1000000]]}]},
    "launch": {"streams": {"issue": launch(5), "device": launch(1), "run": of(0)},
               "graph": {"issue": launch(0), "device": launch(1), "run": of(5), "engine_start": of(10),
                         "engine_change": of(20)}},
    "links": {"node": {"topology": "switch", "latency": of(0), "bandwidth": of(400, "GB/s"), "sharing": of(0.8, "1")}},
    "transports": {
        "two_sided": {"mover": "sm", "sms": of(4, "1"), "startup": of(10), "bandwidth": of(100, "GB/s")},
        "one_sided": {"mover": "copy", "startup": of(5)},
        "collectives": {"mover": "sm", "sms": of(16, "1"), "startup": of(15), "step": of(0), "bandwidth": of(300, "GB/s")}},
    "selection": {"gain": of(0.05, "1"), "gain_of_copies": of(0.02, "1"), "gain_of_stores": of(0.1, "1"),
                  "tolerance": of(0.02, "1"), "time": of(5), "time_of_gathers": of(5), "time_of_kernel": of(1),
                  "time_of_split": of(50)},
}

#: The kernel of fused exchanges.
EXCHANGE = {"startup": of(0), "signal": of(5), "count": of(2), "block_stores": of(30, "GB/s"), "block_memory": of(150, "GB/s")}


for change in sys.argv[1:]:
    path, _, value = change.partition("=")
    *folders, name = path.split(".")
    folder = MACHINE
    for one in folders:
        folder = folder[int(one)] if one.isdigit() else folder.setdefault(one, {})
    if value == "null":
        folder.pop(name, None)
    else:
        value = json.loads(value) if value else dict(EXCHANGE)
        is_number = isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)
        folder[name] = [*value, "round"] if is_number else value
json.dump(MACHINE, sys.stdout)
