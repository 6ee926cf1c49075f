// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=matmul_reduce_scatter_exchange --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RANK1

// Matmul and reduce-scatter by messages between pairs (schedule `exchange`): each device makes the rows of its peers, one
// peer after another and its own last, sends each to its owner and meanwhile receives its own rows from the peer on the
// other side; one reduction adds up what has come from all.
//
// HOSTIR-LABEL: hostir.program @matmul_reduce_scatter_exchange(
// HOSTIR-SAME: %[[X:.+]]: memref<48x6xf32> {{.*}} %[[W:.+]]: memref<6x16xf32> {{.*}} %[[Y:.+]]: memref<12x16xf32>
// HOSTIR-DAG: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR-DAG: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// HOSTIR-DAG: %[[CH:.+]] = hostir.channel "tp.x.two_sided" over #{{.+}} ["x"] can [two_sided]
// HOSTIR-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<4x12x16xf32>
// HOSTIR-DAG: %[[P:.+]] = hostir.alloc on %[[MAIN]] : memref<48x16xf32>
// HOSTIR: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// HOSTIR: %[[PLACE:.+]] = memref.subview %[[G]]
// HOSTIR: %[[SLICE:.+]] = memref.subview %[[P]]
// HOSTIR-NEXT: hostir.matmul %{{.+}}, %[[W]] to %[[SLICE]] on %[[S:[^ ]+]] :
// HOSTIR-NEXT: hostir.group via %[[CH]] on %[[S]]
// HOSTIR-NEXT: hostir.recv %[[PLACE]]
// HOSTIR-NEXT: hostir.send %[[SLICE]]
// HOSTIR: hostir.matmul %{{.+}}, %[[W]] to %{{.+}} on %{{.+}} : {{.*}} to memref<12x16xf32
// HOSTIR: hostir.sync %[[MAIN]] after
// HOSTIR: hostir.reduce sum %[[G]] to %[[Y]] dims [0] on %[[MAIN]]
//
// The places of four devices, and a slice in flight on each of the three workers that send.
//
// PLANNED-LABEL: hostir.program @matmul_reduce_scatter_exchange(
// PLANNED-SAME: arena_bytes = 5376
//
// RANK1: s1 matmul {{.*}}f32[12,16]
// RANK1: recv {{.*}} from 2
// RANK1: send {{.*}} to 0
// RANK1: recv {{.*}} from 3
// RANK1: send {{.*}} to 3
// RANK1: recv {{.*}} from 0
// RANK1: send {{.*}} to 2
// RANK1: reduce {{.*}}arg2:f32[12,16]

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @matmul_reduce_scatter_exchange(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<exchange>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

// Two slices an owner. What is handed over is no matmul's; the own slices are computed where the last sum reads them, too.
//
// HOSTIR-LABEL: hostir.program @reduce_scatter_exchange_chunks(
// HOSTIR: hostir.recv %{{.+}} from %{{.+}} : memref<6x16xf32
// HOSTIR-NEXT: hostir.send %{{.+}} to %{{.+}} : memref<6x16xf32
// HOSTIR: hostir.launch @{{.*}}negf ins(%{{.+}}) outs(%{{.+}} : memref<6x16xf32
// HOSTIR-NOT: hostir.copy
// HOSTIR: hostir.reduce sum
func.func @reduce_scatter_exchange_chunks(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
  %n = arith.negf %p : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
  %y = fusion.reshard %n {schedule = #fusion.schedule<exchange>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}
