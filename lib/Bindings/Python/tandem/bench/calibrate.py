# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the numbers of a machine file (docs/simulator.md) from what probes took. What could not be measured (a probe was refused, or
took less than the noise) stays as the base file has it."""

import json
import math
import os
from collections import defaultdict
from dataclasses import replace

import numpy as np

from . import probes
from .shapes import Usage

_LEAST = 1e-9  # below this a difference of two runs is noise
_LEAST_PART = 1 / 16  # of what a command takes, if a tiny one takes as long: rates are no smaller numbers
_WHOLE = .97  # from this share of the rate of contiguous memory on, a put with gaps is as fast
_GROWTH = 1.5  # a startup becomes a curve where the largest message's is so many times the smallest one's ...
_MOST_LATE = 1.5  # ... if the rate between the largest messages is at most so many times that of the whole largest one
# Programs of one command measure what a run takes besides its commands. A long command takes longer alone than as one of several,
# since its operands are in no cache: each of these ranges has a median, the first of all commands, the others of at least so
# many matmuls. Puts up to this length measure the start of an engine.
_RANGES, _LEAST_IN_RANGE, _LONGEST_PUT = (0, 50e-6, 100e-6, 200e-6, 400e-6), 5, 500e-6
_SOURCE, _VERSION = "calibrated", 1
HEADER = "ranks", "target", "host_ranks", "cores", "command"
_UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "GB/s": 1e9, "1": 1}


def _rounded(value):
    """Four figures: more would be pretence."""
    return float(f"{value:.4g}")


def _median(values):
    return float(np.median(values))


def _time(field):
    """In seconds: what is kept of a base file may be in any unit."""
    return field[0] * _UNITS[field[1]]


def curve_at(points, at):
    """A curve of a machine file: linear by the logarithm of bytes."""
    xs, ys = zip(*points)
    return float(np.interp(math.log2(max(at, 1)), np.log2(np.maximum(xs, 1)), ys))


def _run_seconds(field, total):
    """The fixed time of a run that takes `total` in all. Points of a curve are by microseconds, whatever its unit."""
    if not isinstance(field[0], list):
        return _time(field)
    unit = _UNITS[field[1]]
    run = curve_at(field[0], total * 1e6) * unit
    return curve_at(field[0], max(0, total - run) * 1e6) * unit  # by the rest of the time


def _steps(kind, ranks, size):
    """(steps, bytes through a port) of a ring, and of a tree if there is one: CollectiveRoute.h."""
    if kind == "all_gather":
        return [(ranks - 1, (ranks - 1) * size)]
    return [(2 * (ranks - 1), 2 * (ranks - 1) / ranks * size), (2 * math.ceil(math.log2(ranks)), 2 * size)]


class Calibration:
    """`measurements`: dicts with name, mode, seconds and host (lists by round), or refused and no_kernels. `host_ranks`: those that
    share this host's `cores`."""

    def __init__(self, ranks, is_gpu, host_ranks, cores, measurements):
        self.ranks, self.is_gpu, self.host_ranks, self.cores = ranks, is_gpu, host_ranks, cores
        self.figures, self.probes, self.lines = {}, {}, []
        self.lacks_gated = self.lacks_exchange = False
        for m in measurements:
            probe = probes.parse(m["name"])
            if probe is None:
                continue
            if m.get("no_kernels"):
                self.lacks_gated |= probe.kind == "gated_product"
                self.lacks_exchange |= probe.is_exchange
            if m.get("seconds"):
                self.figures[m["name"], m["mode"]] = np.array(m["seconds"]), np.array(m["host"])
                if probe.repeats > 1:
                    self.probes.setdefault(probe.name, probe)

    # --- what probes took ---

    def once(self, probe, mode):
        """The median of a run of one command, or None."""
        found = self.figures.get((probe.once.name, mode))
        return None if found is None else _median(found[0])

    def seconds(self, probe, mode=None, of=0):
        """One repeat; None where not measured, or less than the noise. Where there are graphs, from them: the host does not get
        in the way there. `of`: 1 for the time until it was enqueued."""
        if mode is None:
            mode = "graph" if (probe.name, "graph") in self.figures else "eager"
        many, one = (self.figures.get((name, mode)) for name in (probe.name, probe.once.name))
        if many is None or one is None or probe.repeats < 2:
            return None
        # Both were timed in the same round: what comes and goes (clocks, neighbours) cancels.
        count = min(len(many[of]), len(one[of]))
        value = _median((many[of][:count] - one[of][:count]) / (probe.repeats - 1)) if count else 0
        return value if value > _LEAST else None

    def host(self, kind, mode):
        return self.seconds(self.tiny(kind), mode, 1)

    def bound(self, probe, mode):
        """No less than one repeat takes; None where not measured."""
        found = self.figures.get((probe.name, mode))
        return None if found is None else _median(found[0]) / probe.repeats

    def tiny(self, kind):
        """The probe of which only launching counts, one that nobody has measured if need be."""
        return next((p for p in self.probes.values() if p.kind == kind and p.is_tiny), probes.Probe(kind, repeats=2))

    def all(self, kind, alone=False):
        """The others of a kind, by size."""
        return sorted((p for p in self.probes.values() if p.kind == kind and p.alone == alone and not p.is_tiny),
                      key=lambda p: (p.bytes, p.m, p.n, p.k))

    def measured(self, kind, alone=False):
        """Pairs of a probe and its seconds."""
        return [(p, s) for p, s in ((p, self.seconds(p)) for p in self.all(kind, alone)) if s]

    def matmul_seconds(self, of):
        return next((self.seconds(p) for p in self.all("matmul") if p.shape == of.shape), None)

    def put_seconds(self, size):
        """Of a put of so many bytes, between those that were measured; None beyond."""
        points = [(p.bytes, s) for p, s in self.measured("put")]
        if len(points) < 2 or not points[0][0] < size <= points[-1][0]:
            return None
        return float(np.interp(size, *zip(*points)))

    # --- fields ---

    def set(self, target, field, value, unit, path):
        if value is None:
            self.lines.append(f"{path}.{field}: kept")
            return
        target[field] = [_rounded(value / _UNITS[unit]), unit, _SOURCE]
        self.lines.append(f"{path}.{field}: {target[field][0]} {unit}")

    def set_curve(self, target, field, points, unit, path):
        """`points`: (bytes, value)."""
        if not points:
            self.lines.append(f"{path}.{field}: kept")
            return
        made = [[int(size), _rounded(value / _UNITS[unit])] for size, value in points]
        target[field] = [made, unit, _SOURCE]
        self.lines.append(f"{path}.{field}: {', '.join(f'{value} at {size} B' for size, value in made)} {unit}")

    def aligned(self, of):
        """Of a matmul with rows that do not begin at lines of a GPU's cache: one with rows that do, with less than a line of fewer
        columns of N and K; None if it was not probed."""
        line = probes.LINE // probes.SIZES[of.dtype]
        if of.n % line == 0 and of.k % line == 0:
            return None
        return next((p for p in self.all("matmul", not self.is_gpu)
                     if (p.dtype, p.m, p.n, p.k) == (of.dtype, of.m, of.n // line * line, of.k // line * line)), None)

    def unaligned(self, dtype):
        """`unaligned` of a machine file: medians over pairs of probes; None if it was not measured."""
        size = probes.SIZES.get(dtype, 1)
        line = probes.LINE / size
        ratios = {"left": defaultdict(list), "both": defaultdict(list)}
        for p, slow in self.measured("matmul", not self.is_gpu):
            aligned = self.aligned(p)
            fast = aligned and self.seconds(aligned)
            of_k, of_n = ((probes.LINE | columns * size) & -(probes.LINE | columns * size) for columns in (p.k, p.n))
            # Rows that begin at multiples of fewer bytes than a load make other kernels necessary.
            if p.dtype != dtype or not fast or of_k < probes.LOAD or of_n not in (probes.LINE, of_k):
                continue
            work = math.ceil(p.n / line) * line * p.k / (aligned.n * aligned.k)  # a few more columns of N take as long as a line
            ratios["left" if of_n == probes.LINE else "both"][of_k].append(slow / fast / work)
        if not all(ratios.values()):
            return None
        return {name: [[[size, _rounded(max(1, _median(values)))] for size, values in sorted(found.items())] + [[probes.LINE, 1]],
                       "1", _SOURCE] for name, found in ratios.items()}

    def apply_matmuls(self, device):
        tables, known = [], device["matmul"]
        for dtype in ("f32", "f16", "bf16", "f8E4M3FN", "f8E5M2"):
            # Those with unaligned rows follow from the others.
            points = [[p.m, p.n, p.k, _rounded(s * 1e6)] for p, s in self.measured("matmul", not self.is_gpu)
                      if p.dtype == dtype and not self.aligned(p)]
            self.lines.append(f"device.matmul: {len(points)} points for {dtype}{'' if points else ': kept'}")
            kept, found = [], {}
            for table in known.values() if isinstance(known, dict) else known:
                if dtype in table["dtypes"]:
                    found.update({key: table[key] for key in ("unaligned", "tile") if key in table})
                    kept.append({key: [dtype] if key == "dtypes" else value for key, value in table.items() if key not in found})
            if points:  # replaces those of the base, but not what was found otherwise
                kept = [{"dtypes": [dtype], "unit": "us", "source": _SOURCE, "points": points}]
            unaligned = self.unaligned(dtype)
            if unaligned:
                self.lines.append(f"device.matmul.unaligned for {dtype}: {json.dumps(unaligned)}")
                found = {"unaligned": unaligned, **{key: value for key, value in found.items() if key != "unaligned"}}
            if kept:
                kept[0].update({key: found[key] for key in ("unaligned", "tile") if key in found})
            tables += kept
        device["matmul"] = tables

    def apply_gated(self, device):
        points = [[p.m, p.n, p.k, _rounded(matmul / gated)] for p, gated in self.measured("gated_product")
                  for matmul in [self.matmul_seconds(p)] if matmul]
        if points:
            device["gated_matmul"] = {**device.get("gated_matmul", {}), "source": _SOURCE, "points": points}
        elif self.lacks_gated:
            device.pop("gated_matmul", None)
        self.lines.append("device.gated_matmul: " + (f"{len(points)} points" if points else
                          "none: the device has no kernels for it" if self.lacks_gated else "kept"))

    def apply_memory(self, device):
        # Bytes read and written, as the model counts them.
        for kind, field, operands in (("copy", "copy", 2), ("reduce", "reduce", 3), ("accumulate", "elementwise", 3)):
            launching = self.seconds(self.tiny("accumulate" if kind == "reduce" else kind)) or 0
            self.set_curve(device["memory"], field, [
                (operands * p.bytes, operands * p.bytes / max(s - launching, s * _LEAST_PART))
                for p, s in self.measured(kind, not self.is_gpu)], "GB/s", "device.memory")

    def apply_contention(self, device):
        if "cores" not in device or self.is_gpu or self.cores < 2 or self.host_ranks < self.cores:
            return
        device["cores"] = [self.cores, "1", _SOURCE]
        contention = device.setdefault("contention", {})
        for kind, field in (("matmul", "matmul"), ("accumulate", "memory")):
            ratios = [busy / alone for p, busy in self.measured(kind) for alone in [self.seconds(replace(p, alone=True))] if alone]
            # Ranks beyond the cores share them, which is no contention.
            factor = max(1, _median(ratios) * self.cores / self.host_ranks) if ratios else None
            if factor or field in contention:
                self.set(contention, field, factor, "1", "device.contention")
            else:
                contention[field] = [1, "1", _SOURCE]

    def apply_interference(self, device):
        factors = []
        for p, both in self.measured("beside"):
            put, matmul = self.put_seconds(p.bytes), self.matmul_seconds(p)
            if not put or not matmul:
                continue
            self.lines.append(f"{p.name}: {both * 1e6:.1f} us; alone the matmul {matmul * 1e6:.1f} us, the put {put * 1e6:.1f} us")
            # Where the put is over first, the matmul has done put / factor of its work by then.
            left = both - matmul
            if put < .8 * matmul and left < .5 * put:
                factors.append(1 / (1 - max(0, left) / put))
        if factors:
            self.set(device, "copy_interference", _median(factors), "1", "device")

    def apply_launching(self, launch, mode):
        is_graph = mode == "graph"
        name = "graph" if is_graph else "streams"
        path = f"launch.{name}"
        if name not in launch:
            self.lines.append(f"{path}: not in the base file, left out")
            return
        target = launch[name]

        def part(whole, less, count):
            return (whole - less) / count if whole and whole - less > _LEAST else None

        # What a command of a probe has in addition: two kernels, and twice an event recorded and awaited; a signal and a wait.
        kernel, signal = self.host("accumulate", mode), part(self.host("signal", mode), 0, 2)
        for field, value in (("kernel", kernel), ("matmul", self.host("matmul", mode)), ("copy", self.host("put", mode)),
                             ("message", self.host("message", mode)), ("collective", self.host("all_gather", mode)),
                             ("event", part(self.host("hop", mode), 2 * (kernel or 0), 4)), ("signal", signal), ("wait_signal", signal)):
            self.set(target["issue"], field, value, "us", f"{path}.issue")

        def device(kind):
            """Where the host is what the device waits for, the device's own cost does not show."""
            took, issue = self.seconds(self.tiny(kind), mode), self.host(kind, mode)
            return took if took and (is_graph or not issue or took > 1.3 * issue) else None

        kernel = device("accumulate")
        self.set(target["device"], "kernel", kernel, "us", f"{path}.device")
        # A table's times are those of matmuls in a row, a transport's startup that of messages: they hold it.
        for kind, field in (("matmul", "matmul"), ("put", "copy"), ("message", "message"), ("all_gather", "collective")):
            sizes = self.all(kind, kind == "matmul" and not self.is_gpu)
            if sizes and self.seconds(sizes[0]):
                self.set(target["device"], field, 0.0, "us", f"{path}.device")
        self.set(target["device"], "event", part(device("hop"), 2 * kernel, 2) if kernel else None, "us", f"{path}.device")
        # Which of the two it is cannot be told: as in the base.
        there, (first, second) = device("signal"), (_time(target["device"][field]) for field in ("signal", "wait_signal"))
        share = first / (first + second) if first + second > 0 else .5
        for field, count in (("signal", share), ("wait_signal", 1 - share)):
            self.set(target["device"], field, there * count if there and there > _LEAST else None, "us", f"{path}.device")
        self.apply_run(target, mode, path)
        self.set(target, "engine_start", self.engine_start(target, mode), "us", path)
        if is_graph:  # else the host may be what a put waits for
            self.set(target, "engine_change", self.engine_change(target), "us", path)

    def engine_start(self, launch, mode):
        """What a put, a signal to each side and their waits take beyond what is known of each: the put waits for the start of the
        run alone."""
        signals = 2 * sum(_time(launch["device"][field]) for field in ("signal", "wait_signal"))
        rest = [one - s - _run_seconds(launch["run"], one) - _time(launch["issue"]["copy"]) - signals
                for p, s in self.measured("put") for one in [self.once(p, mode)] if one is not None and s <= _LONGEST_PUT]
        return max(0, _median(rest)) if rest else None

    def engine_change(self, launch):
        """What a run with a put that waits for another stream's matmul takes beyond both, a hop there and back, and two signals and
        waits."""
        rest, device = [], {field: _time(launch["device"][field]) for field in ("event", "signal", "wait_signal")}
        for p in self.all("behind"):
            both, put, matmul = self.once(p, "graph"), self.put_seconds(p.bytes), self.matmul_seconds(p)
            if both is None or not put or not matmul:
                continue
            rest.append(both - put - matmul - _run_seconds(launch["run"], both) - _time(launch["issue"]["matmul"])
                        - 2 * sum(device.values()))
            self.lines.append(f"{p.once.name}: {both * 1e6:.1f} us; alone the put {put * 1e6:.1f} us, the matmul {matmul * 1e6:.1f} us")
        return max(0, _median(rest)) if rest else None

    def apply_run(self, launch, mode, path):
        points, longest = [], 0
        for low, high in zip(_RANGES, _RANGES[1:]):
            times, rest = [], []
            for kind in ("matmul", "copy", "reduce") if low == 0 else ("matmul",):
                for p, s in self.measured(kind, not self.is_gpu):
                    one = self.once(p, mode)
                    if one is not None and low <= s < high:
                        whole = _time(launch["issue"]["matmul" if kind == "matmul" else "kernel"]) + s
                        times.append(whole)
                        rest.append(one - whole)
            # Next to others on the same cores, long ones vary by more than a run.
            if not rest or low and (not self.is_gpu or len(rest) < _LEAST_IN_RANGE):
                continue
            longest = max(longest, _median(rest))  # longer commands never make a run shorter
            points.append([_rounded(_median(times) * 1e6), _rounded(longest * 1e6)])
        if points:
            launch["run"] = [points if len(points) > 1 else points[0][1], "us", _SOURCE]
        self.lines.append(f"{path}.run: {json.dumps(launch['run'][0]) + ' us' if points else 'kept'}")

    def apply_messages(self, file):
        node, transports = file["links"]["node"], file["transports"]
        together = self.ranks if node["topology"] == "shared" else 1  # one medium carries all ranks' messages at once
        rates = []
        for kind, field in (("message", "two_sided"), ("put", "one_sided")):
            sizes, transport, path = self.all(kind), transports[field], f"transports.{field}"
            # The smallest one that could be told from noise.
            small = [s for s in (self.seconds(self.tiny(kind)), sizes and self.seconds(sizes[0])) if s]
            least = min(small) if small else None
            late = self.startups(transport, self.measured(kind), path) if transport.get("mover") == "sm" else None
            if late:
                mine = [(sizes[-1].bytes, together * late)]
            else:
                self.set(transport, "startup", least, "us", path)
                mine = [(p.bytes, together * p.bytes / max(s - least, s * _LEAST_PART))
                        for p, s in self.measured(kind) if p != sizes[0]] if least else []
            if not mine:
                continue
            # The link is as fast as the faster transport shows; the other one limits itself.
            if not rates or mine[-1][1] > rates[-1][1]:
                rates = mine
            transport.pop("bandwidth", None)
            transport["bandwidth"] = [_rounded(mine[-1][1] / 1e9), "GB/s", _SOURCE]
        for field in ("two_sided", "one_sided"):
            found = transports[field].get("bandwidth")
            if found and rates and found[2] == _SOURCE and found[0] * 1e9 > .95 * rates[-1][1]:
                del transports[field]["bandwidth"]
        # What a small one takes beyond its startup is noise: none is faster than the fastest larger one.
        most = rates[-1][1] if rates else 0
        for at in range(len(rates) - 1, -1, -1):
            rates[at] = rates[at][0], min(rates[at][1], most)
        self.set_curve(node, "bandwidth", rates, "GB/s", "links.node")
        if rates:
            self.set(node, "latency", 0.0, "us", "links.node")

    def startups(self, transport, times, path):
        """SMs move a message in rounds, and reach the link's rate late in it: the rate, which is returned, is that between the two
        largest messages, and `startup` is the rest of each size's time. None if that hardly grows, or if the rate must be noise."""
        if len(times) < 3:
            return None
        (fewer, before), (most, last) = ((p.bytes, s) for p, s in times[-2:])
        if last <= before or (most - fewer) / (last - before) > _MOST_LATE * most / last:
            return None
        rate = (most - fewer) / (last - before)
        rest = [(p.bytes, max(0, s - p.bytes / rate)) for p, s in times]
        if rest[-1][1] < _GROWTH * rest[0][1]:
            return None
        self.set_curve(transport, "startup", rest, "us", path)
        return rate

    def apply_rows(self, file):
        whole = next((s for p, s in self.measured("put") if p.bytes == probes.ROWS_BYTES), None)
        shares = [(p.bytes, whole * (probes.ROWS_BYTES - probes.ROWS_BYTES % p.bytes) / probes.ROWS_BYTES / s)
                  for p, s in self.measured("rows")] if whole else []
        if not shares:
            return
        shares = [(size, share if share < _WHOLE else 1) for size, share in shares]
        file["transports"]["one_sided"].pop("rows", None)
        if any(share < 1 for _, share in shares):
            self.set_curve(file["transports"]["one_sided"], "rows", shares, "1", "transports.one_sided")

    def apply_exchange(self, file):
        transports, path = file["transports"], "transports.fused_exchange"
        if self.lacks_exchange:
            transports.pop("fused_exchange", None)
            self.lines.append(f"{path}: none: the device has no kernels for it")
            return
        launch = file["launch"].get("graph") or file["launch"]["streams"]
        one, twice, blocks = (self.seconds(self.tiny(kind)) for kind in ("peer_exchange", "peer_exchange_twice", "peer_exchange_blocks"))
        startup = signal = None
        if one and twice:
            exchanged = max(0, twice - one)
            signal = max(0, exchanged - _time(file["links"]["node"]["latency"]))
            startup = max(0, one - exchanged - _time(launch["device"]["kernel"]))

        # Parts of B bytes of P ranks by one block: a gather reads and writes 2 B and stores (P - 1) B. A reduce-scatter does the
        # same and adds P parts to one; a small gather follows it.
        gather, reduce = ((self.measured(kind) or [None])[0] for kind in ("peer_exchange", "peer_exchange_reduce"))
        stores = memory = None
        if gather and reduce and one:
            more = gather[0].bytes - probes.TINY
            gathers = max(gather[1] - one, gather[1] * _LEAST_PART)
            adds = max(reduce[1] - 2 * one - gathers * gather[0].bytes / more, reduce[1] * _LEAST_PART)
            memory = (self.ranks + 1) * reduce[0].bytes / adds
            stores = (self.ranks - 1) * more / max(gathers - 2 * more / memory, gather[1] * _LEAST_PART)

        if "fused_exchange" not in transports and not (startup and signal):  # a machine without it gets it only whole
            self.lines.append(f"{path}: kept")
            return
        exchange = transports.setdefault("fused_exchange", {})
        for field, value, unit in (("startup", startup, "us"), ("signal", signal, "us"),
                                   ("count", max(0, blocks - one) if one and blocks else None, "us"),
                                   ("block_stores", stores, "GB/s"), ("block_memory", memory, "GB/s")):
            self.set(exchange, field, value, unit, path)

    def step_seconds(self):
        """By a tiny all-gather and a tiny all-reduce, which has more steps; None where they do not tell."""
        gather, reduce = self.seconds(self.tiny("all_gather")), self.seconds(self.tiny("all_reduce"))
        steps = self.ranks - 1
        more = min(count for count, _ in _steps("all_reduce", self.ranks, 0)) - steps
        if not gather or not reduce or more <= 0 or reduce <= gather:
            return None
        return min((reduce - gather) / more, gather / steps)

    def apply_collectives(self, file):
        target, path, steps = file["transports"]["collectives"], "transports.collectives", self.ranks - 1
        least, step = self.seconds(self.tiny("all_gather")), self.step_seconds()
        # Where all-reduces do not tell, half of it is the steps', if the base has any.
        if not step and least and target["step"][0] > 0:
            step = least / 2 / steps
        self.set(target, "startup", least - (step or 0) * steps if least else None, "us", path)
        if step:
            self.set(target, "step", step, "us", path)
        scatters = {p.bytes: s for p, s in self.measured("reduce_scatter")}
        points = []
        for p, s in self.measured("all_gather") if least else ():
            s = (s + scatters.get(p.bytes, s)) / 2  # there is one curve for all kinds: between those two
            points.append((steps * p.bytes, steps * p.bytes / max(s - least, s * _LEAST_PART)))
        self.set_curve(target, "bandwidth", points, "GB/s", path)
        rates = []
        for p, s in self.measured("all_reduce") if len(points) > 1 else ():
            # The model takes the faster one of a ring and a tree. It takes as long as this one did if the rate is the lesser one of
            # those by which either does.
            rate, through = min((through / max(s - _time(target["startup"]) - count * _time(target["step"]), s * _LEAST_PART), through)
                                for count, through in _steps("all_reduce", self.ranks, p.bytes))
            rates.append((through, rate / curve_at(points, through)))
        if rates:
            self.set_curve(target, "all_reduce", rates, "1", path)

    def apply(self, base, name, how):
        """The base file's data with the numbers that were measured, of source "calibrated", whose text is `how`. `lines`: what was
        replaced and what was kept."""
        file = json.loads(json.dumps(base))
        file["name"] = name
        file["sources"][_SOURCE] = {"kind": "measured", "text": how}
        for apply in (self.apply_matmuls, self.apply_gated, self.apply_memory, self.apply_contention, self.apply_interference):
            apply(file["device"])
        for mode in ("eager", "graph"):
            if mode == "eager" or any(key[1] == mode for key in self.figures):
                self.apply_launching(file["launch"], mode)
        for apply in (self.apply_messages, self.apply_rows, self.apply_exchange, self.apply_collectives):
            apply(file)
        return file


# --- files ---


def figures(header, measurements, not_measured, predicted=()):
    """What probes took, as data of a file: a machine file can be made of it again without the machine. `header`: ranks, target,
    host_ranks, cores, command. `predicted`: seconds by (name, mode)."""
    predicted, found = dict(predicted), []
    for m in measurements:
        entry = {"name": m["name"], "mode": m["mode"]}
        if not m.get("seconds"):
            found.append({**entry, "refused": m["refused"], **({"no_kernels": True} if m.get("no_kernels") else {})})
            continue
        probe = probes.parse(m["name"])
        entry.update(repeats=probe.repeats, median_us=_us(_median(m["seconds"])), p10_us=_us(np.quantile(m["seconds"], .1)),
                     host_median_us=_us(_median(m["host"])))
        if predicted.get((m["name"], m["mode"])):
            seconds = predicted[m["name"], m["mode"]]
            entry.update(predicted_us=_us(seconds), prediction_error=seconds / _median(m["seconds"]) - 1)
        found.append({**entry, "times_us": list(map(_us, m["seconds"])), "host_us": list(map(_us, m["host"]))})
    return {"tandem_probe_figures": _VERSION, **dict(zip(HEADER, header)), "not_measured": list(not_measured), "figures": found}


def _us(seconds):
    """To whole nanoseconds: what is made of the figures is the same when it is made of the file."""
    return round(float(seconds) * 1e9) / 1e3


def read_figures(path):
    """The data of such a file, and its measurements. Raises Usage."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        if data.get("tandem_probe_figures") != _VERSION:
            raise ValueError(f"tandem_probe_figures: expected version {_VERSION}; --calibrate with --json writes such a file")
        if not 2 <= data["ranks"] <= 65536:
            raise ValueError(f"ranks: expected 2 to 65536, found {data['ranks']}")
        for key in HEADER:
            data[key]
        measurements = []
        for at, entry in enumerate(data["figures"]):
            m = {"name": entry["name"], "mode": entry["mode"], "refused": entry.get("refused"), "no_kernels": entry.get("no_kernels")}
            if m["mode"] not in ("eager", "graph"):
                raise ValueError(f"figures[{at}]: mode: expected eager or graph, found {m['mode']!r}")
            if m["refused"] is None:
                m["seconds"], m["host"] = ([round(value * 1e3) * 1e-9 for value in entry[key]] for key in ("times_us", "host_us"))
                if not m["seconds"] or len(m["seconds"]) != len(m["host"]):
                    raise ValueError(f"figures[{at}]: times_us, host_us: expected as many of both, at least one")
            measurements.append(m)
        return data, measurements
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"expected {error}" if isinstance(error, KeyError) else str(error)
        raise Usage(f"{path}: {why}") from None


def dump(data):
    """A line for each figure: lists of times are long."""
    head = json.dumps({key: value for key, value in data.items() if key != "figures"}, indent=1)
    return head[:-2] + ',\n "figures": [\n  ' + ",\n  ".join(map(json.dumps, data["figures"])) + "\n ]\n}\n"


def read_machine(path):
    """The data of a machine file with what it extends, a file next to it or a shipped one."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if "extends" not in data:
        return data
    base = data.pop("extends").removesuffix(".json")
    near = os.path.join(os.path.dirname(path), base + ".json")
    return _merged(read_machine(near if os.path.exists(near) else machine_path(base)), data)


def _merged(base, changes):
    """By the rules of a JSON merge patch."""
    for key, value in changes.items():
        if value is None:
            base.pop(key, None)
        else:
            under = base.get(key)
            base[key] = _merged(under if isinstance(under, dict) else {}, value) if isinstance(value, dict) else value
    return base


def machine_path(name):
    """Of a name such as h200x8, or a path."""
    if os.sep in name or name.endswith(".json"):
        return name
    here = os.path.dirname(os.path.abspath(__file__))
    shares = (os.path.join(here, *above, "share", "tandem", "machines") for above in ([".."], ["..", "..", ".."]))  # a wheel, a build
    for folder in (os.environ.get("TANDEM_MACHINES"), *shares):
        if folder and os.path.exists(os.path.join(folder, name + ".json")):
            return os.path.join(folder, name + ".json")
    raise Usage(f'--machine: expected one of the machine files, or a path, found "{name}"; TANDEM_MACHINES names their folder')
