// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=mlp --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// A two-layer MLP with sequence parallelism, forward and backward, as one program: y, dx, dW1, dW2. The activation is
// GELU (the tanh form), its derivative written out. Only arguments and results say where they lie: what moves, and how the
// hidden layer is split, follows. x and dy are gathered once each.
//
// FUSION-LABEL: func.func @mlp(
// FUSION: %[[L:.+]]:3 = fusion.stream_loop {{.*}}(%arg0, %arg1)
// FUSION: %[[X:.+]] = fusion.reshard {{.*}}[didx("x"), -]>> -> {{.*}}[-, -]>>
// FUSION: fusion.matmul %[[X]], {{.*}} -> {{.*}}[-, didx("x")]>>
// FUSION: math.tanh
// FUSION: fusion.yield %[[X]], %{{.+}}, %{{.+}} :
// FUSION: fusion.stream_loop {{.*}}(%[[L]]#1, %arg2)
// FUSION: fusion.matmul {{.*}}, partial = ["x"]>>
// FUSION: fusion.reshard {{.*}} -> {{.*}}[didx("x") * stream(2), -]>>
// FUSION: fusion.stream_loop {{.*}}(%arg3, %arg2, %[[L]]#2, %[[L]]#0, %[[L]]#1)
// FUSION: %[[DY:.+]] = fusion.reshard {{.*}}[didx("x"), -]>> -> {{.*}}[-, -]>>
// FUSION: fusion.matmul %[[DY]], {{.*}} {transpose_b}
// FUSION: fusion.matmul {{.*}} {transpose_a}
// FUSION: fusion.matmul {{.*}}, %[[DY]] {transpose_a}
// FUSION: fusion.matmul {{.*}} {transpose_b} {{.*}}, partial = ["x"]>>
// FUSION: fusion.reshard {{.*}} -> {{.*}}[didx("x") * stream(2), -]>>
// FUSION-NOT: fusion.reshard
// FUSION-LABEL: func.func private @mlp__reference(
//
// HOSTIR-LABEL: hostir.program @mlp(
// HOSTIR: hostir.collective all_gather
// HOSTIR: hostir.launch
// HOSTIR: hostir.collective reduce_scatter
// HOSTIR: hostir.collective all_gather
// HOSTIR: hostir.launch
// HOSTIR: hostir.collective reduce_scatter
// HOSTIR-NOT: hostir.collective
// HOSTIR-LABEL: hostir.program private @mlp__reference(
//
// PLANNED-LABEL: hostir.program @mlp(
// PLANNED-NOT: hostir.collective
// PLANNED-LABEL: hostir.program private @mlp__reference(
//
// RANK1: argument arg7 result "dw2" f32[24,16] axes [didx("x"), -]
// RANK1: launch

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#sliced_rows = #fusion.axes<#tp, [didx("x") * stream(2), -]>

func.func @mlp(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %w1: tensor<16x24xf32, #columns> {fusion.name = "w1"},
    %w2: tensor<24x16xf32, #rows> {fusion.name = "w2"},
    %dy: tensor<48x16xf32, #rows> {fusion.name = "dy"})
    -> (tensor<48x16xf32, #sliced_rows> {fusion.name = "y"}, tensor<48x16xf32, #sliced_rows> {fusion.name = "dx"},
        tensor<16x24xf32, #columns> {fusion.name = "dw1"}, tensor<24x16xf32, #rows> {fusion.name = "dw2"}) {
  %half = arith.constant dense<0.5> : tensor<48x24xf32>
  %one = arith.constant dense<1.0> : tensor<48x24xf32>
  %c0 = arith.constant dense<0.7978845608> : tensor<48x24xf32>
  %c1 = arith.constant dense<0.0356774081> : tensor<48x24xf32>
  %c3 = arith.constant dense<0.1070322244> : tensor<48x24xf32>

  // h = AG(x) W1; t = tanh(c0 h + c1 h^3); a = h (1 + t) / 2
  %h = fusion.matmul %x, %w1 : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<48x24xf32>
  %h2 = arith.mulf %h, %h : tensor<48x24xf32>
  %p1 = arith.mulf %c1, %h2 : tensor<48x24xf32>
  %p2 = arith.addf %c0, %p1 : tensor<48x24xf32>
  %p3 = arith.mulf %h, %p2 : tensor<48x24xf32>
  %t = math.tanh %p3 : tensor<48x24xf32>
  %t1 = arith.addf %one, %t : tensor<48x24xf32>
  %g = arith.mulf %half, %t1 : tensor<48x24xf32>
  %a = arith.mulf %h, %g : tensor<48x24xf32>
  // y = RS(a W2)
  %y = fusion.matmul %a, %w2 : tensor<48x24xf32>, tensor<24x16xf32, #rows> -> tensor<48x16xf32, #sliced_rows>

  // da = AG(dy) W2^T; da/dh = (1 + t) / 2 + h (1 - t^2) (c0 + 3 c1 h^2) / 2
  %da = fusion.matmul %dy, %w2 {transpose_b}
      : tensor<48x16xf32, #rows>, tensor<24x16xf32, #rows> -> tensor<48x24xf32>
  %q1 = arith.mulf %c3, %h2 : tensor<48x24xf32>
  %q2 = arith.addf %c0, %q1 : tensor<48x24xf32>
  %q3 = arith.mulf %t, %t : tensor<48x24xf32>
  %q4 = arith.subf %one, %q3 : tensor<48x24xf32>
  %q5 = arith.mulf %q2, %q4 : tensor<48x24xf32>
  %q6 = arith.mulf %h, %q5 : tensor<48x24xf32>
  %q7 = arith.mulf %half, %q6 : tensor<48x24xf32>
  %d = arith.addf %g, %q7 : tensor<48x24xf32>
  %dh = arith.mulf %da, %d : tensor<48x24xf32>
  // dx = RS(dh W1^T), dW1 = AG(x)^T dh, dW2 = a^T AG(dy)
  %dx = fusion.matmul %dh, %w1 {transpose_b}
      : tensor<48x24xf32>, tensor<16x24xf32, #columns> -> tensor<48x16xf32, #sliced_rows>
  %dw1 = fusion.matmul %x, %dh {transpose_a}
      : tensor<48x16xf32, #rows>, tensor<48x24xf32> -> tensor<16x24xf32, #columns>
  %dw2 = fusion.matmul %a, %dy {transpose_a}
      : tensor<48x24xf32>, tensor<48x16xf32, #rows> -> tensor<24x16xf32, #rows>
  return %y, %dx, %dw1, %dw2
      : tensor<48x16xf32, #sliced_rows>, tensor<48x16xf32, #sliced_rows>, tensor<16x24xf32, #columns>, tensor<24x16xf32, #rows>
}
