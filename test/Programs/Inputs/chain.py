# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""chain.py LAYERS [OPTIONS]: writes a chain of MLP layers, whose loops have the schedule push with OPTIONS, to stdout."""

import sys

ROWS, WIDTH, HIDDEN = 48, 16, 24
PUSH = f"#fusion.schedule<{', '.join(['push', *sys.argv[2:]])}>"


def layer(i):
    rows, hidden = f"tensor<{ROWS}x{WIDTH}xf32, #rows>", f"tensor<{ROWS}x{HIDDEN}xf32, #hidden>"
    partial = f"tensor<{ROWS}x{WIDTH}xf32, #partial>"
    return f"""
  %h{i} = fusion.matmul %x{i}, %u{i} {{fusion.gather = "before", fusion.schedule = {PUSH}}}
      : {rows}, tensor<{WIDTH}x{HIDDEN}xf32, #columns> -> {hidden}
  %a{i} = math.tanh %h{i} : {hidden}
  %p{i} = fusion.matmul %a{i}, %d{i} : {hidden}, tensor<{HIDDEN}x{WIDTH}xf32, #rows> -> {partial}
  %x{i + 1} = fusion.reshard %p{i} {{schedule = {PUSH}}} : {partial} -> {rows}"""


def main(layers):
    rows = f"tensor<{ROWS}x{WIDTH}xf32, #rows>"
    weights = "".join(
        f",\n    %u{i}: tensor<{WIDTH}x{HIDDEN}xf32, #columns>, %d{i}: tensor<{HIDDEN}x{WIDTH}xf32, #rows>"
        for i in range(layers)
    )
    body = "".join(layer(i) for i in range(layers))
    print(f"""#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#hidden = #fusion.axes<#tp, [stream("x"), didx("x")]>
#partial = #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>
func.func @chain(%x0: {rows} {{fusion.name = "x"}}{weights})
    -> ({rows} {{fusion.name = "y"}}) {{{body}
  return %x{layers} : {rows}
}}""")


main(int(sys.argv[1]))
