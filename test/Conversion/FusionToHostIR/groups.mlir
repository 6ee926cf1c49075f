// RUN: tandem-opt --convert-fusion-to-hostir --canonicalize --split-input-file %s | FileCheck %s

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
#tp = #fusion.mesh<"tp", ["x" = 4]>
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
#tp = #fusion.mesh<"tp", ["x" = 4]>
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
#tp = #fusion.mesh<"tp", ["x" = 1]>
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

// CHECK-LABEL: hostir.program @beside
// CHECK: scf.for
// CHECK: hostir.launch @beside.negf
// CHECK-NOT: hostir.sync
// CHECK: hostir.launch @beside.exp
// CHECK-NOT: hostir.launch
// CHECK: hostir.sync
// CHECK: hostir.launch @beside.tanh {{.*}} on %[[MAIN:.+]]
#tp = #fusion.mesh<"tp", ["x" = 1]>
#s = #fusion.axes<#tp, [stream, -]>
#r = #fusion.axes<#tp, [-, -]>
func.func @beside(%x: tensor<6x6xf32, #s>, %z: tensor<3x3xf32, #r>) -> (tensor<6x6xf32, #s>, tensor<3x3xf32, #r>) {
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
#tp = #fusion.mesh<"tp", ["x" = 1]>
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
#tp = #fusion.mesh<"tp", ["x" = 1]>
#s = #fusion.axes<#tp, [stream, -]>
func.func @other_slices(%x: tensor<6x6xf32, #s>) -> tensor<6x6xf32, #s> {
  %0 = arith.negf %x : tensor<6x6xf32, #s>
  %1 = fusion.matmul %0, %0 : tensor<6x6xf32, #s>, tensor<6x6xf32, #s> -> tensor<6x6xf32, #s>
  return %1 : tensor<6x6xf32, #s>
}
