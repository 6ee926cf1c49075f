// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --entry=scaled_gather --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Products of 8-bit floats, scaled and rounded by elementwise ops (docs/operators.md).

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#split = #fusion.axes<#tp, [didx("x")]>
#sliced = #fusion.axes<#tp, [stream("x"), didx("x")]>
#whole = #fusion.axes<#tp, [-]>
#one = #fusion.axes<#tp, []>

// A scale per row of x, which is gathered with the rows, and one per column of w, which stays. The gather moves bytes.
//
// FUSION-LABEL: func.func @scaled_gather(
// FUSION: fusion.stream_loop
// FUSION: fusion.reshard {{.*}}xf8E4M3FN, {{.*}} -> {{.*}}xf8E4M3FN, {{.*}}[stream(4), -]>>
// FUSION: fusion.matmul {{.*}} {transpose_b} : {{.*}}xf8E4M3FN, {{.*}}xf8E4M3FN, {{.*}} -> {{.*}}xf32
//
// HOSTIR-LABEL: hostir.program @scaled_gather(
// HOSTIR: hostir.recv {{.*}}xf8E4M3FN
// HOSTIR: hostir.matmul {{.*}}xf8E4M3FN{{.*}}, {{.*}}xf8E4M3FN{{.*}} to {{.*}}xf32
//
// RANK1: f8E4M3FN[12,32]
func.func @scaled_gather(
    %x: tensor<48x32xf8E4M3FN, #rows> {fusion.name = "x"}, %sx: tensor<48xf32, #split> {fusion.name = "sx"},
    %w: tensor<24x32xf8E4M3FN, #rows> {fusion.name = "w"}, %sw: tensor<24xf32, #split> {fusion.name = "sw"})
    -> (tensor<48x24xf32, #sliced> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w {transpose_b}
      : tensor<48x32xf8E4M3FN, #rows>, tensor<24x32xf8E4M3FN, #rows> -> tensor<48x24xf32, #sliced>
  %r = fusion.broadcast %sx dims [0] : tensor<48xf32, #split> -> tensor<48x24xf32, #sliced>
  %c = fusion.broadcast %sw dims [1] : tensor<24xf32, #split> -> tensor<48x24xf32, #sliced>
  %pr = arith.mulf %p, %r : tensor<48x24xf32, #sliced>
  %y = arith.mulf %pr, %c : tensor<48x24xf32, #sliced>
  return %y : tensor<48x24xf32, #sliced>
}

// One scale per tensor, a bias, two types of factors, and a rounded result.
func.func @scaled_bias(
    %x: tensor<48x32xf8E4M3FN, #rows> {fusion.name = "x"}, %sx: tensor<f32, #one> {fusion.name = "sx"},
    %w: tensor<32x24xf8E5M2, #columns> {fusion.name = "w"}, %sw: tensor<f32, #one> {fusion.name = "sw"},
    %b: tensor<24xf32, #split> {fusion.name = "b"})
    -> (tensor<48x24xbf16, #sliced> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x32xf8E4M3FN, #rows>, tensor<32x24xf8E5M2, #columns> -> tensor<48x24xf32, #sliced>
  %s = arith.mulf %sx, %sw : tensor<f32, #one>
  %r = fusion.broadcast %s dims [] : tensor<f32, #one> -> tensor<48x24xf32, #sliced>
  %c = fusion.broadcast %b dims [1] : tensor<24xf32, #split> -> tensor<48x24xf32, #sliced>
  %ps = arith.mulf %p, %r : tensor<48x24xf32, #sliced>
  %sum = arith.addf %ps, %c : tensor<48x24xf32, #sliced>
  %y = arith.truncf %sum : tensor<48x24xf32, #sliced> to tensor<48x24xbf16, #sliced>
  return %y : tensor<48x24xbf16, #sliced>
}

// K is split: the partial sums are f32 and reduced before they are scaled.
//
// FUSION-LABEL: func.func @scaled_scatter(
// FUSION: fusion.matmul {{.*}}xf8E4M3FN, {{.*}} -> {{.*}}xf32, {{.*}}partial = ["x"]>>
//
// HOSTIR-LABEL: hostir.program @scaled_scatter(
// HOSTIR-NOT: accumulate {{.*}}f8E4M3FN
func.func @scaled_scatter(
    %x: tensor<48x32xf8E4M3FN, #columns> {fusion.name = "x"}, %sx: tensor<48xf32, #split> {fusion.name = "sx"},
    %w: tensor<32x24xf8E4M3FN, #rows> {fusion.name = "w"}, %sw: tensor<24xf32, #whole> {fusion.name = "sw"})
    -> (tensor<48x24xf32, #rows> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x32xf8E4M3FN, #columns>, tensor<32x24xf8E4M3FN, #rows> -> tensor<48x24xf32, #rows>
  %r = fusion.broadcast %sx dims [0] : tensor<48xf32, #split> -> tensor<48x24xf32, #rows>
  %c = fusion.broadcast %sw dims [1] : tensor<24xf32, #whole> -> tensor<48x24xf32, #rows>
  %pr = arith.mulf %p, %r : tensor<48x24xf32, #rows>
  %y = arith.mulf %pr, %c : tensor<48x24xf32, #rows>
  return %y : tensor<48x24xf32, #rows>
}

// Quantized where it lies, then gathered: x is f32 on each device, and a quarter of its bytes travels.
//
// FUSION-LABEL: func.func @quantized_gather(
// FUSION: arith.truncf
// FUSION: fusion.reshard {{.*}}xf8E4M3FN
func.func @quantized_gather(
    %x: tensor<48x32xf32, #rows> {fusion.name = "x"}, %w: tensor<24x32xf8E4M3FN, #rows> {fusion.name = "w"})
    -> (tensor<48x24xf32, #sliced> {fusion.name = "y"}, tensor<48x32xf8E4M3FN, #rows> {fusion.name = "q"}) {
  %most = arith.constant dense<448.0> : tensor<48x32xf32, #rows>
  %least = arith.constant dense<-448.0> : tensor<48x32xf32, #rows>
  %scale = arith.constant dense<512.0> : tensor<48x32xf32, #rows>
  %back = arith.constant dense<0.001953125> : tensor<48x24xf32, #sliced>
  %large = arith.mulf %x, %scale : tensor<48x32xf32, #rows>
  %low = arith.minnumf %large, %most : tensor<48x32xf32, #rows>
  %clamped = arith.maxnumf %low, %least : tensor<48x32xf32, #rows>
  %q = arith.truncf %clamped : tensor<48x32xf32, #rows> to tensor<48x32xf8E4M3FN, #rows>
  %p = fusion.matmul %q, %w {transpose_b}
      : tensor<48x32xf8E4M3FN, #rows>, tensor<24x32xf8E4M3FN, #rows> -> tensor<48x24xf32, #sliced>
  %y = arith.mulf %p, %back : tensor<48x24xf32, #sliced>
  return %y, %q : tensor<48x24xf32, #sliced>, tensor<48x32xf8E4M3FN, #rows>
}
