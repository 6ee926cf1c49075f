// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --entry=weight_gradient --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// The weight gradient of a data-parallel layer: bf16 factors, f32 result. The partial sums are not rounded before they
// are sent, so the result is as exact as a sum in f32.
//
// FUSION-LABEL: func.func @weight_gradient(
// FUSION: %[[P:.+]] = fusion.matmul {{.*}} {transpose_a} : {{.*}}bf16, {{.*}}bf16, {{.*}} -> tensor<48x16xf32, {{.*}}, partial = ["x"]>>
// FUSION: fusion.reshard %[[P]] {{.*}} -> tensor<48x16xf32, {{.*}}[didx("x") * stream(2), -]>>
// FUSION-LABEL: func.func @weight_gradient_allreduce(
//
// HOSTIR-LABEL: hostir.program @weight_gradient(
// HOSTIR: hostir.matmul {{.*}} : {{.*}}bf16{{.*}}, {{.*}}bf16{{.*}} to memref<{{.*}}f32
// HOSTIR: hostir.collective reduce_scatter {{.*}} to memref<6x16xf32
// HOSTIR-LABEL: hostir.program @weight_gradient_allreduce(
// HOSTIR: hostir.collective all_reduce {{.*}} memref<48x16xf32
// HOSTIR-LABEL: hostir.program @projection_wide_local(
// HOSTIR: hostir.matmul {{.*}} bias {{.*}} : {{.*}}bf16{{.*}}, {{.*}}bf16{{.*}}, memref<16xf32> to memref<{{.*}}f32
//
// RANK1: matmul
// RANK1: accumulate sum

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#sliced_rows = #fusion.axes<#tp, [didx("x") * stream(2), -]>
#all = #fusion.axes<#tp, [-, -]>

func.func @weight_gradient(
    %x: tensor<48x48xbf16, #rows> {fusion.name = "x"},
    %dy: tensor<48x16xbf16, #rows> {fusion.name = "dy"})
    -> (tensor<48x16xf32, #sliced_rows> {fusion.name = "dw"}) {
  %dw = fusion.matmul %x, %dy {transpose_a}
      : tensor<48x48xbf16, #rows>, tensor<48x16xbf16, #rows> -> tensor<48x16xf32, #sliced_rows>
  return %dw : tensor<48x16xf32, #sliced_rows>
}

func.func @weight_gradient_allreduce(
    %x: tensor<48x48xbf16, #rows> {fusion.name = "x"},
    %dy: tensor<48x16xbf16, #rows> {fusion.name = "dy"})
    -> (tensor<48x16xf32, #all> {fusion.name = "dw"}) {
  %dw = fusion.matmul %x, %dy {transpose_a}
      : tensor<48x48xbf16, #rows>, tensor<48x16xbf16, #rows> -> tensor<48x16xf32, #all>
  return %dw : tensor<48x16xf32, #all>
}

// A bias of an f32 result is f32, also where it is added behind a reduction.
func.func @projection_wide(
    %x: tensor<48x24xbf16, #columns> {fusion.name = "x"}, %w: tensor<24x16xbf16, #rows> {fusion.name = "w"},
    %b: tensor<16xf32> {fusion.name = "b"}) -> (tensor<48x16xf32, #rows> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w bias %b
      : tensor<48x24xbf16, #columns>, tensor<24x16xbf16, #rows>, tensor<16xf32> -> tensor<48x16xf32, #rows>
  return %y : tensor<48x16xf32, #rows>
}

func.func @projection_wide_local(
    %x: tensor<48x24xbf16, #rows> {fusion.name = "x"}, %w: tensor<24x16xbf16> {fusion.name = "w"},
    %b: tensor<16xf32> {fusion.name = "b"}) -> (tensor<48x16xf32, #rows> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w bias %b
      : tensor<48x24xbf16, #rows>, tensor<24x16xbf16>, tensor<16xf32> -> tensor<48x16xf32, #rows>
  return %y : tensor<48x16xf32, #rows>
}
