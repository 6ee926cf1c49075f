// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-verify="stage=propagated" | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>

// Operands decide results, through every op.
// CHECK-LABEL: @forward
// CHECK-SAME:    -> tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
func.func @forward(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<4x16xf32, #fusion.axes<#tp, [-, -]>>) -> tensor<16x8xf32> {
  // CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<4x16xf32, #fusion.axes<#tp, [-, -]>> -> tensor<8x16xf32>
  // CHECK: arith.constant dense<2.000000e+00> : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %c = arith.constant dense<2.0> : tensor<8x16xf32>
  // CHECK: arith.mulf {{.*}} : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %3 = arith.mulf %2, %c : tensor<8x16xf32>
  // CHECK: math.tanh {{.*}} : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %4 = math.tanh %3 : tensor<8x16xf32>
  // CHECK: fusion.permute {{.*}} -> tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %5 = fusion.permute %4 [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32>
  return %5 : tensor<16x8xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>

// A contraction of split dimensions makes a partial value, and so does a reduction; what is linear keeps it.
// CHECK-LABEL: @partial
func.func @partial(%0: tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<4x16xf32, #fusion.axes<#tp, [didx("x"), didx("y")]>>) {
  // CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [-, didx("y")], partial = ["x"]>>
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<4x16xf32, #fusion.axes<#tp, [didx("x"), didx("y")]>> -> tensor<8x16xf32>
  // CHECK: arith.addf {{.*}} partial = ["x"]
  %3 = arith.addf %2, %2 : tensor<8x16xf32>
  // CHECK: fusion.reduce sum {{.*}} -> tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x", "y"]>>
  %4 = fusion.reduce sum %3 dims [1] : tensor<8x16xf32> -> tensor<8xf32>
  // CHECK: fusion.reduce max {{.*}} -> tensor<4xf32, #fusion.axes<#tp, [didx("x")]>>
  %5 = fusion.reduce max %0 dims [0] : tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<4xf32>
  // CHECK: fusion.reduce max {{.*}} -> tensor<8xf32, #fusion.axes<#tp, [-], partial = max ["x"]>>
  %6 = fusion.reduce max %0 dims [1] : tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<8xf32>
  // CHECK: arith.maximumf {{.*}} partial = max ["x"]
  %7 = arith.maximumf %6, %6 : tensor<8xf32>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>

// Digits survive where dimensions are split, merged, inserted, cut elsewhere, put one behind the other.
// CHECK-LABEL: @shapes
func.func @shapes(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x") * stream(2), didx("y")]>>) {
  // CHECK: fusion.reshape {{.*}} -> tensor<4x2x4xf32, #fusion.axes<#tp, [didx("x") * stream(2), -, didx("y")]>>
  %1 = fusion.reshape %0 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x") * stream(2), didx("y")]>> -> tensor<4x2x4xf32>
  // CHECK: fusion.reshape {{.*}} -> tensor<4x8xf32, #fusion.axes<#tp, [didx("x") * stream(2), serial(2) * didx("y")]>>
  %2 = fusion.reshape %1 : tensor<4x2x4xf32> -> tensor<4x8xf32>
  // CHECK: fusion.reshape {{.*}} -> tensor<32xf32, #fusion.axes<#tp, [didx("x") * stream(2) * serial(2) * didx("y")]>>
  %3 = fusion.reshape %2 : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK: fusion.broadcast {{.*}} -> tensor<3x8x1x4xf32, #fusion.axes<#tp, [-, didx("x") * stream(2), -, didx("y")]>>
  %4 = fusion.broadcast %0 dims [1, 3] : tensor<8x4xf32, #fusion.axes<#tp, [didx("x") * stream(2), didx("y")]>> -> tensor<3x8x1x4xf32>
  // CHECK: fusion.slice {{.*}} -> tensor<1x8x1x4xf32, #fusion.axes<#tp, [-, didx("x") * stream(2), -, didx("y")]>>
  %5 = fusion.slice %4 offsets [1, 0, 0, 0] steps [1, 1, 1, 1] : tensor<3x8x1x4xf32> -> tensor<1x8x1x4xf32>
  // CHECK: fusion.concat {{.*}} -> tensor<4x8x1x4xf32, #fusion.axes<#tp, [-, didx("x") * stream(2), -, didx("y")]>>
  %6 = fusion.concat %4, %5 dim 0 : (tensor<3x8x1x4xf32>, tensor<1x8x1x4xf32>) -> tensor<4x8x1x4xf32>
  // CHECK: fusion.call {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %7 = fusion.reshard %0 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x") * stream(2), didx("y")]>> -> tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %8 = fusion.call @kernel(%7) dims "s_ -> s_" : (tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<8x16xf32>
  return
}
func.func private @kernel(tensor<8x4xf32>) -> tensor<8x16xf32>

// -----

#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>

// Arguments that nothing but their use decides; the signature follows.
// CHECK-LABEL: @backward(
// CHECK-SAME:    %arg0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-SAME:    %arg1: tensor<16x4xf32, #fusion.axes<#tp, [didx("y"), -]>>
// CHECK-SAME:    %arg2: tensor<16xf32, #fusion.axes<#tp, [didx("y")]>>
func.func @backward(%0: tensor<8x4xf32>, %1: tensor<16x4xf32>, %2: tensor<16xf32>) -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), didx("y")]>> {
  // CHECK: fusion.permute {{.*}} -> tensor<4x16xf32, #fusion.axes<#tp, [-, didx("y")]>>
  %3 = fusion.permute %1 [1, 0] : tensor<16x4xf32> -> tensor<4x16xf32>
  %4 = fusion.matmul %0, %3 bias %2 : tensor<8x4xf32>, tensor<4x16xf32>, tensor<16xf32> -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), didx("y")]>>
  return %4 : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), didx("y")]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// A contracted dimension of one operand decides that of the other, where the result is partial accordingly.
// CHECK-LABEL: @contracted(
// CHECK-SAME:    %arg1: tensor<4x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @contracted(%0: tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<4x16xf32>) {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<4x16xf32> -> tensor<8x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// What nothing determines is replicated; a replicated operand is cut to fit a split one.
// CHECK-LABEL: @undetermined(
// CHECK-SAME:    %arg1: tensor<4x16xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-SAME:    %arg2: tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @undetermined(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<4x16xf32>, %2: tensor<8x16xf32>, %3: tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>) {
  // CHECK: %[[M:.*]] = fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %4 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<4x16xf32> -> tensor<8x16xf32>
  // CHECK: arith.addf %[[M]], %arg2 : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %5 = arith.addf %4, %2 : tensor<8x16xf32>
  // CHECK: %[[P:.*]] = fusion.permute %arg3 {{.*}} -> tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
  %6 = fusion.permute %3 [1, 0] : tensor<8x16xf32, #fusion.axes<#tp, [-, -]>> -> tensor<16x8xf32>
  // CHECK: %[[Q:.*]] = fusion.permute %[[P]] {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
  %7 = fusion.permute %6 [1, 0] : tensor<16x8xf32> -> tensor<8x16xf32>
  // CHECK: %[[R:.*]] = fusion.reshard %[[Q]] : {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  // CHECK: arith.mulf %{{.*}}, %[[R]] : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %8 = arith.mulf %5, %7 : tensor<8x16xf32>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// A value between runs in the loop of what is computed from it.
// CHECK-LABEL: @stream
func.func @stream(%0: tensor<4x2x8x4xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>, %1: tensor<2x4x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>>) {
  // CHECK: fusion.matmul {{.*}} -> tensor<4x2x8x6xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>>
  %2 = fusion.matmul %0, %1 : tensor<4x2x8x4xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>, tensor<2x4x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<4x2x8x6xf32>
  %3 = fusion.reduce sum %2 dims [1] : tensor<4x2x8x6xf32> -> tensor<4x8x6xf32, #fusion.axes<#tp, [stream, -, -]>>
  return
}

// -----

// Mesh axes of one device stay in their places.
#tp = #tandem.mesh<"tp", ["x" = 1, "y" = 2]>
// CHECK-LABEL: @one_device_behind
func.func @one_device_behind(%0: tensor<8x1xf32, #fusion.axes<#tp, [didx("y"), didx("x")]>>) {
  // CHECK: fusion.reshape {{.*}} -> tensor<8xf32, #fusion.axes<#tp, [didx("y") * serial(4) * didx("x")]>>
  %1 = fusion.reshape %0 : tensor<8x1xf32, #fusion.axes<#tp, [didx("y"), didx("x")]>> -> tensor<8xf32>
  // CHECK: fusion.reshape {{.*}} -> tensor<4x2x1xf32, #fusion.axes<#tp, [didx("y"), serial(2) * didx("x"), -]>>
  %2 = fusion.reshape %1 : tensor<8xf32> -> tensor<4x2x1xf32>
  return
}
// CHECK-LABEL: @one_device(
func.func @one_device(%0: tensor<1x8xf32, #fusion.axes<#tp, [didx("x"), serial(2) * didx("y")]>>) {
  // CHECK: fusion.reshape {{.*}} -> tensor<8xf32, #fusion.axes<#tp, [didx("x") * serial(2) * didx("y")]>>
  %1 = fusion.reshape %0 : tensor<1x8xf32, #fusion.axes<#tp, [didx("x"), serial(2) * didx("y")]>> -> tensor<8xf32>
  // CHECK: fusion.reshape {{.*}} -> tensor<1x2x4xf32, #fusion.axes<#tp, [didx("x"), -, didx("y")]>>
  %2 = fusion.reshape %1 : tensor<8xf32> -> tensor<1x2x4xf32>
  return
}

// -----

// What stands on a dimension that is cut or concatenated stays behind: the extents differ.
#tp = #tandem.mesh<"tp", ["x" = 2]>
// CHECK-LABEL: @whole
func.func @whole(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), stream(4)]>>, %1: tensor<8x2xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  // CHECK: fusion.concat {{.*}} -> tensor<8x6xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %2 = fusion.concat %0, %1 dim 1 : (tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), stream(4)]>>, tensor<8x2xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<8x6xf32>
  // CHECK: fusion.slice {{.*}} -> tensor<8x3xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %3 = fusion.slice %0 offsets [0, 1] steps [1, 1] : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), stream(4)]>> -> tensor<8x3xf32>
  return
}

// -----

// A function that is no fusion is left alone.
// CHECK-LABEL: @foreign(%arg0: tensor<4xf32>) -> tensor<4xf32>
func.func @foreign(%0: tensor<4xf32>) -> tensor<4xf32> {
  return %0 : tensor<4xf32>
}

// -----

// Digits that a reshape cannot carry end: its operand is gathered. Slices end too.
#tp = #tandem.mesh<"tp", ["x" = 2]>
// CHECK-LABEL: @reshape_gathers
func.func @reshape_gathers(%0: tensor<6x4xf32, #fusion.axes<#tp, [-, serial(2) * didx("x")]>>, %1: tensor<5x6x8xf32, #fusion.axes<#tp, [-, stream, didx("x")]>>) {
  // CHECK: fusion.reshape {{.*}} -> tensor<8x3xf32, #fusion.axes<#tp, [-, -]>>
  %2 = fusion.reshape %0 : tensor<6x4xf32, #fusion.axes<#tp, [-, serial(2) * didx("x")]>> -> tensor<8x3xf32>
  // CHECK: fusion.reshape {{.*}} -> tensor<2x15x8xf32, #fusion.axes<#tp, [-, -, didx("x")]>>
  %3 = fusion.reshape %1 : tensor<5x6x8xf32, #fusion.axes<#tp, [-, stream, didx("x")]>> -> tensor<2x15x8xf32>
  return
}
