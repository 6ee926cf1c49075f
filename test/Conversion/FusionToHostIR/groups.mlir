// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --split-input-file %s | FileCheck %s

// Elementwise work after the matmul stays in the loop; a splat constant becomes part of its kernel.

// CHECK: hostir.kernel private @chain.mulf(%[[A:.+]]: f32) -> f32
// CHECK-NEXT: %[[C:.+]] = arith.constant 2.0
// CHECK-NEXT: arith.mulf %[[A]], %[[C]]
// CHECK-LABEL: hostir.program @chain
// CHECK: scf.for
// CHECK: hostir.group
// CHECK: hostir.matmul
// CHECK: hostir.launch @chain.mulf
// CHECK: hostir.launch @chain.tanh
// CHECK: hostir.sync
// CHECK-NOT: hostir.launch
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @chain(%x: tensor<4x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>>,
                 %w: tensor<32x8xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>> {
  %two = arith.constant dense<2.0> : tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<4x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<4x16x32xf32, #fusion.axes<#tp, [stream, -, -]>>
  %1 = fusion.matmul %0, %w
      : tensor<4x16x32xf32, #fusion.axes<#tp, [stream, -, -]>>, tensor<32x8xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  %2 = arith.mulf %1, %two : tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  %3 = math.tanh %2 : tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %3 : tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>>
}

// -----

// One gather shared by two matmuls is one loop.

// CHECK-LABEL: hostir.program @shared
// CHECK-COUNT-1: hostir.collective all_gather
// CHECK-NOT: scf.yield
// CHECK: hostir.matmul
// CHECK: hostir.matmul
// CHECK-NOT: hostir.matmul
#tp = #tandem.mesh<"tp", ["x" = 4]>
#g = #fusion.axes<#tp, [stream, -, -]>
#r = #fusion.axes<#tp, [-, -]>
func.func @shared(%x: tensor<6x16x32xf32, #fusion.axes<#tp, [-, didx("x"), -]>>, %q: tensor<32x8xf32, #r>,
                  %k: tensor<32x4xf32, #r>) -> (tensor<6x16x8xf32, #g>, tensor<6x16x4xf32, #g>) {
  %0 = fusion.reshard %x : tensor<6x16x32xf32, #fusion.axes<#tp, [-, didx("x"), -]>> -> tensor<6x16x32xf32, #g>
  %1 = fusion.matmul %0, %q : tensor<6x16x32xf32, #g>, tensor<32x8xf32, #r> -> tensor<6x16x8xf32, #g>
  %2 = fusion.matmul %0, %k : tensor<6x16x32xf32, #g>, tensor<32x4xf32, #r> -> tensor<6x16x4xf32, #g>
  return %1, %2 : tensor<6x16x8xf32, #g>, tensor<6x16x4xf32, #g>
}

// -----

// An op between two ops of a loop that needs all of the first and is needed by the second cannot be inside, and the
// loop cannot be around it: two loops.

// CHECK-LABEL: hostir.program @between
// CHECK: hostir.launch @between.negf
// CHECK: hostir.sync %[[MAIN:.+]] after
// CHECK: %[[T:.+]] = memref.transpose
// CHECK: hostir.sync %{{.+}} after %[[MAIN]]
// CHECK: hostir.matmul %{{.+}}, %[[T]] to
// CHECK: hostir.sync %[[MAIN]] after
#tp = #tandem.mesh<"tp", ["x" = 1]>
#s = #fusion.axes<#tp, [stream, -]>
#r = #fusion.axes<#tp, [-, -]>
func.func @between(%x: tensor<6x6xf32, #s>) -> tensor<6x6xf32, #s> {
  %0 = arith.negf %x : tensor<6x6xf32, #s>
  %1 = fusion.permute %0 [1, 0] : tensor<6x6xf32, #s> -> tensor<6x6xf32, #r>
  %2 = fusion.matmul %0, %1 : tensor<6x6xf32, #s>, tensor<6x6xf32, #r> -> tensor<6x6xf32, #s>
  return %2 : tensor<6x6xf32, #s>
}

// -----

// An op of no concern between two ops of one loop neither breaks it nor slips in.

// CHECK-LABEL: hostir.program @unrelated
// CHECK: scf.for
// CHECK: hostir.launch @unrelated.negf
// CHECK-NOT: hostir.sync
// CHECK: hostir.launch @unrelated.exp
// CHECK-NOT: hostir.launch
// CHECK: hostir.sync
// CHECK: hostir.launch @unrelated.tanh {{.*}} on %[[MAIN:.+]]
#tp = #tandem.mesh<"tp", ["x" = 1]>
#s = #fusion.axes<#tp, [stream, -]>
#r = #fusion.axes<#tp, [-, -]>
func.func @unrelated(%x: tensor<6x6xf32, #s>, %z: tensor<3x3xf32, #r>) -> (tensor<6x6xf32, #s>, tensor<3x3xf32, #r>) {
  %0 = arith.negf %x : tensor<6x6xf32, #s>
  %1 = math.tanh %z : tensor<3x3xf32, #r>
  %2 = math.exp %0 : tensor<6x6xf32, #s>
  return %2, %1 : tensor<6x6xf32, #s>, tensor<3x3xf32, #r>
}

// -----

// An argument that is returned is copied; a value returned twice is made once.

// CHECK-LABEL: hostir.program @returned
// CHECK-SAME: (%[[X:.+]]: memref<4xf32> {{.*}}, %[[A:.+]]: memref<4xf32> {{.*}}, %[[B:.+]]: memref<4xf32> {{.*}}, %[[C:.+]]: memref<4xf32>
// CHECK: hostir.launch @returned.negf ins(%[[X]] {{.*}} outs(%[[B]]
// CHECK: hostir.copy %[[X]] to %[[A]]
// CHECK: hostir.copy %[[B]] to %[[C]]
#tp = #tandem.mesh<"tp", ["x" = 1]>
#r = #fusion.axes<#tp, [-]>
func.func @returned(%x: tensor<4xf32, #r>) -> (tensor<4xf32, #r>, tensor<4xf32, #r>, tensor<4xf32, #r>) {
  %0 = arith.negf %x : tensor<4xf32, #r>
  return %x, %0, %0 : tensor<4xf32, #r>, tensor<4xf32, #r>, tensor<4xf32, #r>
}

// -----

// An op that reads two values of a loop, one of them in other slices, is not in that loop.

// CHECK-LABEL: hostir.program @other_slices
// CHECK: hostir.launch @other_slices.negf
// CHECK: hostir.sync %[[MAIN:.+]] after
// CHECK: hostir.sync %{{.+}} after %[[MAIN]]
// CHECK: hostir.matmul
#tp = #tandem.mesh<"tp", ["x" = 1]>
#s = #fusion.axes<#tp, [stream, -]>
func.func @other_slices(%x: tensor<6x6xf32, #s>) -> tensor<6x6xf32, #s> {
  %0 = arith.negf %x : tensor<6x6xf32, #s>
  %1 = fusion.matmul %0, %0 : tensor<6x6xf32, #s>, tensor<6x6xf32, #s> -> tensor<6x6xf32, #s>
  return %1 : tensor<6x6xf32, #s>
}

// -----

// One, two, three ops in one loop: bias and residual between two communications, all in it.

// CHECK-LABEL: hostir.program @three
// CHECK: scf.for %[[I:.+]] = %c0 to %c6
// CHECK: hostir.collective all_gather
// CHECK: hostir.matmul
// CHECK: hostir.launch @three.addf
// CHECK: hostir.launch @three.tanh
// CHECK: hostir.collective all_to_all
// CHECK-NOT: hostir.launch
#tp = #tandem.mesh<"tp", ["x" = 2]>
#x = #fusion.axes<#tp, [-, didx("x"), -]>
#g = #fusion.axes<#tp, [stream, -, -]>
#c = #fusion.axes<#tp, [stream, -, didx("x")]>
#d = #fusion.axes<#tp, [stream, didx("x"), -]>
#w = #fusion.axes<#tp, [-, didx("x")]>
func.func @three(%x: tensor<6x4x8xf32, #x>, %w: tensor<8x4xf32, #w>, %r: tensor<6x4x4xf32, #c>) -> tensor<6x4x4xf32, #d> {
  %0 = fusion.reshard %x : tensor<6x4x8xf32, #x> -> tensor<6x4x8xf32, #g>
  %1 = fusion.matmul %0, %w : tensor<6x4x8xf32, #g>, tensor<8x4xf32, #w> -> tensor<6x4x4xf32, #c>
  %2 = arith.addf %1, %r : tensor<6x4x4xf32, #c>
  %3 = math.tanh %2 : tensor<6x4x4xf32, #c>
  %4 = fusion.reshard %3 : tensor<6x4x4xf32, #c> -> tensor<6x4x4xf32, #d>
  return %4 : tensor<6x4x4xf32, #d>
}

// -----

// Three ops whose stream digits do not line up: three loops, each after the one before.

// CHECK-LABEL: hostir.program @disjoint
// CHECK: scf.for
// CHECK: hostir.launch @disjoint.negf
// CHECK: hostir.sync %[[MAIN:.+]] after
// CHECK: scf.for
// CHECK: hostir.launch @disjoint.exp
// CHECK: hostir.sync %[[MAIN]] after
// CHECK: scf.for
// CHECK: hostir.launch @disjoint.tanh
// CHECK: hostir.sync %[[MAIN]] after
#tp = #tandem.mesh<"tp", ["x" = 1]>
#a = #fusion.axes<#tp, [stream(2), -]>
#b = #fusion.axes<#tp, [-, stream(3)]>
#c = #fusion.axes<#tp, [serial(2) * stream(3), -]>
func.func @disjoint(%x: tensor<6x6xf32, #a>) -> tensor<6x6xf32, #c> {
  %0 = arith.negf %x : tensor<6x6xf32, #a>
  %1 = fusion.reshard %0 : tensor<6x6xf32, #a> -> tensor<6x6xf32, #b>
  %2 = math.exp %1 : tensor<6x6xf32, #b>
  %3 = fusion.reshard %2 : tensor<6x6xf32, #b> -> tensor<6x6xf32, #c>
  %4 = math.tanh %3 : tensor<6x6xf32, #c>
  return %4 : tensor<6x6xf32, #c>
}

// -----

// A reduction inside of the loop, over a dimension that is not streamed, and two results.

// CHECK-LABEL: hostir.program @reduced
// CHECK: scf.for %[[I:.+]] = %c0 to %c3
// CHECK: hostir.launch @reduced.exp
// CHECK: hostir.reduce sum {{.*}} dims [1]
// CHECK: hostir.launch @reduced.negf
// CHECK-NEXT: }
// CHECK-NOT: hostir.launch
// CHECK: hostir.sync %{{.+}} after
#tp = #tandem.mesh<"tp", ["x" = 1]>
#a = #fusion.axes<#tp, [stream(3), -]>
#v = #fusion.axes<#tp, [stream(3)]>
func.func @reduced(%x: tensor<6x4xf32, #a>) -> (tensor<6xf32, #v>, tensor<6x4xf32, #a>) {
  %0 = math.exp %x : tensor<6x4xf32, #a>
  %1 = fusion.reduce sum %0 dims [1] : tensor<6x4xf32, #a> -> tensor<6xf32, #v>
  %2 = arith.negf %1 : tensor<6xf32, #v>
  return %2, %0 : tensor<6xf32, #v>, tensor<6x4xf32, #a>
}

// -----

// Two layers: the first one's result feeds the second, slice by slice, with one communication at either end.

// CHECK-LABEL: hostir.program @two_layers
// CHECK: scf.for %[[I:.+]] = %c0 to %c4
// CHECK: hostir.collective all_gather
// CHECK: hostir.matmul
// CHECK: hostir.launch @two_layers.tanh
// CHECK: hostir.matmul
// CHECK: hostir.collective reduce_scatter
// CHECK-NOT: hostir.collective
#tp = #tandem.mesh<"tp", ["x" = 2]>
#x = #fusion.axes<#tp, [-, didx("x"), -]>
#g = #fusion.axes<#tp, [stream, -, -]>
#h = #fusion.axes<#tp, [stream, -, didx("x")]>
#p = #fusion.axes<#tp, [stream, -, -], partial = ["x"]>
#y = #fusion.axes<#tp, [stream, didx("x"), -]>
#w1 = #fusion.axes<#tp, [-, didx("x")]>
#w2 = #fusion.axes<#tp, [didx("x"), -]>
func.func @two_layers(%x: tensor<4x4x8xf32, #x>, %w1: tensor<8x6xf32, #w1>, %w2: tensor<6x8xf32, #w2>) -> tensor<4x4x8xf32, #y> {
  %0 = fusion.reshard %x : tensor<4x4x8xf32, #x> -> tensor<4x4x8xf32, #g>
  %1 = fusion.matmul %0, %w1 : tensor<4x4x8xf32, #g>, tensor<8x6xf32, #w1> -> tensor<4x4x6xf32, #h>
  %2 = math.tanh %1 : tensor<4x4x6xf32, #h>
  %3 = fusion.matmul %2, %w2 : tensor<4x4x6xf32, #h>, tensor<6x8xf32, #w2> -> tensor<4x4x8xf32, #p>
  %4 = fusion.reshard %3 : tensor<4x4x8xf32, #p> -> tensor<4x4x8xf32, #y>
  return %4 : tensor<4x4x8xf32, #y>
}
