// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-verify="stage=resharded"

// The placement constraints of the ops, and what the stage promises.

// matmul_c5
#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
!part = tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
func.func @f(%0: !part) {
  // expected-error @+1 {{expected at most one factor that is partial over "x", found two}}
  %1 = fusion.matmul %0, %0 : !part, !part -> !part
  return
}

// -----

// matmul_c5
#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
!part = tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!cols = tensor<8x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
func.func @f(%0: !part, %1: !cols) {
  // expected-error @+1 {{expected an operand that is replicated over "x" beside one that is partial over it, found it split}}
  %2 = fusion.matmul %0, %1 : !part, !cols -> !cols
  return
}

// -----

// matmul_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
!max = tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>>
!whole = tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%0: !max, %1: !whole) {
  // expected-error @+1 {{expected an operand that is partial by 'sum', found 'max'}}
  %2 = fusion.matmul %0, %1 : !max, !whole -> !max
  return
}

// -----

// matmul_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
!whole = tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%0: !whole, %1: tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>) {
  // expected-error @+1 {{expected an operand that is not partial, found it partial over "x"}}
  %2 = fusion.matmul %0, %0 bias %1 : !whole, !whole, tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>> -> !whole
  return
}

// -----

// matmul_c6
#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%0: !rows, %1: !whole) {
  // expected-error @+1 {{expected dimension 0 of result 0 to be split as didx("x"), found -}}
  %2 = fusion.matmul %0, %1 : !rows, !whole -> !whole
  return
}

// -----

// matmul_c6
#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!cols = tensor<8x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!whole = tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%0: !cols, %1: !rows) {
  // expected-error @+1 {{expected result 0 with axes [-, -], partial = ["x"] on #tp, found [-, -] on #tp}}
  %2 = fusion.matmul %0, %1 : !cols, !rows -> !whole
  return
}

// -----

// matmul_c6
#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%0: !whole, %1: !rows) {
  // expected-error @+1 {{expected dimension 0 of operand 1 to be split as -, found didx("x")}}
  %2 = fusion.matmul %0, %1 : !whole, !rows -> !whole
  return
}

// -----

// matmul_c6
#tp = #tandem.mesh<"tp", ["x" = 2]>
#other = #tandem.mesh<"other", ["x" = 2]>
!a = tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
!b = tensor<8x8xf32, #fusion.axes<#other, [-, -]>>
func.func @f(%0: !a, %1: !b) {
  // expected-error @+1 {{expected operands and results on one mesh, found "tp" and "other"}}
  %2 = fusion.matmul %0, %1 : !a, !b -> !a
  return
}

// -----

// reduce_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>) {
  // expected-error @+1 {{expected operand 0 not to be partial, since the operation is not linear, found it partial by 'sum' over "x"; insert a fusion.reshard before it}}
  %1 = fusion.reduce max %0 dims [0] : tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
  return
}

// -----

// reduce_c4
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x8xf32, #fusion.axes<#tp, [-, didx("x")]>>) {
  // expected-error @+1 {{expected result 0 with axes [-], partial = max ["x"] on #tp, found [-], partial = ["x"] on #tp}}
  %1 = fusion.reduce max %0 dims [1] : tensor<8x8xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
  return
}

// -----

// reduce_c4
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  // expected-error @+1 {{expected dimension 0 of result 0 to be split as didx("x"), found serial(2) * didx("x")}}
  %1 = fusion.reduce sum %0 dims [1] : tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8xf32, #fusion.axes<#tp, [serial(2) * didx("x")]>>
  return
}

// -----

// broadcast_c4
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>) {
  // expected-error @+1 {{expected dimension 1 of result 0 to be split as didx("x"), found -}}
  %1 = fusion.broadcast %0 dims [1] : tensor<8xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<4x8xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// -----

// broadcast_c4
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>) {
  // expected-error @+1 {{expected result 0 with axes [-, -], partial = ["x"] on #tp, found [-, -] on #tp}}
  %1 = fusion.broadcast %0 dims [1] : tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>> -> tensor<4x8xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// -----

// permute_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  // expected-error @+1 {{expected dimension 0 of result 0 to be split as -, found didx("x")}}
  %1 = fusion.permute %0 [1, 0] : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return
}

// -----

// reshape_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>) {
  // expected-error @+1 {{expected dimension 0 of result 0 to be split as -, found didx("x")}}
  %1 = fusion.reshape %0 : tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<32xf32, #fusion.axes<#tp, [didx("x")]>>
  return
}

// -----

// slice_c4
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  // expected-error @+1 {{expected no device digit in dimension 0 of operand 0, which is needed whole, found didx("x")}}
  %1 = fusion.slice %0 offsets [4, 0] steps [1, 1] : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<4x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return
}

// -----

// concat_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%0: !rows, %1: !whole) {
  // expected-error @+1 {{expected dimension 0 of operand 1 to be split as didx("x"), found -}}
  %2 = fusion.concat %0, %1 dim 1 : (!rows, !whole) -> tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return
}

// -----

// concat_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
!part = tensor<8x4xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!whole = tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%0: !part, %1: !whole) {
  // expected-error @+1 {{expected operands that are partial alike, found different ones}}
  %2 = fusion.concat %0, %1 dim 1 : (!part, !whole) -> tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// -----

// call_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>
!cols = tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>
func.func @f(%0: !cols) {
  // expected-error @+1 {{expected no device digit in dimension 1 of operand 0, which is needed whole, found didx("x")}}
  %1 = fusion.call @kernel(%0) dims "s_ -> s_" : (!cols) -> !cols
  return
}

// -----

// call_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>
!stream = tensor<8x4xf32, #fusion.axes<#tp, [-, stream]>>
func.func @f(%0: !stream) {
  // expected-error @+1 {{expected no stream digit in dimension 1 of result 0, which one call computes, found stream}}
  %1 = fusion.call @kernel(%0) dims "s_ -> s_" : (!stream) -> !stream
  return
}

// -----

// call_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func private @kernel(tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
!rows = tensor<8x4xf32, #fusion.axes<#tp, [stream(2), -]>>
!row = tensor<8xf32, #fusion.axes<#tp, [-]>>
func.func @f(%0: !rows) {
  // expected-error @+1 {{expected dimension 0 of result 1 to be sliced as stream(2), found -}}
  %1:2 = fusion.call @kernel(%0) dims "s_ -> s_, s" : (!rows) -> (!rows, !row)
  return
}

// -----

// call_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [stream(2), -]>>
func.func @f(%0: !rows) {
  // expected-error @+1 {{expected no stream digits in result 0, whose kernel writes memory of its own, found [stream(2), -] on #tp}}
  %1 = fusion.call @kernel(%0) dims "s_ -> s_" {effects = "writes"} : (!rows) -> !rows
  return
}

// -----

// call_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>
!rows = tensor<8x4xf32, #fusion.axes<#tp, [serial(2) * didx("x"), -]>>
func.func @f(%0: !rows) {
  // expected-error @+1 {{expected one range of indices on a device in each dimension of result 0, whose kernel writes memory of its own, found [serial(2) * didx("x"), -] on #tp}}
  %1 = fusion.call @kernel(%0) dims "s_ -> s_" {effects = "writes"} : (!rows) -> !rows
  return
}

// -----

// call_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x4xf32>
!part = tensor<8x4xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
func.func @f(%0: !part) {
  // expected-error @+1 {{expected operand 0 not to be partial, since the operation is not linear}}
  %1 = fusion.call @kernel(%0) dims "s_ -> s_" : (!part) -> !part
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!part = tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
func.func @constant() {
  // expected-error @+1 {{expected a constant that is not partial, found it partial over "x"}}
  %0 = arith.constant dense<1.0> : !part
  return
}

// -----

// reshard_c4
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
func.func @sequence(%0: tensor<8x8xf32, #fusion.axes<#pod, [didx("node"), -], partial = ["gpu"]>>) {
  // expected-error @+1 {{expected one row of the reshard table, found 2 (fusion-insert-reshards writes them out)}}
  %1 = fusion.reshard %0 : tensor<8x8xf32, #fusion.axes<#pod, [didx("node"), -], partial = ["gpu"]>> -> tensor<8x8xf32, #fusion.axes<#pod, [-, didx("gpu")]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @other_op(%0: tensor<8xf32, #fusion.axes<#tp, [-]>>) {
  // expected-error @+1 {{expected an operation of a fusion (fusion, elementwise arith and math, return), found 'tensor.cast'}}
  %1 = tensor.cast %0 : tensor<8xf32, #fusion.axes<#tp, [-]>> to tensor<?xf32, #fusion.axes<#tp, [-]>>
  return
}

// -----

// Elements that no later stage has, and those that one has.
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xi32, #fusion.axes<#tp, [didx("x")]>>, %1: tensor<8xi4, #fusion.axes<#tp, [didx("x")]>>) {
  %2 = arith.addi %0, %0 : tensor<8xi32, #fusion.axes<#tp, [didx("x")]>>
  // expected-error @+1 {{expected elements of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'i4' in operand 0}}
  %3 = arith.addi %1, %1 : tensor<8xi4, #fusion.axes<#tp, [didx("x")]>>
  return
}

// -----

// Truth values combine by max or min.
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x4xi1, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<8xi1, #fusion.axes<#tp, [-], partial = ["x"]>>) {
  %2 = fusion.reduce max %0 dims [1] : tensor<8x4xi1, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8xi1, #fusion.axes<#tp, [didx("x")]>>
  // expected-error @+1 {{expected i1 to be combined by max (or) or min (and), found partial sums in operand 0}}
  %3 = fusion.reshard %1 : tensor<8xi1, #fusion.axes<#tp, [-], partial = ["x"]>> -> tensor<8xi1, #fusion.axes<#tp, [-]>>
  return
}

// -----

// grouped_matmul_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
!columns = tensor<6x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!rows_of_w = tensor<3x8x5xf32, #fusion.axes<#tp, [-, didx("x"), -]>>
!ends = tensor<3xi32, #fusion.axes<#tp, [-]>>
func.func @f(%x: !columns, %w: !rows_of_w, %ends: !ends) {
  // expected-error @+1 {{expected result 0 with axes [-, -], partial = ["x"] on #tp, found [-, -] on #tp}}
  %y = fusion.grouped_matmul %x, %w, %ends : !columns, !rows_of_w, !ends -> tensor<6x5xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// -----

// grouped_matmul_c6
#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<6x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<3x8x5xf32, #fusion.axes<#tp, [-, -, -]>>
!ends = tensor<3xi32, #fusion.axes<#tp, [-]>>
func.func @f(%x: !rows, %w: !w, %ends: !ends) {
  // expected-error @+1 {{expected no device digit in dimension 0 of operand 0, which is needed whole, found didx("x")}}
  %y = fusion.grouped_matmul %x, %w, %ends : !rows, !w, !ends -> tensor<6x5xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return
}

// -----

// grouped_matmul_c6
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<6x8xf32, #fusion.axes<#tp, [-, -]>>
!w = tensor<3x8x5xf32, #fusion.axes<#tp, [-, -, -]>>
!ends = tensor<3xi32, #fusion.axes<#tp, [-]>>
func.func @f(%x: !x, %w: !w, %ends: !ends) {
  // expected-error @+1 {{expected no stream digit in dimension 0 of result 0, which one call computes, found stream(3)}}
  %y = fusion.grouped_matmul %x, %w, %ends : !x, !w, !ends -> tensor<6x5xf32, #fusion.axes<#tp, [stream(3), -]>>
  return
}

// -----

// attention_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @f(%q: !rows, %k: !rows) {
  // expected-error @+1 {{expected no device digit in dimension 0 of operand 1, which is needed whole, found didx("x")}}
  %y = fusion.attention %q, %k, %k : !rows, !rows, !rows -> !rows
  return
}
