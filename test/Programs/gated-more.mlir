// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s
// RUN: tandem-compile %s --entry=gated_batches --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=BATCHES

// What a gated matmul cannot do runs after it, whole: a bias, elementwise ops, other matmuls of the gathered rows. These
// need own rows next to the others, so they are copied there first.
//
// CHECK-LABEL: hostir.program @gated_layer(
// CHECK-SAME: %[[X:.+]]: memref<12x16xf32> {
// CHECK: hostir.gated_matmul
// CHECK-NOT: bias
// CHECK: hostir.accumulate sum %{{.+}} into %{{.+}} on %{{.+}} : memref<48x6xf32, strided<[0, 1]>> to memref<48x6xf32>
// CHECK: hostir.launch @{{.*}}tanh
// CHECK-NOT: hostir.gated_matmul
// CHECK: hostir.copy %[[X]] to
// CHECK: hostir.matmul {{.*}}transpose_a
//
// So do ops behind the loop.
//
// CHECK-LABEL: hostir.program @gated_again(
// CHECK-SAME: %[[X:.+]]: memref<12x16xf32> {
// CHECK: hostir.gated_matmul
// CHECK: hostir.copy %[[X]] to
// CHECK: hostir.matmul {{.*}}transpose_a
//
// Rows of several dimensions that lie one after another are the rows of one matrix.
//
// CHECK-LABEL: hostir.program @gated_rows(
// CHECK: hostir.gated_matmul
// CHECK: memref.collapse_shape
// CHECK: hostir.matmul {{.*}} memref<12x16xf32, {{.*}}>, memref<16x6xf32> to memref<12x6xf32, {{.*}}>
//
// The tokens of two sequences: two blocks of rows for each device, which are copied to the others first.
//
// BATCHES: s0 copy sym1+384:{{.*}} <- arg0
// BATCHES: s0 gated_matmul 11 parts leaves 2 SMs
// BATCHES-NEXT: s0   matmul arg2+144:f32[6,6] = sym1+384:f32[6,16] * arg1:f32[16,6]
// BATCHES-NEXT: s0   matmul arg2+720:f32[6,6] = sym1+1920:f32[6,16] * arg1:f32[16,6]
// BATCHES-NEXT: s0   wait_signal

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#blocks = #fusion.axes<#tp, [stream("x"), didx("x")]>
#gathered = #fusion.axes<#tp, [stream("x"), -]>
#whole = #fusion.axes<#tp, [-, -]>

func.func @gated_layer(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"},
    %b: tensor<24xf32, #fusion.axes<#tp, [didx("x")]>> {fusion.name = "b"},
    %r: tensor<48x24xf32, #columns> {fusion.name = "r"})
    -> (tensor<48x24xf32, #blocks> {fusion.name = "y"}, tensor<16x24xf32, #columns> {fusion.name = "dw"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>} : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %h = fusion.matmul %g, %w bias %b
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<16x24xf32, #columns>, tensor<24xf32, #fusion.axes<#tp, [didx("x")]>>
     -> tensor<48x24xf32, #blocks>
  %a = math.tanh %h : tensor<48x24xf32, #blocks>
  %rs = fusion.reshard %r : tensor<48x24xf32, #columns> -> tensor<48x24xf32, #blocks>
  %y = arith.addf %a, %rs : tensor<48x24xf32, #blocks>
  %dw = fusion.matmul %g, %a {transpose_a}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<48x24xf32, #blocks> -> tensor<16x24xf32, #columns>
  return %y, %dw : tensor<48x24xf32, #blocks>, tensor<16x24xf32, #columns>
}

func.func @gated_again(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<16x24xf32, #whole> {fusion.name = "z"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>} : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #gathered>
  %y = fusion.matmul %g, %w : tensor<48x16xf32, #gathered>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #blocks>
  %t = fusion.reshard %y : tensor<48x24xf32, #blocks> -> tensor<48x24xf32, #whole>
  %z = fusion.matmul %g, %t {transpose_a} : tensor<48x16xf32, #gathered>, tensor<48x24xf32, #whole> -> tensor<16x24xf32, #whole>
  return %z : tensor<16x24xf32, #whole>
}

func.func @gated_rows(
    %x: tensor<24x2x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "x"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<24x2x24xf32, #fusion.axes<#tp, [stream("x"), -, didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {fusion.gather = "before", fusion.schedule = #fusion.schedule<gated>}
      : tensor<24x2x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<16x24xf32, #columns>
     -> tensor<24x2x24xf32, #fusion.axes<#tp, [stream("x"), -, didx("x")]>>
  return %y : tensor<24x2x24xf32, #fusion.axes<#tp, [stream("x"), -, didx("x")]>>
}

func.func @gated_batches(
    %x: tensor<2x24x16xf32, #fusion.axes<#tp, [-, didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<2x24x24xf32, #fusion.axes<#tp, [-, stream("x"), didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {fusion.gather = "before", fusion.schedule = #fusion.schedule<gated>}
      : tensor<2x24x16xf32, #fusion.axes<#tp, [-, didx("x"), -]>>, tensor<16x24xf32, #columns>
     -> tensor<2x24x24xf32, #fusion.axes<#tp, [-, stream("x"), didx("x")]>>
  return %y : tensor<2x24x24xf32, #fusion.axes<#tp, [-, stream("x"), didx("x")]>>
}

// A sum of products of the gathered rows, of which one is gated: it comes first, so they share no memory.

func.func @gated_sum(
    %x: tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %v: tensor<16x24xf32, #columns> {fusion.name = "v"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>> {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>}
      : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %t = math.tanh %g : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %p = fusion.matmul %t, %v : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<16x24xf32, #columns>
      -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %q = fusion.matmul %g, %w : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<16x24xf32, #columns>
      -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %y = arith.addf %p, %q : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  return %y : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
}
