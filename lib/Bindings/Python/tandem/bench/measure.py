# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Other measurements than those of cases: the rate of the link, calibrations, tuning, programs for machines without the compiler."""

import json
import os
import re
import statistics
import time

from .._errors import Error
from .._program import compile
from .._tune import tune as tune_program
from . import calibrate as numbers
from . import fusions, probes, report, shapes
from .arms import Memory, ProgramArm, Programs
from .shapes import Case, Usage

_LINK_REPEATS = 5  # rings one after the other that show, less one, what a link can do


def predictor(machine):
    """A function: seconds of an arm's program on a machine file, and why there are none."""
    def predict(arm):
        if not machine:
            return None, ""
        try:
            return arm.program.simulate(machine, graph=arm.mode == "graph").seconds, ""
        except Error as error:
            return None, str(error).splitlines()[0]

    return predict


def _make_probe(probe, count):
    return lambda: probes.text_of(probe, count)


def _time_probe(runner, probe):
    """Times a probe and its single command, interleaved: the arms of all modes."""
    runner.compiler.check = False  # a ring overwrites what nobody reads
    lacks = probe.kind == "gated_product" and not runner.has_gated or probe.is_exchange and not runner.has_exchange
    arms = []
    for one in (probe.once, probe):
        if lacks:  # the runtime would run the parts, which is no measurement of them
            arms += [ProgramArm(one.name, "probe", mode, None, None) for mode in runner.contexts]
            for arm in arms:
                arm.refused, arm.lacks_kernels = "the device has no kernels for it", True
        else:
            arms += runner.arms_of(one.name, one.name, "probe", _make_probe(one, runner.ranks.size))
    ready = runner.prepare(arms, Memory(runner.context, runner.options.seed))
    if ready:
        runner.time(ready)
    runner.compiler.check = True
    return arms


def _measurement(arm):
    if not arm.seconds:
        return {"name": arm.what, "mode": arm.mode, "refused": arm.refused, "no_kernels": arm.lacks_kernels}
    rounded = ([round(value * 1e9) * 1e-9 for value in values] for values in (arm.seconds, arm.host))  # as files have them
    return {"name": arm.what, "mode": arm.mode, **dict(zip(("seconds", "host"), rounded))}


def link_rate(runner):
    """What one ring takes, without what a run does; the fastest way."""
    size, best = runner.options.link_bytes, {"bytes_per_second": None, "source": "no ring could run"}
    for kind in ("message", "put"):
        probe = probes.Probe(kind, bytes=size, repeats=_LINK_REPEATS)
        found = numbers.Calibration(runner.ranks.size, runner.options.device == "cuda", 1, 0,
                                    [_measurement(arm) for arm in _time_probe(runner, probe)])
        for mode in runner.contexts:
            # On a busy machine a ring may be shorter than the noise. A whole run bounds it.
            alone = found.seconds(probe, mode)
            seconds = alone or found.bound(probe, mode)
            if seconds and size / seconds > (best["bytes_per_second"] or 0):
                best = {"bytes_per_second": size / seconds, "source": f"measured: a ring of {size} B, by {kind}, {mode}"
                        f"{'' if alone else ', launching included'}"}
    return runner.ranks.gather(best)[0]


def _layers():
    """Of known models, for calibrations without shapes."""
    return [Case(op, m, n, k, dtype) for dtype in ("bf16", "f16") for op, m, n, k in shapes.known_layers([8192])]


def calibrate(ranks, options):
    """Writes a machine file. The exit status."""
    from .runner import Runner
    runner = Runner(ranks, options)
    cases = options.cases if options.cases == () else shapes.parse(options.shapes, options.tokens, options.dtypes, ranks.size, options.part)
    begin, measured, programs, left = time.monotonic(), [], {}, []
    found = probes.probes_for(ranks.size, options.device == "cuda", cases, _layers())
    kinds = options.probes.split(",") if options.probes else probes.KINDS
    found = [probe for probe in found if probe.kind in kinds]
    header = ranks.size, options.target, ranks.local_size, os.cpu_count() or 1, options.command
    for number, probe in enumerate(found):
        if ranks.gather(bool(options.total_time) and time.monotonic() > begin + options.total_time)[0]:
            left = [one.name for one in found[number:]]
            break
        for arm in _time_probe(runner, probe):
            measured.append(_measurement(arm))
            if arm.seconds:
                programs[arm.what, arm.mode] = arm.program
        if ranks.rank == 0 and options.json:
            report.write(options.json, numbers.dump(numbers.figures(header, measured, [])))
    if ranks.rank == 0:
        print("".join(f"not measured, time was up: {name}\n" for name in left), end="")
        _write_machine(options, header, measured, programs, left)
    return 4 if left else 0


def calibrate_again(options):
    """Makes a machine file of --probe-figures. The exit status."""
    data, measured = numbers.read_figures(options.probe_figures)
    options.target = data["target"]
    programs, compiler = {}, Programs(data["target"], data["ranks"], check=False)
    for m in measured:
        probe = probes.parse(m["name"])
        if probe and m.get("seconds"):
            program, _ = compiler.get(m["name"], _make_probe(probe, data["ranks"]))
            if program:
                programs[m["name"], m["mode"]] = program
    header = [data[key] for key in numbers.HEADER]
    _write_machine(options, header, measured, programs, data.get("not_measured", []))
    return 0


def _write_machine(options, header, measured, programs, left):
    """The machine file, what it was made of, and how well it predicts that."""
    size, target, host_ranks, cores, command = header
    is_gpu = not target.startswith("cpu")
    path = numbers.machine_path(options.machine or ("h200x8" if is_gpu else "cpu2"))
    try:
        base = numbers.read_machine(path)
    except (OSError, ValueError, RecursionError) as error:
        raise Usage(f"{path}: {error}") from None
    calibration = numbers.Calibration(size, is_gpu, host_ranks, cores, measured)
    name = os.path.basename(options.calibrate).removesuffix(".json")
    how = f"tandem.bench {command}; {cores} cores, the rest as in {os.path.basename(path)}"
    try:
        made = calibration.apply(base, name, how)
    except (KeyError, TypeError, IndexError) as error:
        raise Usage(f"{path}: expected a machine file: {error!r}") from None
    report.write(options.calibrate, json.dumps(made, indent=2) + "\n")
    print("\n".join(calibration.lines))
    predicted, errors = {}, []
    for m in measured:
        program = programs.get((m["name"], m["mode"]))
        if program:
            seconds = program.simulate(os.path.abspath(options.calibrate), graph=m["mode"] == "graph").seconds
            predicted[m["name"], m["mode"]] = seconds
            errors.append(100 * abs(seconds / statistics.median(m["seconds"]) - 1))
    if options.json:
        report.write(options.json, numbers.dump(numbers.figures(header, measured, left, predicted)))
    said = f"{len(errors)} probes simulated on it: median error {statistics.median(errors):.1f} %, p90 " \
           f"{report.quantiles(errors)[2]:.1f} %" if errors else "no probe could be measured"
    print(f"{options.calibrate}: {said}", flush=True)


def tune(ranks, options):
    """Measures the candidates of each loop of --program or of the cases. The exit status."""
    if not options.machine:
        raise Usage("--tune: expected --machine, by whose prices there are candidates")
    context, root = ranks.context(), ranks.rank == 0
    sources = [(path, None) for path in options.program or ()] or [
        (str(case), case) for case in shapes.parse(options.shapes, options.tokens, options.dtypes, ranks.size, options.part)]
    for name, case in sources:
        if case:
            source = fusions.fused(case, ranks.size, fusions.Schedule("auto"))
        else:
            with open(name, encoding="utf-8") as file:
                source = file.read()
        mesh = _open_mesh(name, source, ranks.size) if not case else None
        program = compile(source, target=options.target, ranks=ranks.size, machine=options.machine, mesh=mesh)
        memory, tensors = Memory(context, options.seed), []
        for index, one in enumerate(program.arguments(context)):
            if not one.is_result:
                shard = program.shard(index, context=context)
                tensors.append(memory.input(one.name, one.dtype, one.local_shape, (shard.offset, shard.term), 0) if one.present else None)
        before = time.monotonic()
        tuned = tune_program(source, *tensors, path=options.tune, machine=options.machine, context=context, target=options.target,
                             mesh=mesh, repeats=options.iterations)
        if root:
            print(f"{name}: {', '.join(loop['schedule'] for loop in tuned._loops)} ({time.monotonic() - before:.1f} s)", flush=True)
    return 0


def _open_mesh(name, text, size):
    """The open axis of a text has all ranks."""
    axes = set(re.findall(r'"(\w+)" = \?', text))
    if len(axes) > 1:
        raise Usage(f"{name}: expected at most one open axis, found {', '.join(sorted(axes))}")
    return dict.fromkeys(axes, size)


def compile_all(options):
    """Fills --programs for so many ranks. The exit status."""
    if not options.programs or not options.n:
        raise Usage("--compile-only: expected --programs and -n")
    compiler = Programs(options.target, options.n, options.machine, options.programs)
    made = refused = 0

    def one(*arguments):
        nonlocal made, refused
        program, _ = compiler.get(*arguments)
        made, refused = made + (program is not None), refused + (program is None)

    if options.calibrate:
        compiler.check, found = False, probes.probes_for(options.n, not options.target.startswith("cpu"), options.cases, _layers())
    else:
        for case in options.cases:
            for name, schedule in [("sequence", fusions.Schedule("sequence")), *((s.text, s) for s in options.schedules)]:
                one(f"{case} {name}", lambda case=case, schedule=schedule: fusions.fused(case, options.n, schedule), schedule.deterministic)
            one(f"{case} matmul", lambda case=case: fusions.matmul(case, options.n))
            one(f"{case} communication", lambda case=case: fusions.communication(case, options.n))
        found = [probes.Probe(kind, bytes=options.link_bytes, repeats=_LINK_REPEATS) for kind in ("message", "put")]
        compiler.check = False
    for probe in found:
        for each in (probe.once, probe):
            one(each.name, _make_probe(each, options.n))
    print(f"{options.programs}: {made} programs for {options.n} ranks, target {options.target} ({refused} refused)")
    return 0
