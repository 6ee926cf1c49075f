// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --split-input-file %s | FileCheck %s

// Truth values have buffers like other elements. Shared kernels, shared operands.

// CHECK: hostir.kernel private @choose.cmpf(%[[A:.+]]: f32, %[[B:.+]]: f32) -> i1
// CHECK-NEXT: %[[LESS:.+]] = arith.cmpf olt, %[[A]], %[[B]] : f32
// CHECK-NEXT: hostir.yield %[[LESS]]
// CHECK: hostir.kernel private @choose.select(%[[C:.+]]: i1, %[[A:.+]]: f32, %[[B:.+]]: f32) -> f32
// CHECK-NEXT: %[[R:.+]] = arith.select %[[C]], %[[A]], %[[B]] : f32
// CHECK: hostir.kernel private @choose.extui(%{{.+}}: i1) -> i32
// CHECK-LABEL: hostir.program @choose(
// CHECK: %[[T:.+]] = hostir.alloc on %{{.+}} : memref<1x8xi1>
// CHECK: hostir.launch @choose.cmpf ins(%arg0, %arg1 : {{.*}} outs(%[[T]] :
// CHECK: hostir.launch @choose.select ins(%[[T]], %arg0, %arg1 :
// CHECK: hostir.launch @choose.extui ins(%[[T]] :
#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
func.func @choose(%x: tensor<4x8xf32, #rows>, %y: tensor<4x8xf32, #rows>) -> (tensor<4x8xf32, #rows>, tensor<4x8xi32, #rows>) {
  %0 = arith.cmpf olt, %x, %y : tensor<4x8xf32, #rows>
  %1 = arith.select %0, %x, %y : tensor<4x8xi1, #rows>, tensor<4x8xf32, #rows>
  %2 = arith.extui %0 : tensor<4x8xi1, #rows> to tensor<4x8xi32, #rows>
  return %1, %2 : tensor<4x8xf32, #rows>, tensor<4x8xi32, #rows>
}
