// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// reshard_c1
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>) {
  // expected-error @+1 {{expected a result of the operand's shape and element type, found 'tensor<8x4xf32>' from 'tensor<8x8xf32>'}}
  %1 = fusion.reshard %0 : tensor<8x8xf32, #fusion.axes<#tp, [-, -]>> -> tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// -----

// reshard_c1
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#tp, [-]>>) {
  // expected-error @+1 {{expected a result of the operand's shape and element type, found 'tensor<8xbf16>' from 'tensor<8xf32>'}}
  %1 = fusion.reshard %0 : tensor<8xf32, #fusion.axes<#tp, [-]>> -> tensor<8xbf16, #fusion.axes<#tp, [-]>>
  return
}

// -----

// reshard_c2
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#tp, [-]>>) {
  // expected-error @+1 {{expected a result with axes, found 'tensor<8xf32>'}}
  %1 = fusion.reshard %0 : tensor<8xf32, #fusion.axes<#tp, [-]>> -> tensor<8xf32>
  return
}

// -----

// reshard_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#tp, [-]>>) {
  // expected-error @+1 {{expected a result that is partial only where the operand is, found it partial over "x"}}
  %1 = fusion.reshard %0 : tensor<8xf32, #fusion.axes<#tp, [-]>> -> tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
  return
}

// -----

// reshard_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#tp, [-], partial = max ["x"]>>) {
  // expected-error @+1 {{expected a result that is partial by 'max' as the operand is, found 'sum'}}
  %1 = fusion.reshard %0 : tensor<8xf32, #fusion.axes<#tp, [-], partial = max ["x"]>> -> tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
  return
}

// -----

// reshard_c3
#a = #tandem.mesh<"a", ["x" = 2]>
#b = #tandem.mesh<"b", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#a, [-], partial = ["x"]>>) {
  // expected-error @+1 {{expected a result that is not partial on another mesh, found it partial over "x"}}
  %1 = fusion.reshard %0 : tensor<8xf32, #fusion.axes<#a, [-], partial = ["x"]>> -> tensor<8xf32, #fusion.axes<#b, [-], partial = ["x"]>>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<f32>, %1: tensor<8x4xf32>) {
  // expected-error @+1 {{expected lhs of rank 1 or more, found rank 0}}
  %2 = fusion.matmul %0, %1 : tensor<f32>, tensor<8x4xf32> -> tensor<4xf32>
  return
}

// -----

// matmul_c7
func.func @f(%0: tensor<8xf32>, %1: tensor<8x4xf32>) {
  // expected-error @+1 {{expected lhs of rank 2 or more to transpose, found a vector}}
  %2 = fusion.matmul %0, %1 {transpose_a} : tensor<8xf32>, tensor<8x4xf32> -> tensor<4xf32>
  return
}

// -----

// matmul_c7
func.func @f(%0: tensor<8xf32>, %1: tensor<4x8xf32>) {
  // expected-error @+1 {{expected rhs of rank 2 or more to transpose, found a vector}}
  %2 = fusion.matmul %1, %0 {transpose_b} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// matmul_c2
func.func @f(%0: tensor<8xf32>, %1: tensor<8x4xf32>) {
  // expected-error @+1 {{expected equal contracted extents, found 4 and 8}}
  %2 = fusion.matmul %1, %0 : tensor<8x4xf32>, tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// matmul_c3
func.func @f(%0: tensor<8xf32>, %1: tensor<2x8x4xf32>) {
  // expected-error @+1 {{expected shape [2x4] of the result, found [2x1x4]}}
  %2 = fusion.matmul %0, %1 : tensor<8xf32>, tensor<2x8x4xf32> -> tensor<2x1x4xf32>
  return
}

// -----

// matmul_c4
func.func @f(%0: tensor<8xf32>, %1: tensor<4x8xf32>, %2: tensor<4xf32>) {
  // expected-error @+1 {{expected no bias where rhs is a vector: the result has no N}}
  %3 = fusion.matmul %1, %0 bias %2 : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<8x8xi32>) {
  // expected-error @+1 {{expected factors of one floating point type, or of 8 bits, found i32 and i32}}
  %2 = fusion.matmul %0, %0 : tensor<8x8xi32>, tensor<8x8xi32> -> tensor<8x8xi32>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<8x8xf16>, %1: tensor<8x8xbf16>) {
  // expected-error @+1 {{expected factors of one floating point type, or of 8 bits, found f16 and bf16}}
  %2 = fusion.matmul %0, %1 : tensor<8x8xf16>, tensor<8x8xbf16> -> tensor<8x8xf16>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<8x8xf16>) {
  // expected-error @+1 {{expected a result of f16 or f32, found bf16}}
  %1 = fusion.matmul %0, %0 : tensor<8x8xf16>, tensor<8x8xf16> -> tensor<8x8xbf16>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<8x8xf64>) {
  // expected-error @+1 {{expected a result of f64, found f32}}
  %1 = fusion.matmul %0, %0 : tensor<8x8xf64>, tensor<8x8xf64> -> tensor<8x8xf32>
  return
}

// -----

// matmul_c4
func.func @f(%0: tensor<8x8xf16>, %1: tensor<8xf16>) {
  // expected-error @+1 {{expected element type 'f32' of the bias, found 'f16'}}
  %2 = fusion.matmul %0, %0 bias %1 : tensor<8x8xf16>, tensor<8x8xf16>, tensor<8xf16> -> tensor<8x8xf32>
  return
}

// -----

// matmul_c2
func.func @f(%0: tensor<8x4xf32>, %1: tensor<4x8xf32>) {
  // expected-error @+1 {{expected equal contracted extents, found 4 and 8}}
  %2 = fusion.matmul %0, %1 {transpose_b} : tensor<8x4xf32>, tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

// matmul_c3
func.func @f(%0: tensor<2x8x4xf32>, %1: tensor<3x4x8xf32>) {
  // expected-error @+1 {{expected batch extents that are equal or 1 in dimension 0, found 2 and 3}}
  %2 = fusion.matmul %0, %1 : tensor<2x8x4xf32>, tensor<3x4x8xf32> -> tensor<2x8x8xf32>
  return
}

// -----

// matmul_c3
func.func @f(%0: tensor<2x1x8x4xf32>, %1: tensor<3x4x8xf32>) {
  // expected-error @+1 {{expected shape [2x3x8x8] of the result, found [2x1x8x8]}}
  %2 = fusion.matmul %0, %1 : tensor<2x1x8x4xf32>, tensor<3x4x8xf32> -> tensor<2x1x8x8xf32>
  return
}

// -----

// matmul_c4
func.func @f(%0: tensor<8x4xf32>, %1: tensor<4x6xf32>, %2: tensor<8xf32>) {
  // expected-error @+1 {{expected a bias of rank 1 and extent 6, found [8]}}
  %3 = fusion.matmul %0, %1 bias %2 : tensor<8x4xf32>, tensor<4x6xf32>, tensor<8xf32> -> tensor<8x6xf32>
  return
}

// -----

// matmul_c4
func.func @f(%0: tensor<8x4xf32>, %1: tensor<4x6xf32>, %2: tensor<6xf16>) {
  // expected-error @+1 {{expected element type 'f32' of the bias, found 'f16'}}
  %3 = fusion.matmul %0, %1 bias %2 : tensor<8x4xf32>, tensor<4x6xf32>, tensor<6xf16> -> tensor<8x6xf32>
  return
}

// -----

// reduce_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'dims' below rank 2, found 2}}
  %1 = fusion.reduce sum %0 dims [2] : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

// reduce_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'dims' in ascending order, found 0 after 1}}
  %1 = fusion.reduce sum %0 dims [1, 0] : tensor<8x4xf32> -> tensor<f32>
  return
}

// -----

// reduce_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'sum', 'max' or 'min'}}
  %1 = fusion.reduce mean %0 dims [1] : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

// reduce_c2
func.func @f(%0: tensor<8x4xi16>) {
  // expected-error @+1 {{expected elements that can be reduced, found 'i16', which holds the bits of f16 or bf16}}
  %1 = fusion.reduce max %0 dims [1] : tensor<8x4xi16> -> tensor<8xi16>
  return
}

// -----

// reduce_c2
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected shape [8x1] of the result, found [8]}}
  %1 = fusion.reduce sum %0 dims [1] {keep_dims} : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

// reduce_c2
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected shape [8] of the result, found [4]}}
  %1 = fusion.reduce sum %0 dims [1] : tensor<8x4xf32> -> tensor<4xf32>
  return
}

// -----

// reduce_c2
func.func @f(%0: tensor<8x4xf16>) {
  // expected-error @+1 {{expected element type 'f16' of the result, found 'f32'}}
  %1 = fusion.reduce sum %0 dims [1] : tensor<8x4xf16> -> tensor<8xf32>
  return
}

// -----

// broadcast_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected one entry of 'dims' per operand dimension (2), found 1}}
  %1 = fusion.broadcast %0 dims [0] : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

// broadcast_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'dims' below rank 3, found 3}}
  %1 = fusion.broadcast %0 dims [0, 3] : tensor<8x4xf32> -> tensor<8x4x2xf32>
  return
}

// -----

// broadcast_c2
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected extent 2 (of result dimension 2) or 1 in operand dimension 1, found 4}}
  %1 = fusion.broadcast %0 dims [0, 2] : tensor<8x4xf32> -> tensor<8x4x2xf32>
  return
}

// -----

// broadcast_c3
func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{expected element type 'f32' of the result, found 'f16'}}
  %1 = fusion.broadcast %0 dims [1] : tensor<4xf32> -> tensor<8x4xf16>
  return
}

// -----

// permute_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a permutation of 0 ... 1, found [1, 1]}}
  %1 = fusion.permute %0 [1, 1] : tensor<8x4xf32> -> tensor<4x4xf32>
  return
}

// -----

// permute_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a permutation of 0 ... 1, found [0]}}
  %1 = fusion.permute %0 [0] : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

// permute_c2
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected shape [4x8] of the result, found [8x4]}}
  %1 = fusion.permute %0 [1, 0] : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

// reshape_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a result of 32 elements, found 16}}
  %1 = fusion.reshape %0 : tensor<8x4xf32> -> tensor<16xf32>
  return
}

// -----

// reshape_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected element type 'f32' of the result, found 'f16'}}
  %1 = fusion.reshape %0 : tensor<8x4xf32> -> tensor<32xf16>
  return
}

// -----

// reshape_c2
func.func @f(%0: tensor<?x?xf32>) {
  // expected-error @+1 {{expected dimensions that split and merge in groups of equal size, found [?x?] and [?]}}
  %1 = fusion.reshape %0 : tensor<?x?xf32> -> tensor<?xf32>
  return
}

// -----

// reshape_c2
func.func @f(%0: tensor<6x4xf32>) {
  // expected-error @+1 {{expected 24 elements in dimensions that hold a multiple of 5}}
  %1 = fusion.reshape %0 : tensor<6x4xf32> -> tensor<?x5xf32>
  return
}

// -----

// slice_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 2 entries of 'offsets', found 1}}
  %1 = fusion.slice %0 offsets [0] steps [1, 1] : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

// slice_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected an offset that is not negative in dimension 1, found -1}}
  %1 = fusion.slice %0 offsets [0, -1] steps [1, 1] : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

// slice_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a positive step in dimension 0, found 0}}
  %1 = fusion.slice %0 offsets [0, 0] steps [0, 1] : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

// slice_c2
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected elements inside the extent 8 of dimension 0, found 4 from 2 in steps of 2}}
  %1 = fusion.slice %0 offsets [2, 0] steps [2, 1] : tensor<8x4xf32> -> tensor<4x4xf32>
  return
}

// -----

// slice_c2: no overflow
func.func @f(%0: tensor<8xf32>) {
  // expected-error @+1 {{expected elements inside the extent 8 of dimension 0, found 4 from 0 in steps of 9223372036854775807}}
  %1 = fusion.slice %0 offsets [0] steps [9223372036854775807] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// slice_c3
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a result of rank 2, found rank 1}}
  %1 = fusion.slice %0 offsets [0, 0] steps [1, 1] : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

// concat_c1
func.func @f() {
  // expected-error @+1 {{expected at least one operand, found none}}
  %1 = "fusion.concat"() {dim = 0 : i64} : () -> tensor<8xf32>
  return
}

// -----

// concat_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'dim' below rank 2, found 2}}
  %1 = fusion.concat %0 dim 2 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// concat_c2
func.func @f(%0: tensor<8x4xf32>, %1: tensor<8x5xf32>) {
  // expected-error @+1 {{expected extent 4 in dimension 1 of operand 1, found 5}}
  %2 = fusion.concat %0, %1 dim 0 : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<16x4xf32>
  return
}

// -----

// concat_c2
func.func @f(%0: tensor<8x4xf32>, %1: tensor<8xf32>) {
  // expected-error @+1 {{expected rank 2 of operand 1, found 1}}
  %2 = fusion.concat %0, %1 dim 0 : (tensor<8x4xf32>, tensor<8xf32>) -> tensor<16x4xf32>
  return
}

// -----

// concat_c2
func.func @f(%0: tensor<8x4xf32>, %1: tensor<6x4xf32>) {
  // expected-error @+1 {{expected shape [14x4] of the result, found [16x4]}}
  %2 = fusion.concat %0, %1 dim 0 : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

// call_c1
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a function declared as @softmax, found none}}
  %1 = fusion.call @softmax(%0) dims "s_ -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c1
// expected-note @+1 {{defined here}}
func.func private @softmax(%0: tensor<8x4xf32>) -> tensor<8x4xf32> {
  return %0 : tensor<8x4xf32>
}
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a declaration of @softmax, found a function with a body}}
  %1 = fusion.call @softmax(%0) dims "s_ -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c1
func.func private @softmax(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x8xf32>) {
  // expected-error @+1 {{expected operand 0 of type 'tensor<8x4xf32>' as @softmax has, found 'tensor<8x8xf32>'}}
  %1 = fusion.call @softmax(%0) dims "s_ -> s_" : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c1
func.func private @softmax(tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 2 operands as @softmax has, found 1}}
  %1 = fusion.call @softmax(%0) dims "s_ -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected dims of 1 operands and a result, as in "s_, _ -> s_", found "s_, _ -> s_"}}
  %1 = fusion.call @k(%0) dims "s_, _ -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected dims of 1 operands and a result, as in "s_, _ -> s_", found "s_"}}
  %1 = fusion.call @k(%0) dims "s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 2 dims of the result, found "s"}}
  %1 = fusion.call @k(%0) dims "s_ -> s" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 2 dims of operand 0, found "s"}}
  %1 = fusion.call @k(%0) dims "s -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected lower-case letters and '_' as dims of operand 0, found "sX"}}
  %1 = fusion.call @k(%0) dims "sX -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c3
func.func private @k(tensor<8x4xf32>) -> tensor<4x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected equal extents of the dimensions 's', found 4 and 8}}
  %1 = fusion.call @k(%0) dims "s_ -> s_" : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// call_c3
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected the dims of operand 0 to be distinct, found 's' twice}}
  %1 = fusion.call @k(%0) dims "ss -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c3
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected every parallel dimension in the result, found 't' of operand 0 only}}
  %1 = fusion.call @k(%0) dims "st -> s_" : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>)
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected at least one result, found none}}
  fusion.call @k(%0) dims "s_ -> " : (tensor<8x4xf32>) -> ()
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected dims of 1 operands and 2 results, as in "s_, _ -> s_", found "s_ -> s_"}}
  %1:2 = fusion.call @k(%0) dims "s_ -> s_" : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----

// call_c2
func.func private @k(tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 1 dims of result 1, found "s_"}}
  %1:2 = fusion.call @k(%0) dims "s_ -> s_, s_" : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----

// call_c3
func.func private @k(tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected the parallel dimensions 's' in all results, in this order, found '' in result 1}}
  %1:2 = fusion.call @k(%0) dims "s_ -> s_, _" : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----

// call_c3
func.func private @k(tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>)
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected the parallel dimensions 'sc' in all results, in this order, found 'cs' in result 1}}
  %1:2 = fusion.call @k(%0) dims "sc -> sc, cs" : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>)
  return
}

// -----

// call_c6
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected effects "reads" or "writes", found "random"}}
  %1 = fusion.call @k(%0) dims "s_ -> s_" {effects = "random"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected ascending parallel dimensions below 2 in 'fusion.varying', found array<i64: 1, 0>}}
  %1 = fusion.call @k(%0) dims "sc -> sc" {fusion.varying = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @varying(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected ascending dimensions of the operand and of the result in 'fusion.varying', found [array<i64: 0>, array<i64: 2>]}}
  %1 = fusion.reshape %0 {fusion.varying = [array<i64: 0>, array<i64: 2>]} : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

// call_c4
func.func private @k(tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @f(%0: tensor<8x4xf32>) {
  // expected-error @+1 {{expected flops that are not negative, found -1}}
  %1 = fusion.call @k(%0) dims "s_ -> s_" {flops = -1.0} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// grouped_matmul_c1
func.func @f(%x: tensor<8xf32>, %w: tensor<3x8x5xf32>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected [..., M, K], [G, K, N] and [..., G], found [8], [3x8x5] and [3]}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<8xf32>, tensor<3x8x5xf32>, tensor<3xi32> -> tensor<5xf32>
  return
}

// -----

// grouped_matmul_c1
func.func @f(%x: tensor<6x8xf32>, %w: tensor<8x5xf32>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected [..., M, K], [G, K, N] and [..., G], found [6x8], [8x5] and [3]}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xf32>, tensor<8x5xf32>, tensor<3xi32> -> tensor<6x5xf32>
  return
}

// -----

// grouped_matmul_c1
func.func @f(%x: tensor<4x6x8xf32>, %w: tensor<3x8x5xf32>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected [..., M, K], [G, K, N] and [..., G], found [4x6x8], [3x8x5] and [3]}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<4x6x8xf32>, tensor<3x8x5xf32>, tensor<3xi32> -> tensor<4x6x5xf32>
  return
}

// -----

// grouped_matmul_c2
func.func @f(%x: tensor<6x8xf64>, %w: tensor<3x8x5xf64>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected elements of f32, f16, bf16, f8E4M3FN or f8E5M2, found 'f64'}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xf64>, tensor<3x8x5xf64>, tensor<3xi32> -> tensor<6x5xf64>
  return
}

// -----

// grouped_matmul_c2
func.func @f(%x: tensor<6x8xbf16>, %w: tensor<3x8x5xf16>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected factors of one floating point type, or of 8 bits, found bf16 and f16}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xbf16>, tensor<3x8x5xf16>, tensor<3xi32> -> tensor<6x5xbf16>
  return
}

// -----

// grouped_matmul_c2
func.func @f(%x: tensor<6x8xf32>, %w: tensor<3x8x5xf32>, %ends: tensor<3xi64>) {
  // expected-error @+1 {{expected element type 'i32' of ends, found 'i64'}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xf32>, tensor<3x8x5xf32>, tensor<3xi64> -> tensor<6x5xf32>
  return
}

// -----

// grouped_matmul_c2
func.func @f(%x: tensor<6x8xbf16>, %w: tensor<3x8x5xbf16>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected a result of bf16 or f32, found f16}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xbf16>, tensor<3x8x5xbf16>, tensor<3xi32> -> tensor<6x5xf16>
  return
}

// -----

// grouped_matmul_c2
func.func @f(%x: tensor<6x8xf8E5M2>, %w: tensor<3x8x5xbf16>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected factors of one floating point type, or of 8 bits, found f8E5M2 and bf16}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xf8E5M2>, tensor<3x8x5xbf16>, tensor<3xi32> -> tensor<6x5xbf16>
  return
}

// -----

// grouped_matmul_c2
func.func @f(%x: tensor<6x8xbf16>, %w: tensor<3x8x5xf8E5M2>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected factors of one floating point type, or of 8 bits, found bf16 and f8E5M2}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xbf16>, tensor<3x8x5xf8E5M2>, tensor<3xi32> -> tensor<6x5xbf16>
  return
}

// -----

// grouped_matmul_c2
func.func @f(%x: tensor<6x8xf8E4M3FN>, %w: tensor<3x8x5xf8E4M3FN>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected a result of f32, f16 or bf16 of factors of 8 bits, found f8E4M3FN}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<6x8xf8E4M3FN>, tensor<3x8x5xf8E4M3FN>, tensor<3xi32> -> tensor<6x5xf8E4M3FN>
  return
}

// -----

// grouped_matmul_c3
func.func @f(%x: tensor<6x8xf32>, %w: tensor<3x8x5xf32>, %ends: tensor<3xi32>) {
  // expected-error @+1 {{expected [..., M, K], [G, N, K] and [..., G], found [6x8], [3x8x5] and [3]}}
  %y = fusion.grouped_matmul %x, %w, %ends {transpose_b} : tensor<6x8xf32>, tensor<3x8x5xf32>, tensor<3xi32> -> tensor<6x8xf32>
  return
}

// -----

// grouped_matmul_c4
func.func @f(%x: tensor<4x6x8xf32>, %w: tensor<3x8x5xf32>, %ends: tensor<4x2xi32>) {
  // expected-error @+1 {{expected [..., M, K], [G, K, N] and [..., G], found [4x6x8], [3x8x5] and [4x2]}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<4x6x8xf32>, tensor<3x8x5xf32>, tensor<4x2xi32> -> tensor<4x6x5xf32>
  return
}

// -----

// grouped_matmul_c4
func.func @f(%x: tensor<4x6x8xf32>, %w: tensor<3x8x5xf32>, %ends: tensor<5x3xi32>) {
  // expected-error @+1 {{expected [..., M, K], [G, K, N] and [..., G], found [4x6x8], [3x8x5] and [5x3]}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<4x6x8xf32>, tensor<3x8x5xf32>, tensor<5x3xi32> -> tensor<4x6x5xf32>
  return
}

// -----

// grouped_matmul_c4
func.func @f(%x: tensor<4x6x8xf32>, %w: tensor<3x8x5xf32>, %ends: tensor<4x3xi32>) {
  // expected-error @+1 {{expected shape [4x6x5] of the result, found [4x6x7]}}
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<4x6x8xf32>, tensor<3x8x5xf32>, tensor<4x3xi32> -> tensor<4x6x7xf32>
  return
}

// -----

// call_c7
func.func private @tandem.norm(tensor<8x16xf32>) -> tensor<8x16xf32>
func.func @f(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected the name of a kernel of the embedder, found @tandem.norm: names that begin with "tandem." are of the runtime's own kernels}}
  %y = fusion.call @tandem.norm(%x) dims "s_ -> s_" : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

// attention_c1
func.func @f(%q: tensor<2x6x8xf32>, %k: tensor<3x6x8xf32>, %v: tensor<2x6x4xf32>) {
  // expected-error @+1 {{expected equal batch extents, found 2 and 3 in dimension 0}}
  %y = fusion.attention %q, %k, %v : tensor<2x6x8xf32>, tensor<3x6x8xf32>, tensor<2x6x4xf32> -> tensor<2x6x4xf32>
  return
}

// -----

// attention_c1
func.func @f(%q: tensor<2x6x8xf32>, %k: tensor<6x8xf32>, %v: tensor<2x6x4xf32>) {
  // expected-error @+1 {{expected a query, keys and values of one rank, 2 or more, found ranks 3, 2 and 3}}
  %y = fusion.attention %q, %k, %v : tensor<2x6x8xf32>, tensor<6x8xf32>, tensor<2x6x4xf32> -> tensor<2x6x4xf32>
  return
}

// -----

// attention_c1
func.func @f(%q: tensor<6x8xf32>, %k: tensor<6x9xf32>, %v: tensor<6x4xf32>) {
  // expected-error @+1 {{expected query and keys of equal depth, 1 or more, found 8 and 9}}
  %y = fusion.attention %q, %k, %v : tensor<6x8xf32>, tensor<6x9xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  return
}

// -----

// attention_c1
func.func @f(%q: tensor<6x8xf32>, %k: tensor<6x8xf32>, %v: tensor<5x4xf32>) {
  // expected-error @+1 {{expected as many keys as values, found 6 and 5}}
  %y = fusion.attention %q, %k, %v : tensor<6x8xf32>, tensor<6x8xf32>, tensor<5x4xf32> -> tensor<6x4xf32>
  return
}

// -----

// attention_c1
func.func @f(%q: tensor<6x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x4xf32>) {
  // expected-error @+1 {{expected shape [6x4] of the result, found [6x5]}}
  %y = fusion.attention %q, %k, %v : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x4xf32> -> tensor<6x5xf32>
  return
}

// -----

// attention_c2
func.func @f(%q: tensor<6x8xi32>, %k: tensor<6x8xi32>, %v: tensor<6x4xi32>) {
  // expected-error @+1 {{expected elements of f32, f16 or bf16}}
  %y = fusion.attention %q, %k, %v : tensor<6x8xi32>, tensor<6x8xi32>, tensor<6x4xi32> -> tensor<6x4xi32>
  return
}

// -----

// attention_c3
func.func @f(%q: tensor<6x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x4xf32>) {
  // expected-error @+1 {{expected a finite scale greater than 0, as f32}}
  %y = fusion.attention %q, %k, %v {scale = 0.0 : f64} : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  return
}

// -----

// attention_c4
func.func @f(%q: tensor<6x8xf32>, %k: tensor<7x8xf32>, %v: tensor<7x4xf32>) {
  // expected-error @+1 {{expected as many keys as rows with causal, found 7 and 6}}
  %y = fusion.attention %q, %k, %v {causal} : tensor<6x8xf32>, tensor<7x8xf32>, tensor<7x4xf32> -> tensor<6x4xf32>
  return
}

// -----

// attention_c4
func.func @f(%q: tensor<6x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x4xf32>) {
  // expected-error @+1 {{expected zigzag greater than 0, and with causal}}
  %y = fusion.attention %q, %k, %v {zigzag = 3 : i64} : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  return
}

// -----

// attention_c4
func.func @f(%q: tensor<6x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x4xf32>) {
  // expected-error @+1 {{expected a number of tokens that 2 * zigzag divides, found 6 and zigzag 2}}
  %y = fusion.attention %q, %k, %v {causal, zigzag = 2 : i64} : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  return
}

// -----

// attention_c3
func.func @f(%q: tensor<6x8xf32>) {
  // expected-error @+1 {{expected a finite scale greater than 0, as f32}}
  %y = fusion.attention %q, %q, %q {scale = 1.0e39 : f64} : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<8x8xf8E4M3FN>, %1: tensor<8x8xbf16>) {
  // expected-error @+1 {{expected factors of one floating point type, or of 8 bits, found f8E4M3FN and bf16}}
  %2 = fusion.matmul %0, %1 : tensor<8x8xf8E4M3FN>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<8x8xbf16>, %1: tensor<8x8xf8E5M2>) {
  // expected-error @+1 {{expected factors of one floating point type, or of 8 bits, found bf16 and f8E5M2}}
  %2 = fusion.matmul %0, %1 : tensor<8x8xbf16>, tensor<8x8xf8E5M2> -> tensor<8x8xbf16>
  return
}

// -----

// matmul_c1
func.func @f(%0: tensor<8x8xf8E4M3FN>) {
  // expected-error @+1 {{expected a result of f32, f16 or bf16 of factors of 8 bits, found f8E4M3FN}}
  %1 = fusion.matmul %0, %0 : tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN> -> tensor<8x8xf8E4M3FN>
  return
}

// -----

// matmul_c4
func.func @f(%0: tensor<8x8xf8E4M3FN>, %1: tensor<8xf8E4M3FN>) {
  // expected-error @+1 {{expected element type 'bf16' of the bias, found 'f8E4M3FN'}}
  %2 = fusion.matmul %0, %0 bias %1 : tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>, tensor<8xf8E4M3FN> -> tensor<8x8xbf16>
  return
}

// -----

func.func @f(%0: tensor<8x8xf8E5M2>) {
  // expected-error @+1 {{expected elements that can be reduced, found 'f8E5M2'; extend them to f32 first}}
  %1 = fusion.reduce sum %0 dims [0] : tensor<8x8xf8E5M2> -> tensor<8xf8E5M2>
  return
}
