// RUN: tandem-compile %s --entry=gather_pod --dump --rank=4 | FileCheck %s --check-prefix=GATHER
// RUN: tandem-compile %s --entry=reduce_pod --dump --rank=4 | FileCheck %s --check-prefix=REDUCE
// RUN: tandem-compile %s --entry=exchange_pod --dump --rank=4 | FileCheck %s --check-prefix=EXCHANGE

// Slices of one owner each among the devices of two mesh axes, whose digits are neighbours in one dimension: they are
// numbered as the digits are. Rank 4 is number 4 of node * gpu, and number 3 of gpu * node (node 1, gpu 1).
//
// GATHER: channel c0 "pod.node.gpu.one_sided" one_sided link "" group [0,1,2,3,4,5] self 4
// GATHER: put c0 {{.*}} to 3 bytes
// GATHER-NEXT: signal c0 slot 4 value 1 to 3
// GATHER: put c0 {{.*}} to 2 bytes
// GATHER: matmul arg2+3072:f32[8,24] = arg0:f32[8,16]
// GATHER-NEXT: wait_signal c0 slot 5
// GATHER-NEXT: matmul arg2+3840:f32[8,24] = sym1+2560:f32[8,16]
// GATHER-NEXT: wait_signal c0 slot 0
//
// REDUCE: put c0 {{.*}} to 5 bytes
// REDUCE-NEXT: signal c0 slot 4 value 1 to 5
// REDUCE: put c0 {{.*}} to 0 bytes
// REDUCE: wait_signal c0 slot 3
// REDUCE-NEXT: reduce sum
//
// A worker has one slice of what is received.
// EXCHANGE: arena 2048,
// EXCHANGE: channel c0 "pod.gpu.node.two_sided" two_sided link "" group [0,3,1,4,2,5] self 3
// EXCHANGE: matmul arg2+2304:f32[8,24] = arg0
// EXCHANGE: recv c0 {{.*}} from 2 tag
// EXCHANGE-NEXT: send c0 arg0:{{.*}} to 1 tag
// EXCHANGE-NEXT: matmul arg2+3072:
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 3]>
!x = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#pod, [-, -]>>
!y = tensor<48x24xf32, #fusion.axes<#pod, [stream(6), -]>>

func.func @gather_pod(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> tensor<48x16xf32, #fusion.axes<#pod, [stream(6), -]>>
  %1 = fusion.matmul %0, %w : tensor<48x16xf32, #fusion.axes<#pod, [stream(6), -]>>, !w -> !y
  return %1 : !y
}

!xk = tensor<48x24xf32, #fusion.axes<#pod, [-, didx("node") * didx("gpu")]>>
!wk = tensor<24x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!terms = tensor<48x16xf32, #fusion.axes<#pod, [stream(6), -], partial = ["node", "gpu"]>>

func.func @reduce_pod(%x: !xk {fusion.name = "x"}, %w: !wk {fusion.name = "w"}) -> (!x {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !xk, !wk -> !terms
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !terms -> !x
  return %1 : !x
}

!turned = tensor<48x16xf32, #fusion.axes<#pod, [didx("gpu") * didx("node"), -]>>

func.func @exchange_pod(%x: !turned {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : !turned -> tensor<48x16xf32, #fusion.axes<#pod, [stream(6), -]>>
  %1 = fusion.matmul %0, %w : tensor<48x16xf32, #fusion.axes<#pod, [stream(6), -]>>, !w -> !y
  return %1 : !y
}
