// RUN: tandem-opt %s -fusion-fold-constants -split-input-file | FileCheck %s
// RUN: tandem-opt %s -fusion-fold-constants -split-input-file | tandem-opt -fusion-verify -split-input-file | FileCheck %s
// RUN: tandem-opt %s -fusion-fold-constants="log" -split-input-file -verify-diagnostics -o /dev/null

#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x0xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<8x0xf32, #fusion.axes<#tp, [-, -]>>
!sums = tensor<8xf32, #fusion.axes<#tp, [-]>>

// A sum of nothing is 0, and nothing is gathered for it.
// CHECK-LABEL: @sum
// CHECK-NEXT:    %[[C:.*]] = arith.constant dense<0.000000e+00> : tensor<8xf32, #fusion.axes<#tp, [-]>>
// CHECK-NEXT:    return %[[C]]
// expected-remark @+1 {{fusion-fold-constants: 2 folded}}
func.func @sum(%0: !rows) -> !sums {
  // expected-remark @+1 {{fusion-fold-constants: its result is known}}
  %1 = fusion.reshard %0 : !rows -> !whole
  // expected-remark @+1 {{fusion-fold-constants: its result is known}}
  %2 = fusion.reduce sum %1 dims [1] : !whole -> !sums
  return %2 : !sums
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!none = tensor<0x8xf16, #fusion.axes<#tp, [-, didx("x")]>>
!split = tensor<8xf16, #fusion.axes<#tp, [didx("x")]>>
!ints = tensor<0x8xi32, #fusion.axes<#tp, [-, didx("x")]>>
!int = tensor<8xi32, #fusion.axes<#tp, [didx("x")]>>
!truths = tensor<0x8xi1, #fusion.axes<#tp, [-, didx("x")]>>
!truth = tensor<8xi1, #fusion.axes<#tp, [didx("x")]>>

// The identity of each reduction; an infinity where the type has one.
// CHECK-LABEL: @identities
// CHECK-DAG:     %[[MAX:.*]] = arith.constant dense<0xFC00> : tensor<8xf16, #fusion.axes<#tp, [didx("x")]>>
// CHECK-DAG:     %[[MIN:.*]] = arith.constant dense<2147483647> : tensor<8xi32, #fusion.axes<#tp, [didx("x")]>>
// CHECK-DAG:     %[[OR:.*]] = arith.constant dense<false> : tensor<8xi1, #fusion.axes<#tp, [didx("x")]>>
// CHECK-NOT:     fusion.
// CHECK:         return %[[MAX]], %[[MIN]], %[[OR]]
// expected-remark @+1 {{3 folded}}
func.func @identities(%0: !none, %1: !ints, %t: !truths) -> (!split, !int, !truth) {
  // expected-remark @+1 {{its result is known}}
  %2 = fusion.reduce max %0 dims [0] : !none -> !split
  // expected-remark @+1 {{its result is known}}
  %3 = fusion.reduce min %1 dims [0] : !ints -> !int
  // expected-remark @+1 {{its result is known}}
  %4 = fusion.reduce max %t dims [0] : !truths -> !truth
  return %2, %3, %4 : !split, !int, !truth
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!a = tensor<8x0xf32, #fusion.axes<#tp, [-, didx("x")]>>
!b = tensor<0x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!term = tensor<8x4xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!c = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>

// Terms that are 0 need no reduction; a partial result of the function is 0 itself.
// CHECK-LABEL: @contracted
// CHECK-DAG:     %[[T:.*]] = arith.constant dense<0.000000e+00> : tensor<8x4xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
// CHECK-DAG:     %[[C:.*]] = arith.constant dense<0.000000e+00> : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    return %[[T]], %[[C]]
// expected-remark @+1 {{2 folded}}
func.func @contracted(%0: !a, %1: !b) -> (!term, !c) {
  // expected-remark @+1 {{its result is known}}
  %2 = fusion.matmul %0, %1 : !a, !b -> !term
  // expected-remark @+1 {{its result is known}}
  %3 = fusion.reshard %2 : !term -> !c
  return %2, %3 : !term, !c
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!a = tensor<8x0xf32, #fusion.axes<#tp, [didx("x"), -]>>
!b = tensor<0x4xf32, #fusion.axes<#tp, [-, -]>>
!bias = tensor<4xf32, #fusion.axes<#tp, [-]>>
!c = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: @bias
// CHECK-NEXT:    %[[B:.*]] = fusion.broadcast %arg2 dims [1]
// CHECK-NEXT:    return %[[B]]
// expected-remark @+1 {{1 folded}}
func.func @bias(%0: !a, %1: !b, %2: !bias) -> !c {
  // expected-remark @+1 {{its result is known}}
  %3 = fusion.matmul %0, %1 bias %2 : !a, !b, !bias -> !c
  return %3 : !c
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!some = tensor<4x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!none = tensor<0x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!all = tensor<8x8xf32, #fusion.axes<#tp, [-, didx("x")]>>

// An empty operand is left out; what has elements stays as it is.
// CHECK-LABEL: @concat
// CHECK-NEXT:    %[[E:.*]] = math.exp %arg0
// CHECK-NEXT:    %[[C:.*]] = fusion.concat %arg0, %[[E]] dim 0
// CHECK-NEXT:    return %[[C]]
// expected-remark @+1 {{2 folded}}
func.func @concat(%0: !some, %1: !none) -> !all {
  %2 = math.exp %0 : !some
  // expected-remark @+1 {{its result is known}}
  %3 = math.exp %1 : !none
  // expected-remark @+1 {{its result is known}}
  %4 = fusion.concat %0, %3, %2 dim 0 : (!some, !none, !some) -> !all
  return %4 : !all
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!row = tensor<4xf32, #fusion.axes<#tp, [-]>>

// What constants are computed to, and moved to, in the function as in its reference: kernels fold it, too, and the checker
// compares what both compute.
// CHECK-LABEL: @constants
// CHECK-NEXT:    %[[C:.*]] = arith.constant dense<8.000000e-01> : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    %[[S:.*]] = arith.addf %arg0, %[[C]]
// CHECK-NEXT:    return %[[S]]
// expected-remark @+1 {{4 folded}}
func.func @constants(%0: !rows) -> !rows {
  %1 = arith.constant dense<-2.0> : !row
  %2 = arith.constant dense<2.0> : !row
  // expected-remark @+1 {{its result is known}}
  %3 = math.absf %1 : !row
  %4 = arith.constant dense<2.5> : !row
  // expected-remark @+1 {{its result is known}}
  %5 = arith.divf %3, %4 : !row
  // expected-remark @+1 {{its result is known}}
  %6 = fusion.broadcast %5 dims [1] : !row -> tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
  // expected-remark @+1 {{its result is known}}
  %7 = fusion.reshard %6 : tensor<8x4xf32, #fusion.axes<#tp, [-, -]>> -> !rows
  %8 = arith.addf %0, %7 : !rows
  return %8 : !rows
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!none = tensor<8x0xf32, #fusion.axes<#tp, [-, -]>>
!matrix = tensor<0x4xf32, #fusion.axes<#tp, [-, -]>>
!product = tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
!rows = tensor<8xf32, #fusion.axes<#tp, [-]>>

// A minimum of equal elements is one of them, and so is a sum of zeros; a sum of ones is not.
// CHECK-LABEL: @reduced
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<8xf32,
// CHECK-DAG:     %[[SUM:.*]] = fusion.reduce sum
// CHECK:         return %[[ZERO]], %[[ZERO2:.*]], %[[SUM]]
// expected-remark @+1 {{3 folded}}
func.func @reduced(%0: !none, %1: !matrix) -> (!rows, !rows, !rows) {
  // expected-remark @+1 {{its result is known}}
  %2 = fusion.matmul %0, %1 : !none, !matrix -> !product
  // expected-remark @+1 {{its result is known}}
  %3 = fusion.reduce min %2 dims [1] : !product -> !rows
  // expected-remark @+1 {{its result is known}}
  %4 = fusion.reduce sum %2 dims [1] : !product -> !rows
  %5 = arith.constant dense<1.0> : !product
  %6 = fusion.reduce sum %5 dims [1] : !product -> !rows
  return %3, %4, %6 : !rows, !rows, !rows
}

// -----

// A kernel that writes memory of the embedder is not left out, though its result is empty.

#tp = #tandem.mesh<"tp", ["x" = 2]>
!none = tensor<0x4xf32, #fusion.axes<#tp, [-, -]>>
func.func private @kernel(tensor<0x4xf32>) -> tensor<0x4xf32>
// CHECK-LABEL: func.func @writes(
// CHECK-NEXT: fusion.call @kernel({{.*}}effects = "writes"
// CHECK-NEXT: return
func.func @writes(%0: !none) -> !none {
  %1 = fusion.call @kernel(%0) dims "s_ -> s_" {effects = "writes"} : (!none) -> !none
  return %1 : !none
}
