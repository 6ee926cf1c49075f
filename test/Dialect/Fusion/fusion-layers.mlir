// RUN: tandem-opt %s -fusion-specialize="mesh=x=4" -fusion-propagate-axes -fusion-insert-reshards -fusion-verify -o %t
// RUN: tandem-opt %t -fusion-form-loops -fusion-select-schedule="log" -o /dev/null 2> %t.log
// RUN: FileCheck %s --input-file %t
// RUN: FileCheck %s --input-file %t.log --check-prefix=LOG

// Tensor-parallel layers with sequence parallelism, forward and backward: each is a gather before, or a reduce-scatter
// behind, one matmul.
#tp = #tandem.mesh<"tp", ["x" = ?]>
!x = tensor<64x32xbf16, #fusion.axes<#tp, [didx("x"), -]>>   // [S, H], rows split
!y = tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("x")]>>  // [S, F], columns split
!wc = tensor<32x128xbf16, #fusion.axes<#tp, [-, didx("x")]>> // [H, F]
!wr = tensor<128x32xbf16, #fusion.axes<#tp, [didx("x"), -]>> // [F, H]

// LOG-DAG: all-gather goes through schedule pipeline
// LOG-DAG: reduce-scatter goes through schedule pipeline

// y = AG(x) Wc
// CHECK-LABEL: @column_forward
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %arg1
// CHECK-NEXT:    return
func.func @column_forward(%x: !x, %wc: !wc) -> !y {
  %y = fusion.matmul %x, %wc : !x, !wc -> !y
  return %y : !y
}

// dx = RS(dy Wc^T)
// CHECK-LABEL: @column_input_gradient
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %arg0, %arg1 {transpose_b} : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
// CHECK-NEXT:    fusion.reshard %[[M]] {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    return
func.func @column_input_gradient(%dy: !y, %wc: !wc) -> !x {
  %dx = fusion.matmul %dy, %wc {transpose_b} : !y, !wc -> !x
  return %dx : !x
}

// dWc = AG(x)^T dy: the gathered dimension is contracted, and neither operand is split there in the end.
// CHECK-LABEL: @column_weight_gradient
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %arg1 {transpose_a} : {{.*}} -> tensor<32x128xbf16, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK-NEXT:    return
func.func @column_weight_gradient(%x: !x, %dy: !y) -> !wc {
  %dw = fusion.matmul %x, %dy {transpose_a} : !x, !y -> !wc
  return %dw : !wc
}

// y = RS(x Wr)
// CHECK-LABEL: @row_forward
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %arg0, %arg1 : {{.*}} partial = ["x"]
// CHECK-NEXT:    fusion.reshard %[[M]] {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    return
func.func @row_forward(%x: !y, %wr: !wr) -> !x {
  %y = fusion.matmul %x, %wr : !y, !wr -> !x
  return %y : !x
}

// dx = AG(dy) Wr^T
// CHECK-LABEL: @row_input_gradient
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %arg1 {transpose_b} : {{.*}} -> tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK-NEXT:    return
func.func @row_input_gradient(%dy: !x, %wr: !wr) -> !y {
  %dx = fusion.matmul %dy, %wr {transpose_b} : !x, !wr -> !y
  return %dx : !y
}

// dWr = x^T AG(dy)
// CHECK-LABEL: @row_weight_gradient
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg1 {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    fusion.matmul %arg0, %[[G]] {transpose_a} : {{.*}} -> tensor<128x32xbf16, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    return
func.func @row_weight_gradient(%x: !y, %dy: !x) -> !wr {
  %dw = fusion.matmul %x, %dy {transpose_a} : !y, !x -> !wr
  return %dw : !wr
}

// A whole block with its middle open: only weights, input and output say what they are; one gather, one reduce-scatter.
// CHECK-LABEL: @mlp
// CHECK:         %[[G:.*]] = fusion.reshard %arg0 {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    %[[U:.*]] = fusion.matmul %[[G]], %arg1 : {{.*}} -> tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK-NEXT:    %[[V:.*]] = fusion.matmul %[[G]], %arg2 : {{.*}} -> tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK-NEXT:    %[[T:.*]] = math.tanh %[[U]]
// CHECK-NEXT:    %[[P:.*]] = arith.mulf %[[T]], %[[V]] : tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %[[P]], %arg3 : {{.*}} partial = ["x"]
// CHECK-NEXT:    %[[R:.*]] = fusion.reshard %[[M]] {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    return %[[R]]
func.func @mlp(%x: !x, %gate: !wc, %up: !wc, %down: !wr) -> !x {
  %g = fusion.reshard %x : !x -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
  %u = fusion.matmul %g, %gate : tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>, !wc -> tensor<64x128xbf16>
  %v = fusion.matmul %g, %up : tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>, !wc -> tensor<64x128xbf16>
  %t = math.tanh %u : tensor<64x128xbf16>
  %p = arith.mulf %t, %v : tensor<64x128xbf16>
  %y = fusion.matmul %p, %down : tensor<64x128xbf16>, !wr -> !x
  return %y : !x
}
