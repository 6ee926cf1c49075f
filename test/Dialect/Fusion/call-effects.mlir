// RUN: tandem-opt %s --cse --fusion-erase-dead-ops | FileCheck %s
// RUN: tandem-opt %s --fusion-propagate-axes | FileCheck %s --check-prefix=AXES

#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [didx("x") * stream(2), -]>>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>

// Equal calls without effects are one.
// CHECK-LABEL: @none
// CHECK: fusion.call
// CHECK-NOT: fusion.call
// CHECK: return
func.func @none(%x: !rows) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = fusion.call @kernel(%x) dims "s_ -> s_" : (!rows) -> tensor<8x4xf32>
  %1 = fusion.call @kernel(%x) dims "s_ -> s_" : (!rows) -> tensor<8x4xf32>
  %2 = fusion.call @kernel(%x) dims "s_ -> s_" {config = "dead"} : (!rows) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// What is read stays the same until something is written.
// CHECK-LABEL: @reads
// CHECK: fusion.call {{.*}} {config = "read", effects = "reads"}
// CHECK-NEXT: fusion.call {{.*}} {config = "write", effects = "writes"}
// CHECK-NEXT: fusion.call {{.*}} {config = "read", effects = "reads"}
// CHECK-NEXT: return
func.func @reads(%x: !rows) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = fusion.call @kernel(%x) dims "s_ -> s_" {config = "read", effects = "reads"} : (!rows) -> tensor<8x4xf32>
  %1 = fusion.call @kernel(%x) dims "s_ -> s_" {config = "read", effects = "reads"} : (!rows) -> tensor<8x4xf32>
  %2 = fusion.call @kernel(%x) dims "s_ -> s_" {config = "dead", effects = "reads"} : (!rows) -> tensor<8x4xf32>
  %3 = fusion.call @kernel(%x) dims "s_ -> s_" {config = "write", effects = "writes"} : (!rows) -> tensor<8x4xf32>
  %4 = fusion.call @kernel(%x) dims "s_ -> s_" {config = "read", effects = "reads"} : (!rows) -> tensor<8x4xf32>
  return %0, %1, %4 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// Each of them writes.
// CHECK-LABEL: @writes
// CHECK-COUNT-3: fusion.call
// CHECK: return
func.func @writes(%x: !rows) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = fusion.call @kernel(%x) dims "s_ -> s_" {effects = "writes"} : (!rows) -> tensor<8x4xf32>
  %1 = fusion.call @kernel(%x) dims "s_ -> s_" {effects = "writes"} : (!rows) -> tensor<8x4xf32>
  %2 = fusion.call @kernel(%x) dims "s_ -> s_" {config = "dead", effects = "writes"} : (!rows) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// A call that writes is not sliced.
// AXES-LABEL: @none
// AXES: fusion.call @kernel({{.*}} -> tensor<8x4xf32, #fusion.axes<#tp, [didx("x") * stream(2), -]>>
// AXES-LABEL: @writes
// AXES: fusion.call @kernel({{.*}} -> tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
