// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=qkv --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Three column-parallel matmuls share one gather of x, and one loop.
//
// FUSION-LABEL: func.func @qkv(
// FUSION-COUNT-1: fusion.reshard
// FUSION-NOT: fusion.reshard
// FUSION-LABEL: func.func private @qkv__reference(
//
// HOSTIR-LABEL: hostir.program @qkv(
// HOSTIR-SAME: %[[WQ:[^:]+]]: memref<16x18xf32> {{.*}} %[[WK:[^:]+]]: memref<16x6xf32> {{.*}} %[[WV:[^:]+]]: memref<16x6xf32>
// HOSTIR: hostir.group
// HOSTIR: hostir.matmul %[[SLICE:.+]], %[[WQ]] to
// HOSTIR: hostir.matmul %{{.+}}, %[[WK]] to
// HOSTIR: hostir.matmul %{{.+}}, %[[WV]] to
// HOSTIR-NOT: hostir.group
// HOSTIR-LABEL: hostir.program private @qkv__reference(
//
// PLANNED-LABEL: hostir.program @qkv(
// PLANNED-SAME: arena_bytes = 2304
//
// RANK1-COUNT-3: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#sliced = #fusion.axes<#tp, [stream("x"), didx("x")]>

// A key and value head serves three query heads.
func.func @qkv(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %wq: tensor<16x72xf32, #columns> {fusion.name = "wq"},
    %wk: tensor<16x24xf32, #columns> {fusion.name = "wk"},
    %wv: tensor<16x24xf32, #columns> {fusion.name = "wv"})
    -> (tensor<48x72xf32, #sliced> {fusion.name = "q"}, tensor<48x24xf32, #sliced> {fusion.name = "k"},
        tensor<48x24xf32, #sliced> {fusion.name = "v"}) {
  %q = fusion.matmul %x, %wq : tensor<48x16xf32, #rows>, tensor<16x72xf32, #columns> -> tensor<48x72xf32, #sliced>
  %k = fusion.matmul %x, %wk : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #sliced>
  %v = fusion.matmul %x, %wv : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #sliced>
  return %q, %k, %v : tensor<48x72xf32, #sliced>, tensor<48x24xf32, #sliced>, tensor<48x24xf32, #sliced>
}
