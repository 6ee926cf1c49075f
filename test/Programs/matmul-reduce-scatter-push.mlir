// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=matmul_reduce_scatter_push --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RANK1

// Matmul and reduce-scatter by one-sided copies (schedule `push`): each device makes the rows of its peers, one peer
// after another and its own last, and writes each into its owner's memory, who adds up what has arrived.
//
// FUSION-LABEL: func.func @matmul_reduce_scatter_push(
// FUSION: fusion.stream_loop schedule <push> from annotation (
// FUSION: %[[P:.+]] = fusion.matmul {{.*}}[stream(4), -], partial = ["x"]>>
// FUSION: fusion.reshard %[[P]]
//
// HOSTIR-LABEL: hostir.program @matmul_reduce_scatter_push(
// HOSTIR-SAME: %[[X:.+]]: memref<48x6xf32> {{.*}} %[[W:.+]]: memref<6x16xf32> {{.*}} %[[Y:.+]]: memref<12x16xf32>
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel "tp.x.one_sided" over #{{.+}} ["x"] can [one_sided]
// HOSTIR-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<4x12x16xf32, #hostir.symmetric>
// HOSTIR-DAG: %[[P:.+]] = hostir.alloc on %[[MAIN]] : memref<48x16xf32>
// HOSTIR: %[[COPIES:.+]] = hostir.worker_stream %c0
// HOSTIR-NEXT: hostir.sync %[[COPIES]] after %[[MAIN]]
// HOSTIR-NEXT: %[[PLACE:.+]] = memref.subview %[[G]][%[[ME]], 0, 0] [1, 12, 16]
// HOSTIR-NEXT: scf.for
// HOSTIR: %[[SLICE:.+]] = memref.subview %[[P]]
// HOSTIR-NEXT: hostir.matmul %{{.+}}, %[[W]] to %[[SLICE]] on %[[MAIN]]
// HOSTIR-NEXT: hostir.sync %[[COPIES]] after %[[MAIN]]
// HOSTIR-NEXT: hostir.put %[[SLICE]] to %[[PLACE]] at %[[TO:.+]] via %[[CH]] on %[[COPIES]]
// HOSTIR-NEXT: hostir.signal %[[ME]] = %c1 at %[[TO]] via %[[CH]] on %[[COPIES]]
// HOSTIR: hostir.matmul %{{.+}}, %[[W]] to %[[PLACE]] on %[[MAIN]]
// HOSTIR: hostir.sync %[[MAIN]] after %[[COPIES]]
// HOSTIR: scf.for
// HOSTIR: hostir.wait_signal %{{.+}} >= %c1 via %[[CH]] on %[[MAIN]]
// HOSTIR: hostir.reduce sum %[[G]] to %[[Y]] dims [0] on %[[MAIN]]
//
// PLANNED-LABEL: hostir.program @matmul_reduce_scatter_push(
// PLANNED-SAME: symmetric_bytes = 3072
// PLANNED-COUNT-1: hostir.reduce
//
// RANK1: symmetric 2x3072, signals [1,1,1,1]
// RANK1: s0 matmul buf[[P:[0-9]+]]+1536:f32[12,16] =
// RANK1: s1 put c0 sym[[G:[0-9]+]]+768:f32[12,16] <- buf[[P]]+1536:f32[12,16] to 2
// RANK1-NEXT: s1 signal c0 slot 1 value 1 to 2
// RANK1: s1 put {{.*}} to 3
// RANK1: s1 put {{.*}} to 0
// RANK1: s0 matmul sym[[G]]+768:f32[12,16] =
// RANK1: s0 wait_signal c0 slot 2 value 1
// RANK1-NEXT: s0 wait_signal c0 slot 3 value 1
// RANK1-NEXT: s0 wait_signal c0 slot 0 value 1
// RANK1-NEXT: s0 reduce {{.*}}arg2:f32[12,16]

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @matmul_reduce_scatter_push(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

// Two slices a device, on two streams.
func.func @matmul_reduce_scatter_push_chunks(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, streams = 2>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}
