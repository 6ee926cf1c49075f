// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize %s | FileCheck %s
// RUN: tandem-compile %s --entry=empty --dump --rank=1 | FileCheck %s --check-prefix=COMMANDS

#tp = #tandem.mesh<"tp", ["x" = 4]>
#vector = #fusion.axes<#tp, [-]>

// Device x has rows 12x ... 12x+11; iteration i computes rows 12x+3i ... 12x+3i+2 by one call.

// CHECK-LABEL: hostir.program @slices(
// CHECK: %[[X:.*]] = hostir.device_index #tp, "x"
// CHECK: scf.for %[[I:.*]] =
// CHECK-DAG: %[[D:.*]] = arith.muli %[[X]], %c12
// CHECK-DAG: %[[S:.*]] = arith.muli %[[I]], %c3
// CHECK: %[[ROW:.*]] = arith.addi %[[D]], %{{.*}}
// CHECK: hostir.call "f" ins({{.*}} : memref<3x8xf32, strided<[8, 1], offset: ?>>, memref<8xf32>) outs({{.*}} : memref<3x8xf32, strided<[8, 1], offset: ?>>) dims [0, -1, 0, -1, -1] at[%[[ROW]]] of [48] on
#rows = #fusion.axes<#tp, [didx("x") * stream(4), -]>
func.func private @f(tensor<48x8xf32>, tensor<8xf32>) -> tensor<48x8xf32>
func.func @slices(%x: tensor<48x8xf32, #rows>, %w: tensor<8xf32, #vector>) -> tensor<48x8xf32, #rows> {
  %y = fusion.call @f(%x, %w) dims "s_, _ -> s_" {config = "eps"}
    : (tensor<48x8xf32, #rows>, tensor<8xf32, #vector>) -> tensor<48x8xf32, #rows>
  return %y : tensor<48x8xf32, #rows>
}

// Columns are strided: dense copies in and out, or none for a kernel that takes any strides.

// CHECK-LABEL: hostir.program @columns(
// CHECK: %[[OUT:.*]] = hostir.alloc on %{{.*}} : memref<48x2xf32>
// CHECK: %[[IN:.*]] = hostir.alloc on %{{.*}} : memref<48x2xf32>
// CHECK: hostir.copy %{{.*}} to %[[IN]]
// CHECK: hostir.call "g" ins(%[[IN]] : memref<48x2xf32>) outs(%[[OUT]] : memref<48x2xf32>)
// CHECK: hostir.copy %[[OUT]] to
// CHECK: hostir.call "g" ins(%{{.*}} : memref<48x2xf32, strided<[8, 1], offset: ?>>) {{.*}} {strided}
#columns = #fusion.axes<#tp, [-, stream(4)]>
func.func private @g(tensor<48x8xf32>) -> tensor<48x8xf32>
func.func @columns(%x: tensor<48x8xf32, #columns>) -> tensor<48x8xf32, #columns> {
  %0 = fusion.call @g(%x) dims "_c -> _c" : (tensor<48x8xf32, #columns>) -> tensor<48x8xf32, #columns>
  %y = fusion.call @g(%0) dims "_c -> _c" {strided} : (tensor<48x8xf32, #columns>) -> tensor<48x8xf32, #columns>
  return %y : tensor<48x8xf32, #columns>
}

// Two blocks of rows on each device are two calls: in the whole tensor they are no range.

// CHECK-LABEL: hostir.program @cyclic(
// CHECK: scf.for %[[B:.*]] = %c0{{.*}} to %c2
// CHECK: %[[BLOCK:.*]] = arith.muli %[[B]], %c24
// CHECK: hostir.call "g" {{.*}} memref<6x8xf32
#cyclic = #fusion.axes<#tp, [serial(2) * didx("x"), -]>
func.func @cyclic(%x: tensor<48x8xf32, #cyclic>) -> tensor<48x8xf32, #cyclic> {
  %y = fusion.call @g(%x) dims "s_ -> s_" : (tensor<48x8xf32, #cyclic>) -> tensor<48x8xf32, #cyclic>
  return %y : tensor<48x8xf32, #cyclic>
}

// Both results of a call are slices, of buffers that are made before the loop.

// CHECK-LABEL: hostir.program @results(
// CHECK-DAG: %[[A:.*]] = hostir.alloc on %{{.*}} : memref<12x8xf32>
// CHECK-DAG: %[[B:.*]] = hostir.alloc on %{{.*}} : memref<12xf32>
// CHECK: scf.for
// CHECK: hostir.call "two" ins({{.*}} : memref<3x8xf32, strided<[8, 1], offset: ?>>) outs({{.*}}, {{.*}} : memref<3x8xf32, strided<[8, 1], offset: ?>>, memref<3xf32, strided<[1], offset: ?>>) dims [0, -1, 0, 0, -1] at[%{{.*}}] of [48] on
#row = #fusion.axes<#tp, [didx("x") * stream(4)]>
func.func private @two(tensor<48x8xf32>) -> (tensor<48x8xf32>, tensor<48xf32>)
func.func @results(%x: tensor<48x8xf32, #rows>) -> (tensor<48x8xf32, #rows>, tensor<48xf32, #row>) {
  %y:2 = fusion.call @two(%x) dims "s_ -> s_, s" : (tensor<48x8xf32, #rows>) -> (tensor<48x8xf32, #rows>, tensor<48xf32, #row>)
  %a = arith.addf %y#0, %y#0 : tensor<48x8xf32, #rows>
  %b = arith.addf %y#1, %y#1 : tensor<48xf32, #row>
  return %a, %b : tensor<48x8xf32, #rows>, tensor<48xf32, #row>
}

// Calls that write memory of their own stay in the order of the text, on the main stream, also if
// no result is used. The first op after `late` must not come before it.

// CHECK-LABEL: hostir.program @ordered(
// CHECK: %[[MAIN:.*]] = hostir.main_stream
// CHECK: hostir.call "early" {{.*}} on %[[MAIN]] {effects = "writes"}
// CHECK: hostir.call "late" {{.*}} on %[[MAIN]] {effects = "writes"}
// CHECK: hostir.call "last" {{.*}} on %[[MAIN]] {effects = "writes"}
#whole = #fusion.axes<#tp, [-, -]>
#parts = #fusion.axes<#tp, [didx("x"), -]>
func.func private @early(tensor<48x8xf32>) -> tensor<48x8xf32>
func.func private @late(tensor<48x8xf32>) -> tensor<48x8xf32>
func.func private @last(tensor<48x8xf32>) -> tensor<48x8xf32>
func.func @ordered(%x: tensor<48x8xf32, #parts>, %z: tensor<48x8xf32, #whole>) -> (tensor<48x8xf32, #whole>, tensor<48x8xf32, #whole>) {
  %early = fusion.call @early(%z) dims "s_ -> s_" {effects = "writes"} : (tensor<48x8xf32, #whole>) -> tensor<48x8xf32, #whole>
  %e = math.exp %x : tensor<48x8xf32, #parts>
  %g = fusion.reshard %e : tensor<48x8xf32, #parts> -> tensor<48x8xf32, #whole>
  %late = fusion.call @late(%g) dims "s_ -> s_" {effects = "writes"} : (tensor<48x8xf32, #whole>) -> tensor<48x8xf32, #whole>
  %last = fusion.call @last(%z) dims "s_ -> s_" {effects = "writes"} : (tensor<48x8xf32, #whole>) -> tensor<48x8xf32, #whole>
  return %late, %last : tensor<48x8xf32, #whole>, tensor<48x8xf32, #whole>
}

// A call that reads memory stays behind the call that writes it before, and before the one that
// writes it next, also where it is sliced with an op on the other side.

// CHECK-LABEL: hostir.program @reads(
// CHECK-COUNT-2: hostir.call "g" {{.*}} {config = "0", effects = "reads"}
// CHECK: hostir.call "g" {{.*}} {config = "1", effects = "writes"}
// CHECK: scf.for
// CHECK: hostir.call "g" {{.*}} {config = "2", effects = "reads"}
// CHECK: hostir.call "g" {{.*}} {config = "3", effects = "writes"}
#gathered = #fusion.axes<#tp, [stream("x"), -]>
func.func @reads(%x: tensor<48x8xf32, #parts>, %z: tensor<48x8xf32, #whole>)
    -> (tensor<48x8xf32, #gathered>, tensor<48x8xf32, #whole>, tensor<48x8xf32, #whole>, tensor<48x8xf32, #gathered>) {
  %s = fusion.reshard %x : tensor<48x8xf32, #parts> -> tensor<48x8xf32, #gathered>
  %r0 = fusion.call @g(%s) dims "s_ -> s_" {config = "0", effects = "reads"} : (tensor<48x8xf32, #gathered>) -> tensor<48x8xf32, #gathered>
  %w1 = fusion.call @g(%z) dims "s_ -> s_" {config = "1", effects = "writes"} : (tensor<48x8xf32, #whole>) -> tensor<48x8xf32, #whole>
  %r2 = fusion.call @g(%s) dims "s_ -> s_" {config = "2", effects = "reads"} : (tensor<48x8xf32, #gathered>) -> tensor<48x8xf32, #gathered>
  %w3 = fusion.call @g(%z) dims "s_ -> s_" {config = "3", effects = "writes"} : (tensor<48x8xf32, #whole>) -> tensor<48x8xf32, #whole>
  %e = math.exp %r2 : tensor<48x8xf32, #gathered>
  return %r0, %w1, %w3, %e : tensor<48x8xf32, #gathered>, tensor<48x8xf32, #whole>, tensor<48x8xf32, #whole>, tensor<48x8xf32, #gathered>
}

// A call runs if one of its results has elements.

// COMMANDS: call k0(arg1:f32[1,0], arg2:f32[1], arg0:f32[1,8])
// CHECK-LABEL: hostir.program @empty(
// CHECK: hostir.call "some" ins({{.*}} : memref<1x8xf32>) outs({{.*}}, {{.*}} : memref<1x0xf32>, memref<1xf32>)
// CHECK-NOT: hostir.call
#part = #fusion.axes<#tp, [didx("x")]>
func.func private @some(tensor<4x8xf32>) -> (tensor<4x0xf32>, tensor<4xf32>)
func.func private @none(tensor<4x8xf32>) -> tensor<4x0xf32>
func.func @empty(%x: tensor<4x8xf32, #parts>) -> (tensor<4x0xf32, #parts>, tensor<4xf32, #part>, tensor<4x0xf32, #parts>) {
  %y:2 = fusion.call @some(%x) dims "s_ -> s_, s" : (tensor<4x8xf32, #parts>) -> (tensor<4x0xf32, #parts>, tensor<4xf32, #part>)
  %z = fusion.call @none(%x) dims "s_ -> s_" : (tensor<4x8xf32, #parts>) -> tensor<4x0xf32, #parts>
  return %y#0, %y#1, %z : tensor<4x0xf32, #parts>, tensor<4xf32, #part>, tensor<4x0xf32, #parts>
}
