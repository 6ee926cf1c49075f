// RUN: tandem-opt %s --tandem-lower="mesh=node=2,gpu=2 disable=canonicalize,cse" | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --entry=gather_list --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=LIST
// RUN: tandem-compile %s --entry=gather_list_put --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=PUT
// RUN: tandem-compile %s --entry=gather_parameters --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=PARAMETERS
// RUN: tandem-compile %s --entry=gather_flat --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=FLAT
// RUN: tandem-compile %s --entry=gather_list --mesh node=3,gpu=2 -o %t.tsp && tandem-check %t.tsp --queues=1
// RUN: tandem-compile %s --entry=gather_flat --mesh node=4,gpu=4 -o %t.tsp && tandem-check %t.tsp --queues=1
// RUN: tandem-compile %s --entry=gather_list_again --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=AGAIN
// RUN: tandem-compile %s --entry=gather_list_twice --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s --check-prefix=TWICE

// Gathers whose result is not one tensor in the order of the ranks. Slices arrive where they belong: the only copies are
// those of own slices, and with puts those out of symmetric memory, which an ordinary gather has, too.
//
// Four tensors are one argument of the host program.
//
// HOSTIR-LABEL: hostir.program @gather_list(
// HOSTIR-SAME: memref<48x16xf32> {hostir.parts = [{hostir.name = "y0", hostir.type = tensor<12x16xf32, {{.*}}>}, {hostir.name = "y1",
// HOSTIR-NOT: hostir.alloc
// HOSTIR-LABEL: hostir.program @gather_list_put(
// HOSTIR-LABEL: hostir.program @gather_parameters(
// HOSTIR-NOT: hostir.alloc
// HOSTIR-LABEL: hostir.program @gather_flat(
// HOSTIR-NOT: hostir.alloc
// HOSTIR-LABEL: hostir.program private
//
// Rank 1 has device 1 of node 0. It gets y3 from the other node, then y0 and y2 from the other device.
//
// LIST: argument arg1 result "y0" f32[12,16]
// LIST: argument arg4 result "y3" f32[12,16]
// LIST: arena 0, symmetric 2x0,
// LIST: recv c0 arg4:f32[12,16] from 3
// LIST-NEXT: send c0 arg0:f32[12,16] to 3
// LIST: recv c1 arg1:f32[12,16] from 0
// LIST-NEXT: send c1 arg0:f32[12,16] to 0
// LIST-NEXT: s0 copy arg2:f32[12,16] <- arg0:f32[12,16]
// LIST: recv c1 arg3:f32[12,16] from 0
// LIST-NEXT: send c1 arg4:f32[12,16] to 0
// LIST-NOT: s0 copy
//
// PUT: arena 0, symmetric 2x3072,
// PUT: s0 copy arg2:f32[12,16] <- arg0:f32[12,16]
// PUT: s0 copy arg1:f32[12,16] <- sym
// PUT: s0 copy arg4:f32[12,16] <- sym
// PUT: s0 copy arg3:f32[12,16] <- sym
// PUT-NOT: s0 copy
//
// Two parameters, whose messages travel in one group.
//
// PARAMETERS: arena 0, symmetric 2x0,
// PARAMETERS: s2 group c0 of 4
// PARAMETERS-NEXT: recv c0 arg1+720:f32[12,5] from 3
// PARAMETERS-NEXT: send c0 arg0:f32[12,5]{16,1} to 3
// PARAMETERS-NEXT: recv c0 arg2+1584:f32[12,11] from 3
// PARAMETERS-NEXT: send c0 arg0+20:f32[12,11]{16,1} to 3
// PARAMETERS-COUNT-2: s0 copy
// PARAMETERS-NOT: s0 copy
//
// The same in one tensor: the second parameter begins at 48 * 5.
//
// FLAT: arena 0, symmetric 2x0,
// FLAT: recv c0 arg1+720:f32[12,5] from 3
// FLAT: recv c0 arg1+2544:f32[12,11] from 3
// FLAT-COUNT-2: s0 copy
// FLAT-NOT: s0 copy

// A part that is a result before them is made there, and copied. If all are results again, these are copies.
//
// AGAIN: s0 copy arg3:f32[12,16] <- arg1:f32[12,16]
// TWICE: arena 0, symmetric 2x0,
// TWICE-COUNT-4: s0 copy arg{{[5-8]}}:f32[12,16] <- arg{{[1-4]}}:f32[12,16]

#pod = #tandem.mesh<"pod", ["node" = ?, "gpu" = ?]>
!x = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!xs = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!y = tensor<12x16xf32, #fusion.axes<#pod, [-, -]>>

func.func @gather_list(%x: !x {fusion.name = "x"})
    -> (!y {fusion.name = "y0"}, !y {fusion.name = "y1"}, !y {fusion.name = "y2"}, !y {fusion.name = "y3"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical, spread = "send">} : !x -> !xs
  %1 = fusion.slice %0 offsets [0, 0] steps [1, 1] : !xs -> !y
  %2 = fusion.slice %0 offsets [12, 0] steps [1, 1] : !xs -> !y
  %3 = fusion.slice %0 offsets [24, 0] steps [1, 1] : !xs -> !y
  %4 = fusion.slice %0 offsets [36, 0] steps [1, 1] : !xs -> !y
  return %1, %2, %3, %4 : !y, !y, !y, !y
}

func.func @gather_list_put(%x: !x {fusion.name = "x"})
    -> (!y {fusion.name = "y0"}, !y {fusion.name = "y1"}, !y {fusion.name = "y2"}, !y {fusion.name = "y3"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical>} : !x -> !xs
  %1 = fusion.slice %0 offsets [0, 0] steps [1, 1] : !xs -> !y
  %2 = fusion.slice %0 offsets [12, 0] steps [1, 1] : !xs -> !y
  %3 = fusion.slice %0 offsets [24, 0] steps [1, 1] : !xs -> !y
  %4 = fusion.slice %0 offsets [36, 0] steps [1, 1] : !xs -> !y
  return %1, %2, %3, %4 : !y, !y, !y, !y
}

// Shards hold rows of two parameters, 5 and 11 columns wide.
!a = tensor<48x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!as = tensor<48x5xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!b = tensor<48x11xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!bs = tensor<48x11xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!first = tensor<240xf32, #fusion.axes<#pod, [stream("node") * stream("gpu")]>>
!second = tensor<528xf32, #fusion.axes<#pod, [stream("node") * stream("gpu")]>>
!flat = tensor<768xf32, #fusion.axes<#pod, [-]>>

func.func @gather_parameters(%x: !x {fusion.name = "x"}) -> (!first {fusion.name = "a"}, !second {fusion.name = "b"}) {
  %0 = fusion.slice %x offsets [0, 0] steps [1, 1] : !x -> !a
  %1 = fusion.slice %x offsets [0, 5] steps [1, 1] : !x -> !b
  %2 = fusion.reshard %0 {schedule = #fusion.schedule<hierarchical, spread = "send">} : !a -> !as
  %3 = fusion.reshard %1 {schedule = #fusion.schedule<hierarchical, spread = "send">} : !b -> !bs
  %4 = fusion.reshape %2 : !as -> !first
  %5 = fusion.reshape %3 : !bs -> !second
  return %4, %5 : !first, !second
}

func.func @gather_flat(%x: !x {fusion.name = "x"}) -> (!flat {fusion.name = "y"}) {
  %0 = fusion.slice %x offsets [0, 0] steps [1, 1] : !x -> !a
  %1 = fusion.slice %x offsets [0, 5] steps [1, 1] : !x -> !b
  %2 = fusion.reshard %0 {schedule = #fusion.schedule<hierarchical, spread = "send">} : !a -> !as
  %3 = fusion.reshard %1 {schedule = #fusion.schedule<hierarchical, spread = "send">} : !b -> !bs
  %4 = fusion.reshape %2 : !as -> !first
  %5 = fusion.reshape %3 : !bs -> !second
  %6 = fusion.concat %4, %5 dim 0 : (!first, !second) -> !flat
  return %6 : !flat
}

func.func @gather_list_again(%x: !x {fusion.name = "x"}) -> (!y {fusion.name = "y"}, !y {fusion.name = "y0"},
    !y {fusion.name = "y1"}, !y {fusion.name = "y2"}, !y {fusion.name = "y3"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical, spread = "send">} : !x -> !xs
  %1 = fusion.slice %0 offsets [0, 0] steps [1, 1] : !xs -> !y
  %2 = fusion.slice %0 offsets [12, 0] steps [1, 1] : !xs -> !y
  %3 = fusion.slice %0 offsets [24, 0] steps [1, 1] : !xs -> !y
  %4 = fusion.slice %0 offsets [36, 0] steps [1, 1] : !xs -> !y
  return %2, %1, %2, %3, %4 : !y, !y, !y, !y, !y
}

func.func @gather_list_twice(%x: !x {fusion.name = "x"})
    -> (!y {fusion.name = "y0"}, !y {fusion.name = "y1"}, !y {fusion.name = "y2"}, !y {fusion.name = "y3"},
        !y {fusion.name = "z0"}, !y {fusion.name = "z1"}, !y {fusion.name = "z2"}, !y {fusion.name = "z3"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical, spread = "send">} : !x -> !xs
  %1 = fusion.slice %0 offsets [0, 0] steps [1, 1] : !xs -> !y
  %2 = fusion.slice %0 offsets [12, 0] steps [1, 1] : !xs -> !y
  %3 = fusion.slice %0 offsets [24, 0] steps [1, 1] : !xs -> !y
  %4 = fusion.slice %0 offsets [36, 0] steps [1, 1] : !xs -> !y
  return %1, %2, %3, %4, %1, %2, %3, %4 : !y, !y, !y, !y, !y, !y, !y, !y
}
