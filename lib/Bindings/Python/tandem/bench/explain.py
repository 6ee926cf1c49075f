# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the time of `auto` goes: the critical path of its simulated run, case by case."""

import statistics

from .._errors import Error
from . import fusions, report
from .arms import Programs
from .shapes import Case

_PARTS = {"host": ("host",), "matmul": ("matmul", "gated_matmul", "epilogue"), "transfer": ("put", "message", "collective", "latency"),
          "signals": ("signal", "wait_signal", "wait"), "peer exchange": ("fused_exchange",)}


def shares(simulation):
    """Of the critical path of the rank with the longest."""
    path = max((rank["path"] for rank in simulation.data["per_rank"]), key=lambda parts: sum(parts.values()))
    whole = sum(path.values()) or 1
    found = {part: sum(path.get(kind, 0) for kind in kinds) / whole for part, kinds in _PARTS.items()}
    return {**found, "rest": max(0.0, 1 - sum(found.values()))}


def explain(reports, options):
    """A table in markdown: a row for each case."""
    parts = [*_PARTS, "rest"]
    lines = ["| case | `auto`, us | of the limit | x sequence | " + " | ".join(f"{part}, us" for part in parts) + " | error, % |",
             "|" + "---|" * (5 + len(parts))]
    errors = []
    for data in reports:
        compiler = Programs(data["target"], data["ranks"], options.machine or data["machine"], options.programs)
        for row in data["rows"]:
            case, (arms, mode) = Case(*(row[field] for field in Case._fields)), report.arms_of(row)
            if "auto" not in arms:
                continue
            us, limit = arms["auto"]["median_us"], row["limit_us"].get(mode)
            program, why = compiler.get(f"{case} auto", lambda case=case: fusions.fused(case, data["ranks"], fusions.Schedule("auto")))
            try:
                simulation = program.simulate(compiler.machine, graph=mode == "graph") if program else None
            except Error as error:
                simulation, why = None, str(error).splitlines()[0]
            if not simulation:
                lines.append(f"| {case} | {us:.1f} | {why} |")
                continue
            errors.append(100 * (simulation.seconds * 1e6 / us - 1))
            cells = [str(case), f"{us:.1f}", f"{us / limit:.2f}" if limit else "", report.ratio(arms["auto"].get("ratio_to_sequence")),
                     *(f"{us * part:.1f}" for part in shares(simulation).values()), f"{errors[-1]:+.1f}"]
            lines.append("| " + " | ".join(cells) + " |")
    if errors:
        lines += ["", f"median error of simulated times: {statistics.median(map(abs, errors)):.1f} % of {len(errors)}"]
    return "\n".join(lines)
