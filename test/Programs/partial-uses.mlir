// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR

// Terms that meet what needs their sum, with axes on arguments alone: a tanh before a weight that is split by rows, a
// residual on all devices and one that is split, a softmax along a dimension that is split.
//
// FUSION-LABEL: func.func @terms_before_rows(
// FUSION: %[[H:.+]] = fusion.reshard {{.*}} partial = ["x"]>> -> tensor<48x24xf32, {{.*}}[-, didx("x")]>>
// FUSION-NEXT: fusion.yield %[[H]]
// FUSION: math.tanh
// FUSION-NEXT: fusion.stream_loop
// FUSION: %[[Y:.+]] = fusion.matmul
// FUSION-NEXT: fusion.reshard %[[Y]] {{.*}} partial = ["x"]>> -> tensor<48x16xf32, {{.*}}[-, -]>>
// FUSION-LABEL: func.func @terms_and_residuals(
// FUSION: fusion.reshard {{.*}} partial = ["x"]>> -> tensor<48x24xf32, {{.*}}[-, -]>>
// FUSION: fusion.reshard {{.*}} partial = ["x"]>> -> tensor<48x24xf32, {{.*}}[didx("x"), -]>>
// FUSION-LABEL: func.func @softmax(
// FUSION: fusion.reshard {{.*}} partial = max ["x"]>> -> tensor<48xf32, {{.*}}[-]>>
// FUSION: fusion.reshard {{.*}} partial = ["x"]>> -> tensor<48xf32, {{.*}}[-]>>
//
// HOSTIR-LABEL: hostir.program @terms_before_rows(
// HOSTIR: hostir.matmul
// HOSTIR: hostir.collective reduce_scatter
// HOSTIR: hostir.launch
// HOSTIR: hostir.matmul
// HOSTIR: hostir.collective all_reduce
// HOSTIR-LABEL: hostir.program @softmax(
// HOSTIR: hostir.collective all_reduce {{.*}} {reduction = #tandem<reduce_kind max>} : memref<48xf32>
// HOSTIR: hostir.collective all_reduce {{.*}} {reduction = #tandem<reduce_kind sum>} : memref<48xf32>

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#all = #fusion.axes<#tp, [-, -]>

func.func @terms_before_rows(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"}, %w: tensor<24x24xf32, #rows> {fusion.name = "w"},
    %v: tensor<24x16xf32, #rows> {fusion.name = "v"}) -> (tensor<48x16xf32> {fusion.name = "y"}) {
  %h = fusion.matmul %x, %w : tensor<48x24xf32, #columns>, tensor<24x24xf32, #rows> -> tensor<48x24xf32>
  %a = math.tanh %h : tensor<48x24xf32>
  %y = fusion.matmul %a, %v : tensor<48x24xf32>, tensor<24x16xf32, #rows> -> tensor<48x16xf32>
  return %y : tensor<48x16xf32>
}

// The undecided argument is no term either.
func.func @terms_and_residuals(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"}, %w: tensor<24x24xf32, #rows> {fusion.name = "w"},
    %r: tensor<48x24xf32> {fusion.name = "r"}, %s: tensor<24x48xf32, #columns> {fusion.name = "s"})
    -> (tensor<48x24xf32> {fusion.name = "y"}, tensor<48x24xf32> {fusion.name = "z"}) {
  %h = fusion.matmul %x, %w : tensor<48x24xf32, #columns>, tensor<24x24xf32, #rows> -> tensor<48x24xf32>
  %y = arith.addf %h, %r : tensor<48x24xf32>
  %t = fusion.permute %s [1, 0] : tensor<24x48xf32, #columns> -> tensor<48x24xf32>
  %z = arith.subf %t, %h : tensor<48x24xf32>
  return %y, %z : tensor<48x24xf32>, tensor<48x24xf32>
}

func.func @softmax(%x: tensor<48x24xf32, #columns> {fusion.name = "x"}) -> (tensor<48x24xf32, #columns> {fusion.name = "y"}) {
  %m = fusion.reduce max %x dims [1] : tensor<48x24xf32, #columns> -> tensor<48xf32>
  %ms = fusion.broadcast %m dims [0] : tensor<48xf32> -> tensor<48x24xf32, #columns>
  %d = arith.subf %x, %ms : tensor<48x24xf32, #columns>
  %e = math.exp %d : tensor<48x24xf32, #columns>
  %s = fusion.reduce sum %e dims [1] : tensor<48x24xf32, #columns> -> tensor<48xf32>
  %ss = fusion.broadcast %s dims [0] : tensor<48xf32> -> tensor<48x24xf32, #columns>
  %y = arith.divf %e, %ss : tensor<48x24xf32, #columns>
  return %y : tensor<48x24xf32, #columns>
}
