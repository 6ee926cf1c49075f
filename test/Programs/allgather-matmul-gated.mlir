// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=allgather_matmul_gated --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-compile %s --entry=allgather_gated_chunks --mesh x=3 --dump --rank=1 | FileCheck %s --check-prefix=CHUNKS

// All-gather and matmul with one kernel that waits for rows (schedule `gated`): each device writes its rows into its
// peers' memory, one peer after another. Then it multiplies all rows: its own first, where they lie.
//
// FUSION-LABEL: func.func @allgather_matmul_gated(
// FUSION: fusion.stream_loop schedule <gated> from annotation (
//
// HOSTIR-LABEL: hostir.program @allgather_matmul_gated(
// HOSTIR-SAME: %[[X:.+]]: memref<12x16xf32> {{.*}} %[[W:.+]]: memref<16x6xf32> {{.*}} %[[Y:.+]]: memref<48x6xf32>
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel "tp.x.one_sided" over #{{.+}} ["x"] can [one_sided]
// HOSTIR-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<48x16xf32, #hostir.symmetric>
// HOSTIR: %[[COPIES:.+]] = hostir.worker_stream %c0
// HOSTIR-NEXT: hostir.sync %[[COPIES]] after %[[MAIN]]
// HOSTIR: hostir.put %[[X]] to %{{.+}} at %[[TO:.+]] via %[[CH]] on %[[COPIES]]
// HOSTIR-NEXT: hostir.signal
// HOSTIR-NOT: hostir.copy
// HOSTIR: hostir.gated_matmul on %[[MAIN]] reserve 2 {
// HOSTIR: hostir.matmul %[[X]], %[[W]] to %{{.+}} on %[[MAIN]]
// HOSTIR: scf.for %{{.+}} = %c1 to %c4 step %c1
// HOSTIR: hostir.wait_signal %{{.+}} >= %c1 via %[[CH]] on %[[MAIN]]
// HOSTIR: hostir.matmul %{{.+}}, %[[W]] to %{{.+}} on %[[MAIN]]
// HOSTIR: hostir.sync %[[MAIN]] after %[[COPIES]]
//
// PLANNED-LABEL: hostir.program @allgather_matmul_gated(
// PLANNED-SAME: arena_bytes = 0 : i64, {{.*}}symmetric_bytes = 3072
//
// RANK1: symmetric 2x3072, signals [1,1,1,1]
// RANK1: s1 put c0 sym1+768:f32[12,16] <- arg0:f32[12,16] to 0
// RANK1-NEXT: s1 signal c0 slot 1 value 1 to 0 exclusive
// RANK1-NOT: s0 copy
// RANK1: s0 gated_matmul 7 parts leaves 2 SMs
// RANK1-NEXT: s0   matmul arg2+288:f32[12,6] = arg0:f32[12,16] * arg1:f32[16,6]
// RANK1-NEXT: s0   wait_signal c0 slot 2 value 1
// RANK1-NEXT: s0   matmul arg2+576:f32[12,6] = sym1+1536:f32[12,16]
// RANK1-NEXT: s0   wait_signal c0 slot 3 value 1
// RANK1-NEXT: s0   matmul
// RANK1-NEXT: s0   wait_signal c0 slot 0 value 1
// RANK1-NEXT: s0   matmul arg2:f32[12,6] = sym1:f32[12,16]
//
// Two slices a device, two matmuls, and a gathered value that is also a result: own rows are copied to it behind the
// matmuls.
//
// CHUNKS-NOT: s0 copy
// CHUNKS: s0 gated_matmul 10 parts
// CHUNKS-NEXT: s0   matmul {{.*}} = arg0:
// CHUNKS-NEXT: s0   matmul {{.*}} = arg0+512:
// CHUNKS-NEXT: s0   wait_signal c0 slot 2 value 1
// CHUNKS-NEXT: s0   matmul
// CHUNKS-NEXT: s0   wait_signal c0 slot 2 value 2
// CHUNKS: s0 gated_matmul 10 parts
// CHUNKS: s0 copy arg3+1024:f32[8,16] <- arg0:f32[8,16]
// CHUNKS-NEXT: s0 copy arg3+1536:f32[8,16] <- arg0+512:f32[8,16]
// CHUNKS-NEXT: s0 copy {{.*}} <- sym1
// CHUNKS-NOT: gated_matmul

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @allgather_matmul_gated(
    %x: tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {fusion.gather = "before", fusion.schedule = #fusion.schedule<gated>}
      : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  return %y : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
}

func.func @allgather_gated_chunks(
    %x: tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %v: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "v"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>> {fusion.name = "all"},
        tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>> {fusion.name = "y"},
        tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>> {fusion.name = "z"}) {
  %all = fusion.reshard %x {schedule = #fusion.schedule<gated>}
      : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>
  %y = fusion.matmul %all, %v
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
  %z = fusion.matmul %all, %w {transpose_b}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
  return %all, %y, %z : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>, tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>, tensor<48x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
}
