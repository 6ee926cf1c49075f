// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir

// Which ops share a loop.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#r = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#sliced = #fusion.axes<#tp, [serial("x") * stream(2), didx("x")]>
#gathered = #fusion.axes<#tp, [serial("x") * stream(2), -]>
#scattered = #fusion.axes<#tp, [didx("x") * stream(2), -]>

// Gather, matmul, bias, residual, activation, matmul, scatter: a block with two communications is one loop.
//
// HOSTIR-LABEL: hostir.program @block(
// HOSTIR: scf.for %{{.+}} = %c0 to %c2 step %c1
// HOSTIR: hostir.collective all_gather
// HOSTIR: hostir.matmul {{.*}} bias
// HOSTIR: hostir.launch @block.addf
// HOSTIR: hostir.launch @block.tanh
// HOSTIR: hostir.matmul
// HOSTIR: hostir.collective reduce_scatter
// HOSTIR-NOT: hostir.collective
// HOSTIR-LABEL: hostir.program private @block__reference(
func.func @block(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %w1: tensor<16x24xf32, #columns> {fusion.name = "w1"},
    %b: tensor<24xf32, #fusion.axes<#tp, [didx("x")]>> {fusion.name = "b"},
    %r: tensor<48x24xf32, #sliced> {fusion.name = "r"},
    %w2: tensor<24x16xf32, #rows> {fusion.name = "w2"})
    -> (tensor<48x16xf32, #scattered> {fusion.name = "y"}) {
  %g = fusion.reshard %x : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #gathered>
  %0 = fusion.matmul %g, %w1 bias %b
      : tensor<48x16xf32, #gathered>, tensor<16x24xf32, #columns>, tensor<24xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<48x24xf32, #sliced>
  %1 = arith.addf %0, %r : tensor<48x24xf32, #sliced>
  %2 = math.tanh %1 : tensor<48x24xf32, #sliced>
  %3 = fusion.matmul %2, %w2 : tensor<48x24xf32, #sliced>, tensor<24x16xf32, #rows>
      -> tensor<48x16xf32, #fusion.axes<#tp, [serial("x") * stream(2), -], partial = ["x"]>>
  %y = fusion.reshard %3 : tensor<48x16xf32, #fusion.axes<#tp, [serial("x") * stream(2), -], partial = ["x"]>> -> tensor<48x16xf32, #scattered>
  return %y : tensor<48x16xf32, #scattered>
}

#m = #fusion.axes<#tp, [stream(4), -]>
#n = #fusion.axes<#tp, [-, stream(3)]>

// Slices of rows, then of columns, then of rows again: three loops. What needs all of the first loop and is needed by the
// second stands between them.
//
// HOSTIR-LABEL: hostir.program @loops_apart(
// HOSTIR: scf.for
// HOSTIR: hostir.collective
// HOSTIR: hostir.matmul
// HOSTIR: hostir.sync %[[MAIN:.+]] after
// HOSTIR: scf.for
// HOSTIR: hostir.sync %{{.+}} after %[[MAIN]]
// HOSTIR: hostir.launch @loops_apart.tanh
// HOSTIR: hostir.sync %[[MAIN]] after
// HOSTIR: scf.for
// HOSTIR: hostir.sync %{{.+}} after %[[MAIN]]
// HOSTIR: hostir.matmul
// HOSTIR: hostir.sync %[[MAIN]] after
// HOSTIR-LABEL: hostir.program private @loops_apart__reference(
func.func @loops_apart(
    %x: tensor<16x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<24x12xf32, #r> {fusion.name = "w"})
    -> (tensor<16x12xf32, #n> {fusion.name = "t"}, tensor<16x16xf32, #m> {fusion.name = "y"}) {
  %g = fusion.reshard %x : tensor<16x24xf32, #columns> -> tensor<16x24xf32, #m>
  %0 = fusion.matmul %g, %w : tensor<16x24xf32, #m>, tensor<24x12xf32, #r> -> tensor<16x12xf32, #m>
  %1 = fusion.reshard %0 : tensor<16x12xf32, #m> -> tensor<16x12xf32, #n>
  %t = math.tanh %1 : tensor<16x12xf32, #n>
  %p = fusion.permute %t [1, 0] : tensor<16x12xf32, #n> -> tensor<12x16xf32, #r>
  %y = fusion.matmul %0, %p : tensor<16x12xf32, #m>, tensor<12x16xf32, #r> -> tensor<16x16xf32, #m>
  return %t, %y : tensor<16x12xf32, #n>, tensor<16x16xf32, #m>
}

// Two results of one loop, one of them reduced in it, and a third that all iterations add to.
//
// HOSTIR-LABEL: hostir.program @several_results(
// HOSTIR: scf.for %{{.+}} = %c0 to %c4 step %c1
// HOSTIR: hostir.collective
// HOSTIR: hostir.matmul {{.*}} on %[[S:.+]] :
// HOSTIR: hostir.reduce max {{.*}} dims [1] on %[[S]]
// HOSTIR: hostir.sync %[[MAIN:.+]] after %[[S]]
// HOSTIR: hostir.reduce sum {{.*}} dims [0] on %[[MAIN]]
// HOSTIR: hostir.sync %[[S]] after %[[MAIN]]
// HOSTIR-LABEL: hostir.program private @several_results__reference(
func.func @several_results(
    %x: tensor<16x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<24x12xf32, #r> {fusion.name = "w"})
    -> (tensor<16x12xf32, #m> {fusion.name = "y"}, tensor<16xf32, #fusion.axes<#tp, [stream(4)]>> {fusion.name = "max"},
        tensor<12xf32, #fusion.axes<#tp, [-]>> {fusion.name = "sum"}) {
  %g = fusion.reshard %x : tensor<16x24xf32, #columns> -> tensor<16x24xf32, #m>
  %y = fusion.matmul %g, %w : tensor<16x24xf32, #m>, tensor<24x12xf32, #r> -> tensor<16x12xf32, #m>
  %max = fusion.reduce max %y dims [1] : tensor<16x12xf32, #m> -> tensor<16xf32, #fusion.axes<#tp, [stream(4)]>>
  %sum = fusion.reduce sum %y dims [0] : tensor<16x12xf32, #m> -> tensor<12xf32, #fusion.axes<#tp, [-]>>
  return %y, %max, %sum : tensor<16x12xf32, #m>, tensor<16xf32, #fusion.axes<#tp, [stream(4)]>>, tensor<12xf32, #fusion.axes<#tp, [-]>>
}
// Four slices of 4 x 24, and the terms of the sum.
//
// PLANNED-LABEL: hostir.program @several_results(
// PLANNED-SAME: arena_bytes = 1600
