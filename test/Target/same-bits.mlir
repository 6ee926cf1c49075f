// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The second layer of an MLP, with the same bits on any number of devices (docs/semantics.md).
// RUN: tandem-compile %s --mesh x=2 -o %t2.tsp
// RUN: tandem-compile %s --mesh x=8 -o %t8.tsp
// RUN: tandem-check %t8.tsp --same-bits=%t2.tsp | FileCheck %s --check-prefix=SAME
// RUN: tandem-compile %s --mesh x=2 --deterministic=batch -o %t2.tsp
// RUN: tandem-compile %s --mesh x=8 --deterministic=batch -o %t8.tsp
// RUN: not tandem-check %t8.tsp --same-bits=%t2.tsp | FileCheck %s --check-prefix=DIFFER
// RUN: tandem-compile %s --mesh x=8 --target=cuda-peer --machine=h200x8 --shape=a=8192x28672,w=28672x8192 --explain -o %t.tsp \
// RUN:   | FileCheck %s --check-prefix=OVERLAPPED

// SAME: no error
// DIFFER: error: bits-differ
// OVERLAPPED: all-to-all at {{.*}}: push
// OVERLAPPED-NEXT: {{(8|9)[0-9]}} % of it overlapped with compute

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
func.func @down(%a: tensor<?x?xbf16, #columns> {fusion.name = "a", fusion.shape = [16, 64]},
                %w: tensor<?x?xbf16, #rows> {fusion.name = "w", fusion.shape = [64, 16]})
    -> (tensor<?x?xbf16, #rows> {fusion.name = "y"}) attributes {fusion.deterministic = "tp"} {
  %y = fusion.matmul %a, %w : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?xbf16, #rows>
  return %y : tensor<?x?xbf16, #rows>
}
