// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=gate_up --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// The gated first layer of an MLP: silu(AG(x) Wg) * (AG(x) Wu). One gather, and all of it slice by slice.
//
// FUSION-LABEL: func.func @gate_up(
// FUSION-COUNT-1: fusion.reshard
// FUSION-NOT: fusion.reshard
// FUSION-LABEL: func.func private @gate_up__reference(
//
// HOSTIR-LABEL: hostir.program @gate_up(
// HOSTIR: hostir.group
// HOSTIR: hostir.matmul
// HOSTIR: hostir.matmul
// HOSTIR: hostir.launch
// HOSTIR-NOT: hostir.group
// HOSTIR-LABEL: hostir.program private @gate_up__reference(
//
// Nothing is kept whole: slices of 2x16 and 2x6 f32 only.
//
// PLANNED-LABEL: hostir.program @gate_up(
// PLANNED-NOT: hostir.alloc {{.*}}memref<48x6xf32>
// PLANNED: hostir.alloc
//
// RANK1-COUNT-3: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#sliced = #fusion.axes<#tp, [stream("x"), didx("x")]>

// silu(AG(x) Wg) * (AG(x) Wu)
func.func @gate_up(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %wg: tensor<16x24xf32, #columns> {fusion.name = "wg"},
    %wu: tensor<16x24xf32, #columns> {fusion.name = "wu"})
    -> (tensor<48x24xf32, #sliced> {fusion.name = "y"}) {
  %one = arith.constant dense<1.0> : tensor<48x24xf32, #sliced>
  %g = fusion.matmul %x, %wg : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #sliced>
  %u = fusion.matmul %x, %wu : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #sliced>
  %n = arith.negf %g : tensor<48x24xf32, #sliced>
  %e = math.exp %n : tensor<48x24xf32, #sliced>
  %d = arith.addf %e, %one : tensor<48x24xf32, #sliced>
  %s = arith.divf %g, %d : tensor<48x24xf32, #sliced>
  %y = arith.mulf %s, %u : tensor<48x24xf32, #sliced>
  return %y : tensor<48x24xf32, #sliced>
}
