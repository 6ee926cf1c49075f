// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=push_two_gathers --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RANK1

// Two gathers by one-sided puts that meet in one loop (schedule `push`): both values of a slice are put, then one signal
// is sent.
//
// HOSTIR-LABEL: hostir.program @push_two_gathers(
// HOSTIR-DAG: hostir.alloc on %[[MAIN:.+]] : memref<48x16xf32, #hostir.symmetric>
// HOSTIR-DAG: hostir.alloc on %[[MAIN]] : memref<48x24xf32, #hostir.symmetric>
// HOSTIR: hostir.put
// HOSTIR-NEXT: hostir.put
// HOSTIR-NEXT: hostir.signal
// HOSTIR: hostir.matmul
// HOSTIR: hostir.launch
// HOSTIR: hostir.wait_signal
// HOSTIR-NOT: hostir.wait_signal
// HOSTIR: hostir.matmul
// HOSTIR: hostir.launch
//
// PLANNED-LABEL: hostir.program @push_two_gathers(
// PLANNED-SAME: symmetric_bytes
//
// RANK1: signals [1,1,1,1]
// RANK1-COUNT-6: s1 put
// RANK1-NOT: s1 put

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>
#whole = #fusion.axes<#tp, [-, -]>

func.func @push_two_gathers(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %r: tensor<48x24xf32, #rows> {fusion.name = "r"},
    %w: tensor<16x24xf32, #whole> {fusion.name = "w"}) -> (tensor<48x24xf32, #slices> {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push>} : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #slices>
  %h = fusion.reshard %r {schedule = #fusion.schedule<push>} : tensor<48x24xf32, #rows> -> tensor<48x24xf32, #slices>
  %p = fusion.matmul %g, %w : tensor<48x16xf32, #slices>, tensor<16x24xf32, #whole> -> tensor<48x24xf32, #slices>
  %y = arith.addf %p, %h : tensor<48x24xf32, #slices>
  return %y : tensor<48x24xf32, #slices>
}

// Two loops, on two streams each: the gathers do not meet at an op.
func.func @push_two_loops(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %r: tensor<48x24xf32, #rows> {fusion.name = "r"},
    %w: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>> {fusion.name = "y"},
        tensor<48x24xf32, #slices> {fusion.name = "z"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push, streams = 2>}
      : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #slices>
  %h = fusion.reshard %r {schedule = #fusion.schedule<push, streams = 2>}
      : tensor<48x24xf32, #rows> -> tensor<48x24xf32, #slices>
  %p = fusion.matmul %g, %w
      : tensor<48x16xf32, #slices>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %z = math.tanh %h : tensor<48x24xf32, #slices>
  return %p, %z : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>, tensor<48x24xf32, #slices>
}
