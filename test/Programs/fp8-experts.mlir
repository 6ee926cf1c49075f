// RUN: tandem-compile %s --entry=scaled_experts --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=ROWS
// RUN: tandem-compile %s --entry=scaled_experts_tensor --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=TENSOR

// A mixture of experts on 8-bit floats (docs/operators.md): a grouped matmul is a product with a batch dimension, the experts.

#mesh = #tandem.mesh<"m", ["x" = ?]>
#there = #fusion.axes<#mesh, [-, didx("x"), -]>
#slices = #fusion.axes<#mesh, [didx("x"), stream("x"), -]>
#experts = #fusion.axes<#mesh, [didx("x"), -, -]>
#tokens = #fusion.axes<#mesh, [-, didx("x")]>
#columns = #fusion.axes<#mesh, [didx("x"), -]>
#each = #fusion.axes<#mesh, [didx("x")]>
#one = #fusion.axes<#mesh, []>
!x = tensor<24x48x32xf8E4M3FN, #there>
!xs = tensor<24x48x32xf8E4M3FN, #slices>
!s = tensor<24x48xf32, #fusion.axes<#mesh, [didx("x"), stream("x")]>>
!w = tensor<24x16x32xf8E4M3FN, #experts>
!h = tensor<24x48x16xf32, #slices>
!q = tensor<24x48x16xf8E4M3FN, #slices>
!v = tensor<24x32x16xf8E4M3FN, #experts>
!f = tensor<24x48x32xf32, #slices>
!ys = tensor<24x48x32xbf16, #slices>
!y = tensor<24x48x32xbf16, #there>

// A scale per token and expert, which travels with the token; one per expert for w; one per expert and column for v. What
// is between the two products is rounded to 8 bits again. Tokens go there in 8 bits, and back in bf16.
//
// ROWS: put c0 {{.*}} <- arg0:f8E4M3FN[12,24,32]{{.*}} to 0
// ROWS: matmul {{.*}}f32[12,24,16] = {{.*}}f8E4M3FN[12,24,32]{{.*}} * arg2:f8E4M3FN[12,16,32]^T
// ROWS-NEXT: launch {{.*}}f8E4M3FN[12,24,16]{{.*}}f32[12,24,16]{{.*}}arg3:f32[12,24,16]{1,0,0}
// ROWS: matmul {{.*}}f32[12,24,32] = {{.*}}f8E4M3FN[12,24,16]{{.*}} * arg4:f8E4M3FN[12,32,16]^T
// ROWS-NEXT: launch {{.*}}bf16[12,24,32]
// ROWS: put c0 {{.*}}bf16[12,24,32]
func.func @scaled_experts(
    %x: !x {fusion.name = "x"}, %sx: tensor<24x48xf32, #tokens> {fusion.name = "sx"},
    %w: !w {fusion.name = "w"}, %sw: tensor<24xf32, #each> {fusion.name = "sw"},
    %v: !v {fusion.name = "v"}, %sv: tensor<24x32xf32, #columns> {fusion.name = "sv"})
    -> (!y {fusion.name = "y"}, !q {fusion.name = "q"}) {
  %xs = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !xs
  %sxs = fusion.reshard %sx {schedule = #fusion.schedule<push>} : tensor<24x48xf32, #tokens> -> !s
  %p = fusion.matmul %xs, %w {transpose_b} : !xs, !w -> !h
  %row = fusion.broadcast %sxs dims [0, 1] : !s -> !h
  %expert = fusion.broadcast %sw dims [0] : tensor<24xf32, #each> -> !h
  %pr = arith.mulf %p, %row : !h
  %pe = arith.mulf %pr, %expert : !h
  %h = math.tanh %pe : !h
  %scale = arith.constant dense<448.0> : !h
  %large = arith.mulf %h, %scale : !h
  %q = arith.truncf %large : !h to !q
  %p2 = fusion.matmul %q, %v {transpose_b} : !q, !v -> !f
  %back = arith.constant dense<0.002232142857142857> : !f
  %column = fusion.broadcast %sv dims [0, 2] : tensor<24x32xf32, #columns> -> !f
  %pb = arith.mulf %p2, %back : !f
  %pc = arith.mulf %pb, %column : !f
  %ys = arith.truncf %pc : !f to !ys
  %y = fusion.reshard %ys {schedule = #fusion.schedule<push>} : !ys -> !y
  return %y, %q : !y, !q
}

// One scale for all tokens and one for all experts. The product has the type of the result, so the launch behind it is in
// place and can be its epilogue.
//
// TENSOR: matmul [[Y:arg4[+0-9]*]]:bf16[12,24,16]{{.*}} = {{.*}}f8E4M3FN[12,24,32]{{.*}} * arg2:f8E4M3FN[12,16,32]^T
// TENSOR-NEXT: launch {{.*}}([[Y]]:bf16[12,24,16]{{.*}}, [[Y]]:bf16[12,24,16]
func.func @scaled_experts_tensor(
    %x: !x {fusion.name = "x"}, %sx: tensor<f32, #one> {fusion.name = "sx"},
    %w: !w {fusion.name = "w"}, %sw: tensor<f32, #one> {fusion.name = "sw"})
    -> (tensor<24x48x16xbf16, #slices> {fusion.name = "y"}) {
  %s = arith.mulf %sx, %sw : tensor<f32, #one>
  %r = fusion.broadcast %s dims [] : tensor<f32, #one> -> !h
  %xs = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : !x -> !xs
  %p = fusion.matmul %xs, %w {transpose_b} : !xs, !w -> tensor<24x48x16xbf16, #slices>
  %e = arith.extf %p : tensor<24x48x16xbf16, #slices> to !h
  %er = arith.mulf %e, %r : !h
  %y = arith.truncf %er : !h to tensor<24x48x16xbf16, #slices>
  return %y : tensor<24x48x16xbf16, #slices>
}
