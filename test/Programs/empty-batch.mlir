// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-insert-reshards.mlir | FileCheck %s --check-prefix=RESHARDS
// RUN: cat %t/*-fusion-fold-constants.mlir | FileCheck %s --check-prefix=FOLDED
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// An expert that gets no token: its layer sends nothing, it adds 0 to the weight gradient, and its result adds no row to
// those of another expert. Only these rows are gathered.
//
// RESHARDS-LABEL: func.func @empty_batch(
// RESHARDS-COUNT-4: fusion.reshard
//
// FOLDED-LABEL: func.func @empty_batch(
// FOLDED-DAG: arith.constant dense<0.000000e+00> : tensor<16x24xf32, {{.*}}[-, didx("x")]>>
// FOLDED-DAG: %[[ALL:.+]] = fusion.reshard %{{.*}} : tensor<48x16xf32,
// FOLDED-NOT: fusion.matmul
// FOLDED: fusion.concat %[[ALL]] dim 0
// FOLDED-NOT: fusion.reshard
// FOLDED: return
//
// PLANNED-LABEL: hostir.program @empty_batch(
// PLANNED-NOT: hostir.matmul
//
// RANK1: argument arg0 input "x" f32[0,16]
// RANK1-NOT: {{s[0-9]+ matmul}}

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#whole = #fusion.axes<#tp, [-, -]>

func.func @empty_batch(
    %x: tensor<0x16xf32, #rows> {fusion.name = "x"},
    %w1: tensor<16x24xf32, #columns> {fusion.name = "w1"},
    %w2: tensor<24x16xf32, #rows> {fusion.name = "w2"},
    %g: tensor<16x24xf32, #columns> {fusion.name = "g"},
    %other: tensor<48x16xf32, #rows> {fusion.name = "other"})
    -> (tensor<0x16xf32, #rows> {fusion.name = "y"},
        tensor<16x24xf32, #columns> {fusion.name = "dw1"},
        tensor<48x16xf32, #whole> {fusion.name = "all"}) {
  %h = fusion.matmul %x, %w1 : tensor<0x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<0x24xf32>
  %a = math.tanh %h : tensor<0x24xf32>
  %y = fusion.matmul %a, %w2 : tensor<0x24xf32>, tensor<24x16xf32, #rows> -> tensor<0x16xf32, #rows>
  %dw = fusion.matmul %x, %a {transpose_a} : tensor<0x16xf32, #rows>, tensor<0x24xf32> -> tensor<16x24xf32, #columns>
  %dw1 = arith.addf %g, %dw : tensor<16x24xf32, #columns>
  %all = fusion.concat %other, %y dim 0
      : (tensor<48x16xf32, #rows>, tensor<0x16xf32, #rows>) -> tensor<48x16xf32, #whole>
  return %y, %dw1, %all : tensor<0x16xf32, #rows>, tensor<16x24xf32, #columns>, tensor<48x16xf32, #whole>
}
