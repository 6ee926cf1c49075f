// RUN: tandem-opt %s -split-input-file -fusion-insert-reshards -fusion-verify | FileCheck %s
// RUN: tandem-opt %s -split-input-file -fusion-insert-reshards="gather=after" -fusion-verify | FileCheck %s --check-prefix=AFTER

#tp = #tandem.mesh<"tp", ["x" = 4]>

// All-gather, then matmul; the stream digits of the result stand on what is gathered. Or the matmul runs on what is
// there, and its result is gathered.
// CHECK-LABEL: @allgather_matmul
// CHECK:         %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<4x8x32xf32, #fusion.axes<#tp, [stream, -, -]>>
// CHECK:         fusion.matmul %[[G]], %arg1 : {{.*}} -> tensor<4x8x16xf32, #fusion.axes<#tp, [stream, -, -]>>
// AFTER-LABEL: @allgather_matmul
// AFTER:         %[[M:.*]] = fusion.matmul %arg0, %arg1 : {{.*}} -> tensor<4x8x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
// AFTER:         fusion.reshard %[[M]] : {{.*}} -> tensor<4x8x16xf32, #fusion.axes<#tp, [stream, -, -]>>
func.func @allgather_matmul(%0: tensor<4x8x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>) -> tensor<4x8x16xf32, #fusion.axes<#tp, [stream, -, -]>> {
  %2 = fusion.matmul %0, %1 : tensor<4x8x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> -> tensor<4x8x16xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %2 : tensor<4x8x16xf32, #fusion.axes<#tp, [stream, -, -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Row-parallel layer: a contraction of equal pieces stays where it is, its terms are reduced and scattered. The serial
// digit keeps the place of the stream digit.
// CHECK-LABEL: @matmul_reduce_scatter
// CHECK:         %[[M:.*]] = fusion.matmul %arg0, %arg1 : {{.*}} -> tensor<64x16xf32, #fusion.axes<#tp, [serial(4) * stream(2), -], partial = ["x"]>>
// CHECK:         fusion.reshard %[[M]] : {{.*}} -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x") * stream(2), -]>>
// AFTER-LABEL: @matmul_reduce_scatter
// AFTER:         fusion.matmul %arg0, %arg1 : {{.*}} partial = ["x"]
// AFTER-NEXT:    fusion.reshard
func.func @matmul_reduce_scatter(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  %2 = fusion.matmul %0, %1 : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x") * stream(2), -]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Only one operand is split where both are contracted: gathered before, or the other one cut and the terms reduced.
// CHECK-LABEL: @one_sided_contraction
// CHECK:         %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>
// CHECK:         fusion.matmul %[[G]], %arg1
// CHECK-NEXT:    return
// AFTER-LABEL: @one_sided_contraction
// AFTER:         %[[C:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// AFTER:         %[[M:.*]] = fusion.matmul %arg0, %[[C]] : {{.*}} partial = ["x"]
// AFTER:         fusion.reshard %[[M]]
func.func @one_sided_contraction(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>) {
  %2 = fusion.matmul %0, %1 : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> -> tensor<64x16xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// The result says that it is partial, so the other operand is cut either way.
// CHECK-LABEL: @wanted_partial
// CHECK:         %[[C:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK:         fusion.matmul %arg0, %[[C]]
// CHECK-NEXT:    return
// AFTER-LABEL: @wanted_partial
func.func @wanted_partial(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>) {
  %2 = fusion.matmul %0, %1 : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> -> tensor<64x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A bias is added once: behind the reduction. Without one, where it is.
// CHECK-LABEL: @bias
// CHECK:         %[[M:.*]] = fusion.matmul %arg0, %arg1 : {{.*}} partial = ["x"]
// CHECK:         %[[R:.*]] = fusion.reshard %[[M]] : {{.*}} -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK:         %[[B:.*]] = fusion.broadcast %arg2 dims [1] : {{.*}} -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK:         %[[S:.*]] = arith.addf %[[R]], %[[B]]
// CHECK:         return %[[S]]
// CHECK-LABEL: @local_bias
// CHECK-NEXT:    fusion.matmul %arg0, %arg1 bias %arg2
// AFTER-LABEL: @bias
func.func @bias(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, %2: tensor<16xf32, #fusion.axes<#tp, [-]>>) -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {
  %3 = fusion.matmul %0, %1 bias %2 : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16xf32, #fusion.axes<#tp, [-]>> -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %3 : tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}
func.func @local_bias(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [-, didx("x")]>>, %2: tensor<16xf32, #fusion.axes<#tp, [didx("x")]>>) {
  %3 = fusion.matmul %0, %1 bias %2 : tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<16xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<64x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return
}
