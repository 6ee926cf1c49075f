// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=column_parallel --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Column-parallel layer with sequence parallelism: y = AG(x) W + b, the layouts NN, NT and TN. The user writes a matmul
// of what lies where it lies; each slice of y is computed as soon as its rows of x have come.
//
// FUSION-LABEL: func.func @column_parallel(
// FUSION: fusion.stream_loop schedule <exchange> from fallback (
// FUSION: %[[G:.+]] = fusion.reshard %{{.+}} : {{.*}}[didx("x"), -]>> -> {{.*}}[stream(4), -]>>
// FUSION: fusion.matmul %[[G]], %{{.+}} bias
// FUSION-LABEL: func.func @column_parallel_nt(
// FUSION: fusion.reshard {{.*}}[didx("x"), -]>> -> {{.*}}[stream(4), -]>>
// FUSION: fusion.matmul {{.*}} {transpose_b}
// FUSION-LABEL: func.func @column_parallel_tn(
// FUSION: fusion.reshard {{.*}}[-, didx("x")]>> -> {{.*}}[-, stream(4)]>>
// FUSION: fusion.matmul {{.*}} {transpose_a}
//
// HOSTIR-LABEL: hostir.program @column_parallel(
// HOSTIR-SAME: %[[X:[^:]+]]: memref<12x16xf32> {{.*}} %[[W:[^:]+]]: memref<16x6xf32> {{.*}} %[[B:[^:]+]]: memref<6xf32> {{.*}} %[[Y:[^:]+]]: memref<48x6xf32>
// HOSTIR: %[[G:.+]] = hostir.alloc on %{{.+}} : memref<48x16xf32>
//
// The own slice first, without a copy.
//
// HOSTIR: hostir.matmul %[[X]], %[[W]] bias %[[B]] to
// HOSTIR: scf.for
// HOSTIR: hostir.group
// HOSTIR-NEXT: hostir.recv
// HOSTIR-NEXT: hostir.send
// HOSTIR: hostir.matmul %{{.+}}, %[[W]] bias %[[B]] to
//
// Of the gathered x only the slices in flight exist: 12x16 f32 for each of the 3 workers that get one.
//
// PLANNED-LABEL: hostir.program @column_parallel(
// PLANNED-SAME: arena_bytes = 2304
//
// RANK1-COUNT-3: group c0 of 2
// RANK1-NOT: {{s[0-9]+ group}}

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#each = #fusion.axes<#tp, [didx("x")]>
#sliced = #fusion.axes<#tp, [stream("x"), didx("x")]>

func.func @column_parallel(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"},
    %b: tensor<24xf32, #each> {fusion.name = "b"})
    -> (tensor<48x24xf32, #sliced> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w bias %b
      : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns>, tensor<24xf32, #each> -> tensor<48x24xf32, #sliced>
  return %y : tensor<48x24xf32, #sliced>
}

// Weights stored as [F, H].
func.func @column_parallel_nt(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %w: tensor<24x16xf32, #rows> {fusion.name = "w"})
    -> (tensor<48x24xf32, #sliced> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {transpose_b}
      : tensor<48x16xf32, #rows>, tensor<24x16xf32, #rows> -> tensor<48x24xf32, #sliced>
  return %y : tensor<48x24xf32, #sliced>
}

// Activations stored as [H, S].
func.func @column_parallel_tn(
    %x: tensor<16x48xf32, #columns> {fusion.name = "x"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<48x24xf32, #sliced> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {transpose_a}
      : tensor<16x48xf32, #columns>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #sliced>
  return %y : tensor<48x24xf32, #sliced>
}
