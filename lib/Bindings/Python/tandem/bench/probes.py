# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a calibration measures: a command, once and several times in one program. The difference of the two programs is what one
command takes, without the fixed cost of a run. Probes are known by their names, such as "put 65536 x33"."""

import math
import re
from collections import namedtuple
from dataclasses import dataclass, replace

TINY, TINY_EXTENT, MANY, FEW = 256, 4, 65, 5  # sizes of which only launching counts, and repeats
ROWS_BYTES = 16 << 20
_BLOCKS, _KIBI, _MEBI = 8, 1 << 10, 1 << 20
LINE, LOAD = 128, 16  # bytes of a cache line of GPUs, and of a load
# About what GPUs do, in bytes or operations a second: it decides how often something is repeated.
_MEMORY, _LINK, _BLOCK = 3e12, 3e11, 3e10
_LONGEST_BESIDE, _SHORTEST_UNALIGNED, _LARGEST_BESIDE = 400e-6, 30e-6, 64 * _MEBI
_MOST_BESIDE, _MOST_UNALIGNED = 4, 8
SIZES = {"f32": 4, "f16": 2, "bf16": 2, "f8E4M3FN": 1}

#: A kind of probe. `has_shape`, `has_bytes`: what its name has. `rate`: of its bytes, about. `can`: what it needs of the channel.
#: Messages and puts go round in a ring; puts end in one signal. signal: to the right-hand rank, and the left-hand one's is
#: awaited. hop: a tiny accumulation, one on a worker stream that waits for it, and the main stream waits for that. beside: a
#: matmul, and a put on a worker stream at the same time. behind: a matmul, then a longer put on a worker stream, and beside
#: that the matmul again. gated_product: a gated matmul that waits for nothing. peer_exchange: an all-gather by one thread block;
#: _twice: a two-shot all-reduce; _blocks: the gather by 8; _reduce: a reduce-scatter, then a small gather. rows: a put of 16 MiB in rows
#: of so many bytes, between which as many are left out at the target.
Kind = namedtuple("Kind", "has_shape has_bytes rate can")
KINDS = {
    "matmul": Kind(True, False, None, None), "copy": Kind(False, True, _MEMORY, None), "reduce": Kind(False, True, _MEMORY, None),
    "accumulate": Kind(False, True, _MEMORY, None), "hop": Kind(False, False, None, None),
    "message": Kind(False, True, _LINK, "two_sided"), "put": Kind(False, True, _LINK, "one_sided"),
    "rows": Kind(False, True, _LINK, "one_sided"), "signal": Kind(False, False, None, "one_sided"),
    "all_gather": Kind(False, True, _LINK, "collectives"), "reduce_scatter": Kind(False, True, _LINK, "collectives"),
    "all_reduce": Kind(False, True, _LINK, "collectives"), "beside": Kind(True, True, None, "one_sided"),
    "behind": Kind(True, True, None, "one_sided"), "gated_product": Kind(True, False, None, None),
    **dict.fromkeys(("peer_exchange", "peer_exchange_twice", "peer_exchange_blocks", "peer_exchange_reduce"), Kind(False, True, _BLOCK, "one_sided"))}
_NAME = re.compile(r"([a-z_]+)(?: (f32|f16|bf16|f8E4M3FN) (\d{1,9})x(\d{1,9})x(\d{1,9}))?(?: (\d{1,15}))? x(\d{1,4})( alone)?")


@dataclass(frozen=True)
class Probe:
    kind: str
    dtype: str = "f32"
    m: int = 0
    n: int = 0
    k: int = 0
    bytes: int = 0  # of an operand, a message, a rank's slice, a row
    repeats: int = 1
    alone: bool = False  # only rank 0 works

    @property
    def name(self):
        kind = KINDS[self.kind]
        shape = f" {self.dtype} {self.m}x{self.n}x{self.k}" if kind.has_shape else ""
        return f"{self.kind}{shape}{f' {self.bytes}' if kind.has_bytes else ''} x{self.repeats}{' alone' if self.alone else ''}"

    @property
    def once(self):
        return replace(self, repeats=1)

    @property
    def shape(self):
        return self.dtype, self.m, self.n, self.k

    @property
    def is_tiny(self):
        """Only launching counts."""
        kind = KINDS[self.kind]
        return max(self.m, self.n, self.k) <= TINY_EXTENT if kind.has_shape else not kind.has_bytes or self.bytes <= TINY

    @property
    def is_exchange(self):
        return self.kind.startswith("peer_exchange")

    @property
    def seconds(self):
        """Of a matmul, about."""
        rate = {"f32": 2e14, "f8E4M3FN": 1.2e15}.get(self.dtype, 6e14)
        return 2.0 * self.m * self.n * self.k / rate

    @property
    def is_compute_bound(self):
        """It needs less than half the rate of memory, for which a put would compete with others."""
        elements = float(self.m) * self.k + float(self.n) * self.k + float(self.m) * self.n
        return elements * SIZES[self.dtype] < _MEMORY / 2 * self.seconds


def parse(name):
    """The probe of that name, or None."""
    match = _NAME.fullmatch(name) if len(name) <= 128 else None
    if not match or match[1] not in KINDS:
        return None
    m, n, k, size, repeats = (int(match[i] or 0) for i in range(3, 8))
    probe = Probe(match[1], match[2] or "f32", m, n, k, size, repeats, bool(match[8]))
    return probe if probe.name == name else None


def _repeats(seconds, least):
    """A program of a millisecond shows a difference well, and a longer one warms the device."""
    return int(min(max(1e-3 / seconds, least), 33))


class _Probes(dict):
    """By name, in order."""

    def __init__(self, ranks, is_gpu):
        self.ranks, self.is_gpu = ranks, is_gpu

    def put(self, probe):
        self.setdefault(probe.name, probe)

    def add(self, kinds, sizes, alone=False):
        for kind, size in ((kind, size) for size in sizes for kind in kinds):
            rate = KINDS[kind].rate
            repeats = MANY if size <= TINY else _repeats(size / rate, 3) if self.is_gpu else FEW
            self.put(Probe(kind, bytes=size, repeats=repeats, alone=alone))

    def matmul(self, dtype, m, n, k, alone):
        probe = Probe("matmul", dtype, m, n, k)
        repeats = MANY if probe.is_tiny else _repeats(probe.seconds, 2) if self.is_gpu else FEW
        self.put(replace(probe, repeats=repeats, alone=alone))

    def of_case(self, case, pieces):
        """A rank's matmul, in so many pieces of its rows."""
        _, n, k = case.local_matmul(self.ranks)
        m, dtype = case.m // pieces, case.types.factor
        if min(m, n, k) < 1:
            return
        self.matmul(dtype, m, n, k, not self.is_gpu)
        if not self.is_gpu and pieces == 1:
            self.matmul(dtype, m, n, k, False)

    def matmuls(self):
        return [probe for probe in self.values() if probe.kind == "matmul" and not probe.is_tiny]

    def of_sizes(self):
        shapes = ((64, 256, 256), (256, 256, 256), (256, 512, 512), (512, 512, 512), (512, 1024, 512), (512, 1024, 1024))
        for dtype in ("f32", "f16", "bf16"):
            for shape in shapes:
                self.matmul(dtype, *shape, True)
        for shape in shapes:
            self.matmul("f32", *shape, False)

    def of_layers(self, layers):
        for case in layers:  # f16 is for the small ones; an all-reduce has the matmuls of a reduce-scatter
            if case.op != "ar" and (case.dtype != "f16" or min(case.n, case.k) <= 4096):
                self.of_case(case, 1)
                self.of_case(case, self.ranks)
        for m in (1024, 8192):
            self.matmul("f32", m, 4096, 4096, False)

    def beside(self):
        """Matmuls beside a put that takes half as long, and one that takes twice as long: the longest, to which a hop is little."""
        longest = [probe for probe in self.matmuls() if probe.seconds <= _LONGEST_BESIDE and probe.is_compute_bound]
        for probe in sorted(longest, key=lambda one: -one.seconds)[:_MOST_BESIDE]:
            for part in (.5, 2.):
                size = min(int(part * probe.seconds * _LINK) // 64 * 64, _LARGEST_BESIDE)
                if size > 0:
                    self.put(replace(probe, kind="beside", bytes=size, repeats=_repeats(max(1., part) * probe.seconds, 2)))

    def behind(self, sizes):
        """Puts behind matmuls of at most half their time: the end of the put is the end of all."""
        for size in sizes:
            shorter = [probe for probe in self.matmuls() if probe.seconds < size / _LINK / 2]
            if shorter:
                self.put(replace(max(shorter, key=lambda one: one.seconds), kind="behind", bytes=size, repeats=2, alone=False))

    def gated(self):
        """Matmuls that gated kernels compute (docs/gated.md); a shape in one type."""
        seen = set()
        for probe in self.matmuls():
            if SIZES[probe.dtype] == 2 and probe.n % 8 == 0 and probe.k % 8 == 0 and probe.shape[1:] not in seen:
                seen.add(probe.shape[1:])
                self.put(replace(probe, kind="gated_product"))

    def unaligned(self):
        """Some matmuls of 16 bits, quick ones and slow ones, with a little more of N, of K, or of both: rows of factors then begin
        at multiples of 16, 32 and 64 bytes instead of lines."""
        aligned = sorted((probe for probe in self.matmuls() if SIZES[probe.dtype] == 2 and (probe.n | probe.k) % (LINE // 2) == 0
                          and _SHORTEST_UNALIGNED <= probe.seconds <= _LONGEST_BESIDE), key=lambda one: (one.seconds, one.name))
        count = min(len(aligned), _MOST_UNALIGNED)
        for at in range(count):
            probe = aligned[at * len(aligned) // count]
            for more in (8, 16, 32):
                for n, k in ((more, 0), (0, more), (more, more)):
                    self.matmul(probe.dtype, probe.m, probe.n + n, probe.k + k, probe.alone)


def probes_for(ranks, is_gpu, cases=(), layers=()):
    """The probes of a machine, what matters most first; large ones for GPUs. `cases`: their matmuls on a rank are probed, whole and
    of the rows that schedules compute at a time. Without: a few sizes, on GPUs those of `layers`."""
    p = _Probes(ranks, is_gpu)
    # The runtime's own costs; one rank alone, where ranks share cores.
    p.matmul("f32", TINY_EXTENT, TINY_EXTENT, TINY_EXTENT, not is_gpu)
    p.add(("copy", "accumulate"), [TINY], not is_gpu)
    p.put(Probe("hop", repeats=MANY, alone=not is_gpu))
    p.add(("put", "message", "all_gather", "all_reduce"), [TINY])
    p.put(Probe("signal", repeats=MANY))
    if is_gpu:
        p.add(("peer_exchange", "peer_exchange_twice", "peer_exchange_blocks"), [TINY])
        p.add(("peer_exchange", "peer_exchange_reduce"), [_MEBI])
    for pieces in (1, ranks, 2 * ranks, 4 * ranks):
        for case in cases:
            p.of_case(case, pieces)
    sizes = [size * _KIBI for size in ((4, 64, 1024, 4096, 16384, 32768, 65536) if is_gpu else (4, 64, 1024, 8192))]
    p.add(("put",), sizes)
    p.add(("all_gather",), sizes)
    if is_gpu:
        p.add(("reduce_scatter",), [size for size in sizes if size >= _MEBI])
        p.add(("all_reduce",), [size for size in sizes if size >= 64 * _KIBI])
        for row in (1024, 1536, 2048, 3072, 4096, 4608, 6144, 8192, 9216, 10240, 12288, 16384):  # as slices of columns have them
            p.put(Probe("rows", bytes=row, repeats=9))
        p.beside()
    p.add(("message",), sizes)
    for size in (64 * _KIBI, _MEBI, 8 * _MEBI, 64 * _MEBI, 256 * _MEBI) if is_gpu else (64 * _KIBI, _MEBI, 16 * _MEBI):
        p.add(("copy", "reduce", "accumulate"), [size], not is_gpu)
        if not is_gpu:
            p.add(("accumulate",), [size])
    # Last, as they take longest: where time is up, the base has such numbers.
    if not cases:
        p.of_layers(layers) if is_gpu else p.of_sizes()
    if is_gpu:
        p.gated()
        p.behind([16 * _MEBI, 32 * _MEBI, 64 * _MEBI])
        p.unaligned()  # last, so that no other probe is made of these
    return list(p.values())


# --- the programs ---


def _memory(dtype, *extents, symmetric=False):
    return f"memref<{''.join(f'{extent}x' for extent in extents)}{dtype}{', #hostir.symmetric' if symmetric else ''}>"


_RING = """hostir.signal %c0 = %c1 at %right via %ch on %main
  hostir.wait_signal %c0 >= %c1 via %ch on %main
  hostir.signal %c1 = %c1 at %left via %ch on %main
  hostir.wait_signal %c1 >= %c1 via %ch on %main
  hostir.dealloc %slot on %main : {}"""


def _matmul(p, left, right):
    """Arguments and the command; 8-bit b is stored along K, as GPUs read it."""
    is_eight = SIZES[p.dtype] == 1
    a, b = _memory(p.dtype, p.m, p.k), _memory(p.dtype, *((p.n, p.k) if is_eight else (p.k, p.n)))
    c = _memory("bf16" if is_eight else p.dtype, p.m, p.n)
    return (f"{left}: {a}, {right}: {b}, %c: {c} {{hostir.result}}",
            f"hostir.matmul {left}, {right} to %c on %main {'{transpose_b} ' if is_eight else ''}: {a}, {b} to {c}")


def _exchange(p, count, ranks):
    """A gather by one block or by _BLOCKS; a two-shot all-reduce, so two rounds of signals; or a reduce-scatter, then a gather
    of a few bytes: peers store the next values once all have added these."""
    whole, own, before, after, size = _memory("f32", ranks, count), _memory("f32", count), [], [], 0

    def alloc(name, *extents):
        nonlocal size
        kind = _memory("f32", *extents, symmetric=True)
        before.append(f"{name} = hostir.alloc on %main {{offset = {size} : i64}} : {kind}")
        after.append(f"hostir.dealloc {name} on %main : {kind}")
        size += (math.prod(extents) * 4 + 63) // 64 * 64
        return kind

    def exchange(kind, source, to, scratch, slot, types):
        return (f"hostir.peer_exchange {kind} {source} to {to}{f' scratch {scratch}' if scratch else ''} slot {slot} value %value blocks "
                f"{_BLOCKS if p.kind == 'peer_exchange_blocks' else 1} via %ch on %main : {types}")

    def gather(source, n, slot):
        return exchange("all_gather", source, "%gathered", None, slot, f"{_memory('f32', n)} to {alloc('%gathered', ranks, n)}")

    each, arguments = ["%value = arith.addi %i, %c1 : index"], ""
    if p.kind == "peer_exchange_reduce":
        arguments = f"%a: {whole}, %b: {_memory('f32', TINY // 4)}, %c: {own} {{hostir.result}}"
        each.append(exchange("reduce_scatter", "%a", "%c", "%slots", 0, f"{whole} to {own} scratch {alloc('%slots', ranks, count)}"))
        each.append(gather("%b", TINY // 4, ranks))
    else:
        operand = whole if p.kind == "peer_exchange_twice" else own
        arguments = f"%a: {operand}, %c: {operand} {{hostir.result}}"
        if p.kind == "peer_exchange_twice":
            slots = alloc("%slots", ranks, 1, count)
            each.append(exchange("two_shot_all_reduce", "%a", "%sums", "%slots", 0,
                                 f"{whole} to {alloc('%sums', ranks, count)} scratch {slots}"))
        else:
            each.append(gather("%a", count, 0))
        after.append(f"hostir.copy %a to %c on %main : {operand} to {operand}")
    return arguments, "\n  ".join(before), "\n    ".join(each), "\n  ".join(after), size


def _pieces(p, ranks):
    """Arguments, what comes before, each time and after, bytes of symmetric memory."""
    if p.kind in ("matmul", "gated_product"):
        arguments, each = _matmul(p, "%a", "%b")
        return arguments, "", each if p.kind == "matmul" else f"hostir.gated_matmul on %main reserve 0 {{\n      {each}\n    }}", "", 0
    count = max(1, p.bytes // 4)
    if p.is_exchange:
        return _exchange(p, count, ranks)
    one, two, whole = _memory("f32", count), _memory("f32", 2, count), _memory("f32", ranks, count)
    shared = _memory("f32", count, symmetric=True)
    plain, copy = f"%a: {one}, %c: {one} {{hostir.result}}", f"hostir.copy %a to %c on %main : {one} to {one}"
    if p.kind in ("put", "beside", "behind"):
        put = f"hostir.put %a to %slot at %right via %ch on {{}} : {one} to {shared}"
        arguments, each = plain, put.format("%main")
        if KINDS[p.kind].has_shape:
            arguments, product = _matmul(p, "%x", "%y")
            arguments = f"%a: {one}, {arguments}"
            each = (f"{product + chr(10) + '    ' if p.kind == 'behind' else ''}hostir.sync %worker after %main\n"
                    f"    {put.format('%worker')}\n    {product}\n    hostir.sync %main after %worker")
        return (arguments, f"%slot = hostir.alloc on %main {{offset = 0 : i64}} : {shared}", each, _RING.format(shared),
                (count * 4 + 63) // 64 * 64)
    if p.kind == "rows":
        rows, columns = ROWS_BYTES // p.bytes, p.bytes // 4
        source, slot = _memory("f32", rows, columns), _memory("f32", rows, 2 * columns, symmetric=True)
        view = f"memref<{rows}x{columns}xf32, strided<[{2 * columns}, 1]>, #hostir.symmetric>"
        return (f"%a: {source}, %c: {source} {{hostir.result}}",
                f"%slot = hostir.alloc on %main {{offset = 0 : i64}} : {slot}\n"
                f"  %view = memref.subview %slot[0, 0] [{rows}, {columns}] [1, 1] : {slot} to {view}",
                f"hostir.put %a to %view at %right via %ch on %main : {source} to {view}", _RING.format(slot),
                (2 * rows * p.bytes + 63) // 64 * 64)
    accumulate = f"hostir.accumulate sum %a into %c on {{}} : {one} to {one}"
    collective = f"hostir.collective {p.kind} %a to %c via %ch on %main : {{}} to {{}}"
    return {
        "copy": lambda: (plain, "", copy),
        "accumulate": lambda: (plain, copy, accumulate.format("%main")),
        "reduce": lambda: (f"%a: {two}, %c: {one} {{hostir.result}}", "",
                           f"hostir.reduce sum %a to %c dims [0] on %main : {two} to {one}"),
        "hop": lambda: (plain, copy, f"{accumulate.format('%main')}\n    hostir.sync %worker after %main\n"
                        f"    {accumulate.format('%worker')}\n    hostir.sync %main after %worker"),
        "signal": lambda: (plain, "", "%value = arith.addi %i, %c1 : index\n    hostir.signal %c0 = %value at %right via %ch on %main\n"
                           "    hostir.wait_signal %c0 >= %value via %ch on %main"),
        "message": lambda: (plain, "", f"hostir.group via %ch on %main {{\n      hostir.recv %c from %left : {one}\n"
                            f"      hostir.send %a to %right : {one}\n    }}"),
        "all_reduce": lambda: (plain, "", collective.format(one, one)),
        "reduce_scatter": lambda: (f"%a: {whole}, %c: {one} {{hostir.result}}", "", collective.format(whole, one)),
        "all_gather": lambda: (f"%a: {one}, %c: {whole} {{hostir.result}}", "", collective.format(one, whole))}[p.kind]() + ("", 0)


def text_of(probe, ranks):
    """The host program."""
    arguments, before, each, after, symmetric = _pieces(probe, ranks)
    can = KINDS[probe.kind].can
    channel = f'  %ch = hostir.channel "ch" over #tp ["x"] can [{can}]\n' if can else ""
    body = f"  {before}\n  scf.for %i = %c0 to %repeats step %c1 {{\n    {each}\n  }}\n  {after}\n"
    if probe.alone:
        body = f"  %alone = arith.cmpi eq, %me, %c0 : index\n  scf.if %alone {{\n{body}  }}\n"
    return f"""#tp = #tandem.mesh<"tp", ["x" = {ranks}]>
hostir.program @probe({arguments}) attributes {{symmetric_bytes = {symmetric} : i64}} {{
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %repeats = arith.constant {probe.repeats} : index
  %before = arith.constant {ranks - 1} : index
  %p = arith.constant {ranks} : index
  %r = arith.addi %me, %c1 : index
  %right = arith.remui %r, %p : index
  %l = arith.addi %me, %before : index
  %left = arith.remui %l, %p : index
  %worker = hostir.worker_stream %c0
{channel}{body}}}
"""
