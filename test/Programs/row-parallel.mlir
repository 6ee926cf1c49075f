// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=row_parallel --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Row-parallel layer with sequence parallelism: y = RS(x W) + b, the layouts NN, NT and TN. The bias is added once, to
// the sums.
//
// FUSION-LABEL: func.func @row_parallel(
// FUSION: %[[P:.+]] = fusion.matmul {{.*}}, partial = ["x"]>>
// FUSION: %[[Y:.+]] = fusion.reshard %[[P]] {{.*}} -> {{.*}}[didx("x") * stream(2), -]>>
// FUSION: arith.addf %[[Y]]
// FUSION-LABEL: func.func @row_parallel_nt(
// FUSION: fusion.matmul {{.*}} {transpose_b} {{.*}}, partial = ["x"]>>
// FUSION-LABEL: func.func @row_parallel_tn(
// FUSION: fusion.matmul {{.*}} {transpose_a} {{.*}}, partial = ["x"]>>
//
// HOSTIR-LABEL: hostir.program @row_parallel(
// HOSTIR: hostir.matmul {{.*}} on %[[S:.+]] :
// HOSTIR: hostir.collective reduce_scatter {{.*}} on %[[S]]
// HOSTIR: hostir.launch {{.*}} on %[[S]]
//
// PLANNED-LABEL: hostir.program @row_parallel(
// PLANNED-NOT: hostir.collective
// PLANNED: hostir.matmul
//
// RANK1-COUNT-2: {{s[0-9]+ launch}}
// RANK1-NOT: {{s[0-9]+ (launch|matmul)}}

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#all = #fusion.axes<#tp, [-]>
#sliced = #fusion.axes<#tp, [didx("x") * stream(2), -]>

func.func @row_parallel(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<24x16xf32, #rows> {fusion.name = "w"},
    %b: tensor<16xf32, #all> {fusion.name = "b"})
    -> (tensor<48x16xf32, #sliced> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w bias %b
      : tensor<48x24xf32, #columns>, tensor<24x16xf32, #rows>, tensor<16xf32, #all> -> tensor<48x16xf32, #sliced>
  return %y : tensor<48x16xf32, #sliced>
}

// Weights stored as [H, F].
func.func @row_parallel_nt(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<48x16xf32, #sliced> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {transpose_b}
      : tensor<48x24xf32, #columns>, tensor<16x24xf32, #columns> -> tensor<48x16xf32, #sliced>
  return %y : tensor<48x16xf32, #sliced>
}

// Activations stored as [F, S].
func.func @row_parallel_tn(
    %x: tensor<24x48xf32, #rows> {fusion.name = "x"},
    %w: tensor<24x16xf32, #rows> {fusion.name = "w"})
    -> (tensor<48x16xf32, #sliced> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {transpose_a}
      : tensor<24x48xf32, #rows>, tensor<24x16xf32, #rows> -> tensor<48x16xf32, #sliced>
  return %y : tensor<48x16xf32, #sliced>
}
