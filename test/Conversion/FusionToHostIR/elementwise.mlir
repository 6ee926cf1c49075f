// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --split-input-file %s | FileCheck %s

// A truth value has no buffer: the kernel of who uses it computes it. Shared kernels, shared operands.

// CHECK: hostir.kernel private @choose.select(%[[A:.+]]: f32, %[[B:.+]]: f32) -> f32
// CHECK-NEXT: %[[LESS:.+]] = arith.cmpf olt, %[[A]], %[[B]] : f32
// CHECK-NEXT: %[[R:.+]] = arith.select %[[LESS]], %[[A]], %[[B]] : f32
// CHECK-NEXT: hostir.yield %[[R]]
// CHECK: hostir.kernel private @choose.extui(%{{.+}}: f32, %{{.+}}: f32) -> i32
// CHECK-NEXT: arith.cmpf olt
// CHECK-NEXT: arith.extui %{{.+}} : i1 to i32
// CHECK-LABEL: hostir.program @choose(
// CHECK-NOT: xi1
// CHECK: hostir.launch @choose.select ins(%arg0, %arg1 :
// CHECK: hostir.launch @choose.extui ins(%arg0, %arg1 :
#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
func.func @choose(%x: tensor<4x8xf32, #rows>, %y: tensor<4x8xf32, #rows>) -> (tensor<4x8xf32, #rows>, tensor<4x8xi32, #rows>) {
  %0 = arith.cmpf olt, %x, %y : tensor<4x8xf32, #rows>
  %1 = arith.select %0, %x, %y : tensor<4x8xi1, #rows>, tensor<4x8xf32, #rows>
  %2 = arith.extui %0 : tensor<4x8xi1, #rows> to tensor<4x8xi32, #rows>
  return %1, %2 : tensor<4x8xf32, #rows>, tensor<4x8xi32, #rows>
}
