// RUN: tandem-opt %s -fusion-erase-dead-ops -split-input-file | FileCheck %s
// RUN: tandem-opt %s -fusion-erase-dead-ops="log" -split-input-file -verify-diagnostics -o /dev/null

#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>

// What nobody uses, and what only that uses: nothing of it is sent. A kernel that writes no memory of its own has no side effects.
// CHECK-LABEL: @dead
// CHECK-NEXT:    %[[E:.*]] = math.exp %arg0
// CHECK-NEXT:    return %[[E]]
// expected-remark @+1 {{fusion-erase-dead-ops: 3 erased}}
func.func @dead(%0: !rows) -> !rows {
  // expected-remark @+1 {{fusion-erase-dead-ops: 'fusion.reshard' is erased: no result depends on it}}
  %1 = fusion.reshard %0 : !rows -> !whole
  %2 = math.exp %0 : !rows
  // expected-remark @+1 {{fusion-erase-dead-ops: 'arith.addf' is erased: no result depends on it}}
  %3 = arith.addf %1, %1 : !whole
  // expected-remark @+1 {{fusion-erase-dead-ops: 'fusion.call' is erased: no result depends on it}}
  %4 = fusion.call @kernel(%3) dims "s_ -> s_" : (!whole) -> !whole
  return %2 : !rows
}
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>

// -----

// What has side effects stays, and what it uses.
// CHECK-LABEL: @effects
// CHECK-NEXT:    math.exp
// CHECK-NEXT:    call @print
// CHECK-NEXT:    return
func.func @effects(%0: tensor<8xf32>) {
  %1 = math.exp %0 : tensor<8xf32>
  func.call @print(%1) : (tensor<8xf32>) -> ()
  return
}
func.func private @print(tensor<8xf32>)
