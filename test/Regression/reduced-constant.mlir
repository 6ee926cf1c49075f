// RUN: tandem-opt %s --fusion-form-loops | FileCheck %s

// A constant is in no loop that its reduction could join.
// CHECK-LABEL: @f(
// CHECK:         %[[C:.*]] = arith.constant
// CHECK:         fusion.stream_loop
// CHECK:         fusion.reshard
#tp = #tandem.mesh<"tp", ["x" = 4]>
!terms = tensor<4xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
!sum = tensor<4xf32, #fusion.axes<#tp, [-]>>
func.func @f() -> !sum {
  %c = arith.constant dense<0.0> : !terms
  %r = fusion.reshard %c : !terms -> !sum
  return %r : !sum
}
