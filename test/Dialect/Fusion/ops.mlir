// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s --emit-bytecode | tandem-opt | FileCheck %s
// RUN: tandem-opt %s --mlir-print-op-generic | tandem-opt | FileCheck %s

// A mesh is printed once, under its name; axes stand inline.
// CHECK-DAG: #any = #tandem.mesh<"any", ["x" = ?]>
// CHECK-DAG: #one = #tandem.mesh<"one", []>
// CHECK-DAG: #part = #tandem.mesh<"part", ["x" = 2], devices = [3, 1]>
// CHECK-DAG: #pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 4]>
// CHECK-DAG: #tp = #tandem.mesh<"tp", ["x" = 8]>
#tp = #tandem.mesh<"tp", ["x" = 8]>
#other = #tandem.mesh<"pod", ["node" = 2, "gpu" = 4]>
#part = #tandem.mesh<"part", ["x" = 2], devices = [3, 1]>
#any = #tandem.mesh<"any", ["x" = ?]>
#one = #tandem.mesh<"one", []>

// CHECK-LABEL: func.func private @digits(
// CHECK-SAME:  tensor<64x64xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-SAME:  tensor<64x64xf32, #fusion.axes<#tp, [didx("x") * stream(2), -]>>
// CHECK-SAME:  tensor<64x64xf32, #fusion.axes<#pod, [serial(2) * didx("node") * stream, didx("gpu") * serial(4) * stream(2)]>>
// CHECK-SAME:  tensor<?x4xbf16, #fusion.axes<#any, [didx("x") * stream, stream]>>
// CHECK-SAME:  tensor<f32, #fusion.axes<#one, []>>
// CHECK-SAME:  tensor<2xi32, #fusion.axes<#part, [didx("x")]>>
func.func private @digits(
  tensor<64x64xf32, #fusion.axes<#tp, [-, -]>>,
  tensor<64x64xf32, #fusion.axes<#tp, [didx("x") * stream(2), -]>>,
  tensor<64x64xf32, #fusion.axes<#other, [serial(2) * didx("node") * stream, didx("gpu") * serial(4) * stream(2)]>>,
  tensor<?x4xbf16, #fusion.axes<#any, [didx("x") * stream, stream]>>,
  tensor<f32, #fusion.axes<#one, []>>,
  tensor<2xi32, #fusion.axes<#part, [didx("x")]>>)

// CHECK-LABEL: func.func private @partial(
// CHECK-SAME:  #fusion.axes<#tp, [-], partial = ["x"]>
// CHECK-SAME:  #fusion.axes<#tp, [-], partial = ["x"]>
// CHECK-SAME:  #fusion.axes<#pod, [-], partial = max ["node", "gpu"]>
// CHECK-SAME:  #fusion.axes<#pod, [didx("gpu")], partial = min ["node"]>
func.func private @partial(
  tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>,
  tensor<8xf32, #fusion.axes<#tp, [-], partial = sum ["x"]>>,
  tensor<8xf32, #fusion.axes<#other, [-], partial = max ["node", "gpu"]>>,
  tensor<8xf32, #fusion.axes<#other, [didx("gpu")], partial = min ["node"]>>)

// CHECK-LABEL: func.func private @loose
// CHECK-SAME:  dim = #fusion.dim<didx("x") * stream>
// CHECK-SAME:  empty = #fusion.dim<- >
func.func private @loose() attributes {dim = #fusion.dim<didx("x") * stream>, empty = #fusion.dim< - >}

// CHECK-LABEL: func.func @names(%arg0: tensor<?x4xf32> {fusion.name = "x", fusion.shape = ["x", 4]}) -> (tensor<?x4xf32> {fusion.name = "y"})
func.func @names(%x: tensor<?x4xf32> {fusion.name = "x", fusion.shape = ["x", 4]}) -> (tensor<?x4xf32> {fusion.name = "y"}) {
  return %x : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @reshard
func.func @reshard(%0: tensor<8x64xf32, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<8x64xf32>) {
  // CHECK: fusion.reshard %{{.*}} : tensor<8x64xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x64xf32, #fusion.axes<#tp, [stream, -]>>
  %2 = fusion.reshard %0 : tensor<8x64xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x64xf32, #fusion.axes<#tp, [stream, -]>>
  // CHECK: fusion.reshard %{{.*}} {schedule = #fusion.schedule<exchange>}
  %3 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>} : tensor<8x64xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x64xf32, #fusion.axes<#tp, [stream, -]>>
  // CHECK: schedule = #fusion.schedule<exchange, streams = 3>
  %4 = fusion.reshard %1 {schedule = #fusion.schedule<exchange, streams = 3>} : tensor<8x64xf32> -> tensor<8x64xf32, #fusion.axes<#tp, [-, -]>>
  // CHECK: schedule = #fusion.schedule<push, merge = [1, 1, 2, 4], order = xor, streams = 2>
  %5 = fusion.reshard %1 {schedule = #fusion.schedule<push, merge = [1, 1, 2, 4], order = xor, streams = 2>} : tensor<8x64xf32> -> tensor<8x64xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x6x8xbf16>, %k: tensor<2x6x8xbf16>, %v: tensor<2x6x4xbf16>) {
  // CHECK: fusion.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x6x8xbf16>, tensor<2x6x8xbf16>, tensor<2x6x4xbf16> -> tensor<2x6x4xbf16>
  %0 = fusion.attention %q, %k, %v : tensor<2x6x8xbf16>, tensor<2x6x8xbf16>, tensor<2x6x4xbf16> -> tensor<2x6x4xbf16>
  // CHECK: {causal, scale = 2.500000e-01 : f64, zigzag = 3 : i64}
  %1 = fusion.attention %q, %k, %v {causal, scale = 0.25 : f64, zigzag = 3 : i64}
      : tensor<2x6x8xbf16>, tensor<2x6x8xbf16>, tensor<2x6x4xbf16> -> tensor<2x6x4xbf16>
  return
}

// CHECK-LABEL: func.func @grouped_matmul
func.func @grouped_matmul(%x: tensor<4x6x8xbf16>, %w: tensor<3x8x5xbf16>, %ends: tensor<4x3xi32>, %rows: tensor<6x5xf32>, %v: tensor<3x8x5xf32>, %end: tensor<3xi32>, %q: tensor<6x8xf8E4M3FN>, %e: tensor<3x8x5xf8E5M2>) {
  // CHECK: fusion.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x6x8xbf16>, tensor<3x8x5xbf16>, tensor<4x3xi32> -> tensor<4x6x5xf32>
  %0 = fusion.grouped_matmul %x, %w, %ends : tensor<4x6x8xbf16>, tensor<3x8x5xbf16>, tensor<4x3xi32> -> tensor<4x6x5xf32>
  // CHECK: fusion.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}} {transpose_b} : tensor<6x5xf32>, tensor<3x8x5xf32>, tensor<3xi32> -> tensor<6x8xf32>
  %1 = fusion.grouped_matmul %rows, %v, %end {transpose_b} : tensor<6x5xf32>, tensor<3x8x5xf32>, tensor<3xi32> -> tensor<6x8xf32>
  // CHECK: fusion.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}} : tensor<6x8xf8E4M3FN>, tensor<3x8x5xf8E5M2>, tensor<3xi32> -> tensor<6x5xf16>
  %2 = fusion.grouped_matmul %q, %e, %end : tensor<6x8xf8E4M3FN>, tensor<3x8x5xf8E5M2>, tensor<3xi32> -> tensor<6x5xf16>
  return
}

// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %b: tensor<16xf32>, %xb: tensor<3x1x64x32xbf16>, %wt: tensor<5x16x32xbf16>, %xt: tensor<32x64xf32>) {
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<64x32xf32>, tensor<32x16xf32> -> tensor<64x16xf32>
  %0 = fusion.matmul %x, %w : tensor<64x32xf32>, tensor<32x16xf32> -> tensor<64x16xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<64x32xf32>, tensor<32x16xf32>, tensor<16xf32> -> tensor<64x16xf32>
  %1 = fusion.matmul %x, %w bias %b : tensor<64x32xf32>, tensor<32x16xf32>, tensor<16xf32> -> tensor<64x16xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<3x1x64x32xbf16>, tensor<5x16x32xbf16> -> tensor<3x5x64x16xbf16>
  %2 = fusion.matmul %xb, %wt {transpose_b} : tensor<3x1x64x32xbf16>, tensor<5x16x32xbf16> -> tensor<3x5x64x16xbf16>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_a} : tensor<32x64xf32>, tensor<32x16xf32> -> tensor<64x16xf32>
  %3 = fusion.matmul %xt, %w {transpose_a} : tensor<32x64xf32>, tensor<32x16xf32> -> tensor<64x16xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<3x1x64x32xbf16>, tensor<5x16x32xbf16> -> tensor<3x5x64x16xf32>
  %4 = fusion.matmul %xb, %wt {transpose_b} : tensor<3x1x64x32xbf16>, tensor<5x16x32xbf16> -> tensor<3x5x64x16xf32>
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%0: tensor<4x8x16xf32>, %1: tensor<?x16xf32>, %2: tensor<f32>) {
  // CHECK: fusion.reduce sum %{{.*}} dims [1] : tensor<4x8x16xf32> -> tensor<4x16xf32>
  %3 = fusion.reduce sum %0 dims [1] : tensor<4x8x16xf32> -> tensor<4x16xf32>
  // CHECK: fusion.reduce min %{{.*}} dims [1] {keep_dims} : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
  %kept = fusion.reduce min %0 dims [1] {keep_dims} : tensor<4x8x16xf32> -> tensor<4x1x16xf32>
  // CHECK: fusion.reduce max %{{.*}} dims [0, 1, 2] : tensor<4x8x16xf32> -> tensor<f32>
  %4 = fusion.reduce max %0 dims [0, 1, 2] : tensor<4x8x16xf32> -> tensor<f32>
  // CHECK: fusion.broadcast %{{.*}} dims [1, 3] : tensor<4x16xf32> -> tensor<1x4x1x16xf32>
  %5 = fusion.broadcast %3 dims [1, 3] : tensor<4x16xf32> -> tensor<1x4x1x16xf32>
  // CHECK: fusion.broadcast %{{.*}} dims [] : tensor<f32> -> tensor<3xf32>
  %6 = fusion.broadcast %2 dims [] : tensor<f32> -> tensor<3xf32>
  // CHECK: fusion.permute %{{.*}} [2, 0, 1] : tensor<4x8x16xf32> -> tensor<16x4x8xf32>
  %7 = fusion.permute %0 [2, 0, 1] : tensor<4x8x16xf32> -> tensor<16x4x8xf32>
  // CHECK: fusion.reshape %{{.*}} : tensor<4x8x16xf32> -> tensor<32x16xf32>
  %8 = fusion.reshape %0 : tensor<4x8x16xf32> -> tensor<32x16xf32>
  // CHECK: fusion.reshape %{{.*}} : tensor<?x16xf32> -> tensor<?xf32>
  %9 = fusion.reshape %1 : tensor<?x16xf32> -> tensor<?xf32>
  // CHECK: fusion.reshape %{{.*}} : tensor<?x16xf32> -> tensor<?x4x2x2xf32>
  %10 = fusion.reshape %1 : tensor<?x16xf32> -> tensor<?x4x2x2xf32>
  // CHECK: fusion.slice %{{.*}} offsets [0, 1, 2] steps [1, 2, 3] : tensor<4x8x16xf32> -> tensor<4x3x5xf32>
  %11 = fusion.slice %0 offsets [0, 1, 2] steps [1, 2, 3] : tensor<4x8x16xf32> -> tensor<4x3x5xf32>
  // CHECK: fusion.concat %{{.*}}, %{{.*}} dim 0 : (tensor<32x16xf32>, tensor<4x16xf32>) -> tensor<36x16xf32>
  %12 = fusion.concat %8, %3 dim 0 : (tensor<32x16xf32>, tensor<4x16xf32>) -> tensor<36x16xf32>
  return
}

func.func private @softmax(tensor<?x16xf32>) -> tensor<?x16xf32>

// CHECK-LABEL: func.func @call
func.func @call(%0: tensor<8x16xf32>) {
  // CHECK: fusion.call @softmax(%{{.*}}) dims "s_ -> s_" : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = fusion.call @softmax(%0) dims "s_ -> s_" : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return
}

func.func private @attention_sums(tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>)

// CHECK-LABEL: func.func @call_with_results
func.func @call_with_results(%0: tensor<8x16xf32>) {
  // CHECK: %{{.*}}:2 = fusion.call @attention_sums(%{{.*}}) dims "s_ -> s_, s" {effects = "writes"} : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>)
  %1:2 = fusion.call @attention_sums(%0) dims "s_ -> s_, s" {effects = "writes"} : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>)
  return
}

func.func private @rows(tensor<8x16xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x16xf32>

// CHECK-LABEL: func.func @call_with_cost
func.func @call_with_cost(%0: tensor<8x16xf32>, %1: tensor<4xi32>, %2: tensor<i32>) {
  // CHECK: fusion.call @rows(%{{.*}}, %{{.*}}, %{{.*}}) dims "_c, s, -> sc" {bytes = 1.200000e+01 : f64, config = "wrap", flops = 1.000000e+00 : f64, strided}
  %3 = fusion.call @rows(%0, %1, %2) dims "_c, s, -> sc" {config = "wrap", flops = 1.0, bytes = 12.0, strided}
      : (tensor<8x16xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x16xf32>
  return
}

// CHECK-LABEL: func.func private @f__reference() attributes {fusion.reference_of = @f}
func.func private @f__reference() attributes {fusion.reference_of = @f}
