// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// Sums of bf16 are kept in f32 and rounded once, behind the loop.

// CHECK: hostir.kernel private @products.truncf(%{{.+}}: f32) -> bf16
// CHECK-LABEL: hostir.program @products(
// CHECK-SAME: %[[Y:[^:]+]]: memref<16x24xbf16>
// CHECK: %[[SUM:.+]] = hostir.alloc on %[[MAIN:.+]] : memref<16x24xf32>
// CHECK: scf.for
// CHECK: hostir.matmul {{.*}} to %[[SUM]] on %[[MAIN]] : memref<16x12xbf16{{.*}}>, memref<12x24xbf16{{.*}}> to memref<16x24xf32>
// CHECK: else
// CHECK: hostir.matmul {{.*}} to %[[SUM]] on %[[MAIN]] {accumulate}
// CHECK: hostir.sync %[[MAIN]] after
// CHECK: hostir.launch @products.truncf ins(%[[SUM]] : memref<16x24xf32>) outs(%[[Y]] : memref<16x24xbf16>) on %[[MAIN]]
#tp = #tandem.mesh<"tp", ["x" = 4]>
#d = #fusion.axes<#tp, [-, didx("x")]>
#s = #fusion.axes<#tp, [-, stream(4)]>
#r = #fusion.axes<#tp, [-, -]>
func.func @products(%x: tensor<16x48xbf16, #d>, %w: tensor<48x24xbf16, #r>) -> tensor<16x24xbf16, #r> {
  %0 = fusion.reshard %x : tensor<16x48xbf16, #d> -> tensor<16x48xbf16, #s>
  %1 = fusion.matmul %0, %w : tensor<16x48xbf16, #s>, tensor<48x24xbf16, #r> -> tensor<16x24xbf16, #r>
  return %1 : tensor<16x24xbf16, #r>
}

// -----

// So are those of a reduction; a maximum needs no more than its own type.

// CHECK-LABEL: hostir.program @reductions(
// CHECK: %[[SUM:.+]] = hostir.alloc on %[[MAIN:.+]] : memref<8xf32>
// CHECK: scf.for %[[I:.+]] = %c0 to %c3
// CHECK: %[[WIDE:.+]] = hostir.alloc on %[[MAIN]] : memref<8x4xf32>
// CHECK: hostir.launch @reductions.extf {{.*}} outs(%[[WIDE]]
// CHECK: scf.if
// CHECK: hostir.reduce sum %[[WIDE]] to %[[SUM]] dims [1]
// CHECK: else
// CHECK: %[[TERM:.+]] = hostir.alloc on %[[MAIN]] : memref<8xf32>
// CHECK: hostir.reduce sum %[[WIDE]] to %[[TERM]] dims [1]
// CHECK: hostir.accumulate sum %[[TERM]] into %[[SUM]]
// CHECK: %[[BEST:.+]] = hostir.alloc on %[[MAIN]] : memref<8xf16>
// CHECK: hostir.reduce max %{{.+}} to %[[BEST]]
// CHECK: hostir.accumulate max %[[BEST]] into
// CHECK: hostir.launch @reductions.truncf ins(%[[SUM]]
#tp = #tandem.mesh<"tp", ["x" = 2]>
#d = #fusion.axes<#tp, [didx("x"), -]>
#s = #fusion.axes<#tp, [-, stream(3)]>
#r = #fusion.axes<#tp, [-]>
func.func @reductions(%x: tensor<8x12xf16, #d>) -> (tensor<8xf16, #r>, tensor<8xf16, #r>) {
  %0 = fusion.reshard %x : tensor<8x12xf16, #d> -> tensor<8x12xf16, #s>
  %1 = fusion.reduce sum %0 dims [1] : tensor<8x12xf16, #s> -> tensor<8xf16, #r>
  %2 = fusion.reduce max %0 dims [1] : tensor<8x12xf16, #s> -> tensor<8xf16, #r>
  return %1, %2 : tensor<8xf16, #r>, tensor<8xf16, #r>
}

// -----

// What reads the sum comes behind the loop, and in a loop of its own if it is streamed.

// CHECK-LABEL: hostir.program @behind(
// CHECK: scf.for
// CHECK: hostir.matmul {{.*}} {accumulate}
// CHECK: hostir.sync %[[MAIN:.+]] after
// CHECK: scf.for
// CHECK: hostir.sync %{{.+}} after %[[MAIN]]
// CHECK: hostir.launch @behind.tanh
#tp = #tandem.mesh<"tp", ["x" = 2]>
#d = #fusion.axes<#tp, [-, didx("x")]>
#s = #fusion.axes<#tp, [stream(2), stream(3)]>
#m = #fusion.axes<#tp, [stream(2), -]>
#r = #fusion.axes<#tp, [-, -]>
func.func @behind(%x: tensor<8x12xf32, #d>, %w: tensor<12x6xf32, #r>) -> tensor<8x6xf32, #m> {
  %0 = fusion.reshard %x : tensor<8x12xf32, #d> -> tensor<8x12xf32, #s>
  %1 = fusion.matmul %0, %w : tensor<8x12xf32, #s>, tensor<12x6xf32, #r> -> tensor<8x6xf32, #m>
  %2 = math.tanh %1 : tensor<8x6xf32, #m>
  return %2 : tensor<8x6xf32, #m>
}

// -----

// Both operands come in slices of the contracted dimension, but in different ones: what the second loop makes is whole
// before.

// CHECK-LABEL: hostir.program @other_slices(
// CHECK: hostir.launch @other_slices.negf
// CHECK: hostir.sync %[[MAIN:.+]] after
// CHECK: hostir.launch @other_slices.exp
// CHECK: hostir.matmul {{.*}} : memref<8x6xf32{{.*}}>, memref<6x4xf32
#tp = #tandem.mesh<"tp", ["x" = 1]>
#a = #fusion.axes<#tp, [-, stream(2)]>
#b = #fusion.axes<#tp, [stream(3), -]>
#r = #fusion.axes<#tp, [-, -]>
func.func @other_slices(%x: tensor<8x12xf32, #a>, %y: tensor<12x4xf32, #b>) -> tensor<8x4xf32, #r> {
  %0 = math.exp %x : tensor<8x12xf32, #a>
  %1 = arith.negf %y : tensor<12x4xf32, #b>
  %2 = fusion.matmul %0, %1 : tensor<8x12xf32, #a>, tensor<12x4xf32, #b> -> tensor<8x4xf32, #r>
  return %2 : tensor<8x4xf32, #r>
}

// -----

// Each device would add up its own slices first, and copies of the result would not be equal to the last bit: the slices
// come in order, in messages from their owners.

// CHECK-LABEL: hostir.program @in_order(
// CHECK: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// CHECK: hostir.group
// CHECK: %[[FIRST:.+]] = arith.cmpi eq, %[[I]], %c0
// CHECK: scf.if %[[FIRST]]
// CHECK-NEXT: hostir.matmul
#tp = #tandem.mesh<"tp", ["x" = 4]>
#d = #fusion.axes<#tp, [-, didx("x")]>
#s = #fusion.axes<#tp, [-, stream(4)]>
#r = #fusion.axes<#tp, [-, -]>
func.func @in_order(%x: tensor<16x48xf32, #d>, %w: tensor<48x24xf32, #r>) -> tensor<16x24xf32, #r> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : tensor<16x48xf32, #d> -> tensor<16x48xf32, #s>
  %1 = fusion.matmul %0, %w : tensor<16x48xf32, #s>, tensor<48x24xf32, #r> -> tensor<16x24xf32, #r>
  return %1 : tensor<16x24xf32, #r>
}
