// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-hostir-localize-buffers.mlir | FileCheck %s --check-prefix=HOSTIR
// RUN: cat %t/*-hostir-fuse-launches.mlir | FileCheck %s --check-prefix=FUSED
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=bias_gelu --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Elementwise work between matmuls and communication: one kernel for each slice, on its stream, with nothing in between.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#split = #fusion.axes<#tp, [didx("x")]>
#all = #fusion.axes<#tp, [-]>
#hidden = #fusion.axes<#tp, [stream(24), didx("x")]>
#sliced_rows = #fusion.axes<#tp, [didx("x") * stream(2), -]>

// gelu(AG(x) W1 + b1) W2, reduced and scattered, + b2 + the residual. The GELU is that of erf; the bias is broadcast.
//
// HOSTIR-LABEL: hostir.program @bias_gelu(
// HOSTIR-COUNT-6: hostir.launch
//
// FUSED: hostir.kernel private @bias_gelu.addf_mulf_erf_addf_and_2_more(%{{.+}}: f32, %{{.+}}: f32) -> f32
// FUSED-LABEL: hostir.program @bias_gelu(
// FUSED: %[[BIAS:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [48, 6], strides: [0, 1]
// FUSED: scf.for
// FUSED: hostir.matmul {{.*}} to %[[H:.+]] on %[[S:[^ ]+]]
// FUSED: hostir.launch @bias_gelu.addf_mulf_erf_addf_and_2_more ins(%[[H]], %{{.+}} : {{.*}} on %[[S]]
// FUSED-NOT: hostir.launch @bias_gelu.mulf
//
// PLANNED-LABEL: hostir.program @bias_gelu(
// PLANNED-NOT: hostir.launch @bias_gelu.erf
//
// RANK1: kernel k0 "bias_gelu.addf_mulf_erf_addf_and_2_more" expression
func.func @bias_gelu(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %w1: tensor<16x24xf32, #columns> {fusion.name = "w1"}, %b1: tensor<24xf32, #split> {fusion.name = "b1"},
    %w2: tensor<24x16xf32, #rows> {fusion.name = "w2"}, %b2: tensor<16xf32, #all> {fusion.name = "b2"},
    %r: tensor<48x16xf32, #sliced_rows> {fusion.name = "r"})
    -> (tensor<48x16xf32, #sliced_rows> {fusion.name = "y"}) {
  %half = arith.constant dense<0.5> : tensor<48x24xf32, #hidden>
  %one = arith.constant dense<1.0> : tensor<48x24xf32, #hidden>
  %c = arith.constant dense<0.7071067812> : tensor<48x24xf32, #hidden>
  %0 = fusion.matmul %x, %w1 : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #hidden>
  %1 = fusion.broadcast %b1 dims [1] : tensor<24xf32, #split> -> tensor<48x24xf32, #hidden>
  %h = arith.addf %0, %1 : tensor<48x24xf32, #hidden>
  %2 = arith.mulf %h, %c : tensor<48x24xf32, #hidden>
  %3 = math.erf %2 : tensor<48x24xf32, #hidden>
  %4 = arith.addf %3, %one : tensor<48x24xf32, #hidden>
  %5 = arith.mulf %h, %half : tensor<48x24xf32, #hidden>
  %a = arith.mulf %5, %4 : tensor<48x24xf32, #hidden>
  %6 = fusion.matmul %a, %w2 : tensor<48x24xf32, #hidden>, tensor<24x16xf32, #rows> -> tensor<48x16xf32, #sliced_rows>
  %7 = fusion.broadcast %b2 dims [1] : tensor<16xf32, #all> -> tensor<48x16xf32, #sliced_rows>
  %8 = arith.addf %6, %7 : tensor<48x16xf32, #sliced_rows>
  %y = arith.addf %8, %r : tensor<48x16xf32, #sliced_rows>
  return %y : tensor<48x16xf32, #sliced_rows>
}

// Several results, a diamond, a comparison: p = max(s, t) where s > 0, else -s; q = s t, of s = AG(x) W and t = s^T^T u.
// Fused, truth values have no buffer.
//
// FUSED-LABEL: hostir.program @choose(
// FUSED-NOT: xi1
// FUSED: hostir.launch @choose.{{.*}} outs(%{{.+}}, %{{.+}} :
func.func @choose(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"},
    %u: tensor<24x48xf32, #rows> {fusion.name = "u"})
    -> (tensor<48x24xf32, #hidden> {fusion.name = "p"}, tensor<48x24xf32, #hidden> {fusion.name = "q"}) {
  %zero = arith.constant dense<0.0> : tensor<48x24xf32, #hidden>
  %s = fusion.matmul %x, %w : tensor<48x16xf32, #rows>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #hidden>
  %ut = fusion.permute %u [1, 0] : tensor<24x48xf32, #rows> -> tensor<48x24xf32, #hidden>
  %t = arith.mulf %s, %ut : tensor<48x24xf32, #hidden>
  %more = arith.cmpf ogt, %s, %zero : tensor<48x24xf32, #hidden>
  %max = arith.maximumf %s, %t : tensor<48x24xf32, #hidden>
  %n = arith.negf %s : tensor<48x24xf32, #hidden>
  %p = arith.select %more, %max, %n : tensor<48x24xi1, #hidden>, tensor<48x24xf32, #hidden>
  %q = arith.mulf %s, %t : tensor<48x24xf32, #hidden>
  return %p, %q : tensor<48x24xf32, #hidden>, tensor<48x24xf32, #hidden>
}

// The GELU of as many tokens as there are: extents of what is broadcast follow from those of x.
//
// FUSED-LABEL: hostir.program @gelu_open(
// FUSED: hostir.launch @gelu_open.{{.*}} : memref<12x8xf32
func.func @gelu_open(%x: tensor<?x8xf32, #rows> {fusion.name = "x", fusion.shape = [48, 8]}, %b: tensor<8xf32, #all> {fusion.name = "b"})
    -> (tensor<?x8xf32, #rows> {fusion.name = "y"}) {
  %c0 = arith.constant dense<0.7071067812> : tensor<f32, #fusion.axes<#tp, []>>
  %c1 = arith.constant dense<0.5> : tensor<1x1xf32, #fusion.axes<#tp, [-, -]>>
  %c2 = arith.constant dense<1.0> : tensor<8xf32, #all>
  %c = fusion.broadcast %c0 dims [] : tensor<f32, #fusion.axes<#tp, []>> -> tensor<?x8xf32, #rows>
  %half = fusion.broadcast %c1 dims [0, 1] : tensor<1x1xf32, #fusion.axes<#tp, [-, -]>> -> tensor<?x8xf32, #rows>
  %one = fusion.broadcast %c2 dims [1] : tensor<8xf32, #all> -> tensor<?x8xf32, #rows>
  %0 = fusion.broadcast %b dims [1] : tensor<8xf32, #all> -> tensor<?x8xf32, #rows>
  %h = arith.addf %x, %0 : tensor<?x8xf32, #rows>
  %1 = arith.mulf %h, %c : tensor<?x8xf32, #rows>
  %2 = math.erf %1 : tensor<?x8xf32, #rows>
  %3 = arith.addf %2, %one : tensor<?x8xf32, #rows>
  %4 = arith.mulf %h, %half : tensor<?x8xf32, #rows>
  %y = arith.mulf %4, %3 : tensor<?x8xf32, #rows>
  return %y : tensor<?x8xf32, #rows>
}
