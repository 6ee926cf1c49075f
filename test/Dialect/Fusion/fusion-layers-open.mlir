// RUN: tandem-opt %s -fusion-specialize="mesh=tp.tp=4" -fusion-propagate-axes -fusion-insert-reshards -fusion-verify | FileCheck %s

// A two-layer MLP, forward and backward, of which only arguments and results say what they are: all between follows,
// and each gather serves every matmul that needs it.
#tp = #tandem.mesh<"tp", ["tp" = ?]>
!x = tensor<64x32xbf16, #fusion.axes<#tp, [didx("tp"), -]>>   // [S, H]
!wc = tensor<32x128xbf16, #fusion.axes<#tp, [-, didx("tp")]>> // [H, F]
!wr = tensor<128x32xbf16, #fusion.axes<#tp, [didx("tp"), -]>> // [F, H]

// CHECK-LABEL: @mlp_tp
// CHECK-NEXT:    %[[GX:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    %[[H:.*]] = fusion.matmul %[[GX]], %arg1 : {{.*}} -> tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("tp")]>>
// CHECK-NEXT:    %[[A:.*]] = math.tanh %[[H]] : tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("tp")]>>
// CHECK-NEXT:    %[[ZT:.*]] = fusion.matmul %[[A]], %arg2 : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -], partial = ["tp"]>>
// CHECK-NEXT:    %[[Z:.*]] = fusion.reshard %[[ZT]] : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [didx("tp"), -]>>
// CHECK-NEXT:    %[[GDZ:.*]] = fusion.reshard %arg3 : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    %[[DA:.*]] = fusion.matmul %[[GDZ]], %arg2 {transpose_b} : {{.*}} -> tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("tp")]>>
// CHECK-NEXT:    arith.constant dense<1.000000e+00> : tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("tp")]>>
// CHECK:         %[[DH:.*]] = arith.mulf %[[DA]], %{{.*}} : tensor<64x128xbf16, #fusion.axes<#tp, [-, didx("tp")]>>
// CHECK-NEXT:    %[[DXT:.*]] = fusion.matmul %[[DH]], %arg1 {transpose_b} : {{.*}} partial = ["tp"]>>
// CHECK-NEXT:    fusion.reshard %[[DXT]] : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#tp, [didx("tp"), -]>>
// CHECK-NEXT:    fusion.matmul %[[GX]], %[[DH]] {transpose_a} : {{.*}} -> tensor<32x128xbf16, #fusion.axes<#tp, [-, didx("tp")]>>
// CHECK-NEXT:    fusion.matmul %[[A]], %[[GDZ]] {transpose_a} : {{.*}} -> tensor<128x32xbf16, #fusion.axes<#tp, [didx("tp"), -]>>
// CHECK-NEXT:    return
func.func @mlp_tp(%x: !x, %wc: !wc, %wr: !wr, %dz: !x) -> (!x, !x, !wc, !wr) {
  %h = fusion.matmul %x, %wc : !x, !wc -> tensor<64x128xbf16>
  %a = math.tanh %h : tensor<64x128xbf16>
  %z = fusion.matmul %a, %wr : tensor<64x128xbf16>, !wr -> !x
  %da = fusion.matmul %dz, %wr {transpose_b} : !x, !wr -> tensor<64x128xbf16>
  %one = arith.constant dense<1.0> : tensor<64x128xbf16>
  %a2 = arith.mulf %a, %a : tensor<64x128xbf16>
  %g = arith.subf %one, %a2 : tensor<64x128xbf16>
  %dh = arith.mulf %da, %g : tensor<64x128xbf16>
  %dx = fusion.matmul %dh, %wc {transpose_b} : tensor<64x128xbf16>, !wc -> !x
  %dwc = fusion.matmul %x, %dh {transpose_a} : !x, tensor<64x128xbf16> -> !wc
  %dwr = fusion.matmul %a, %dz {transpose_a} : tensor<64x128xbf16>, !x -> !wr
  return %z, %dx, %dwc, %dwr : !x, !x, !wc, !wr
}

// The same with data parallelism beside it: the weights' gradients are summed up over "dp", and gathers and
// reduce-scatters run over "tp" alone. The gradient of one weight is left open, and reduced on its way out.
#dt = #tandem.mesh<"dt", ["dp" = 2, "tp" = 4]>
!dx = tensor<64x32xbf16, #fusion.axes<#dt, [didx("dp") * didx("tp"), -]>>
!dwc = tensor<32x128xbf16, #fusion.axes<#dt, [-, didx("tp")]>>
!dwr = tensor<128x32xbf16, #fusion.axes<#dt, [didx("tp"), -]>>

// CHECK-LABEL: @mlp_dp_tp
// CHECK-SAME:    tensor<128x32xbf16, #fusion.axes<#dt, [didx("tp"), -]>>)
// CHECK-NEXT:    %[[GX:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#dt, [didx("dp"), -]>>
// CHECK-NEXT:    %[[H:.*]] = fusion.matmul %[[GX]], %arg1 : {{.*}} -> tensor<64x128xbf16, #fusion.axes<#dt, [didx("dp"), didx("tp")]>>
// CHECK-NEXT:    %[[A:.*]] = math.tanh %[[H]]
// CHECK-NEXT:    %[[ZT:.*]] = fusion.matmul %[[A]], %arg2 : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#dt, [didx("dp"), -], partial = ["tp"]>>
// CHECK-NEXT:    fusion.reshard %[[ZT]] : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#dt, [didx("dp") * didx("tp"), -]>>
// CHECK-NEXT:    %[[GDZ:.*]] = fusion.reshard %arg3 : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#dt, [didx("dp"), -]>>
// CHECK-NEXT:    %[[DA:.*]] = fusion.matmul %[[GDZ]], %arg2 {transpose_b} : {{.*}} -> tensor<64x128xbf16, #fusion.axes<#dt, [didx("dp"), didx("tp")]>>
// CHECK:         %[[DH:.*]] = arith.mulf %[[DA]]
// CHECK-NEXT:    %[[DXT:.*]] = fusion.matmul %[[DH]], %arg1 {transpose_b} : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#dt, [didx("dp"), -], partial = ["tp"]>>
// CHECK-NEXT:    fusion.reshard %[[DXT]] : {{.*}} -> tensor<64x32xbf16, #fusion.axes<#dt, [didx("dp") * didx("tp"), -]>>
// CHECK-NEXT:    %[[WT:.*]] = fusion.matmul %[[GX]], %[[DH]] {transpose_a} : {{.*}} -> tensor<32x128xbf16, #fusion.axes<#dt, [-, didx("tp")], partial = ["dp"]>>
// CHECK-NEXT:    fusion.reshard %[[WT]] : {{.*}} -> tensor<32x128xbf16, #fusion.axes<#dt, [-, didx("tp")]>>
// CHECK-NEXT:    %[[RT:.*]] = fusion.matmul %[[A]], %[[GDZ]] {transpose_a} : {{.*}} -> tensor<128x32xbf16, #fusion.axes<#dt, [didx("tp"), -], partial = ["dp"]>>
// CHECK-NEXT:    fusion.reshard %[[RT]] : {{.*}} -> tensor<128x32xbf16, #fusion.axes<#dt, [didx("tp"), -]>>
// CHECK-NEXT:    return
func.func @mlp_dp_tp(%x: !dx, %wc: !dwc, %wr: !dwr, %dz: !dx) -> (!dx, !dx, !dwc, tensor<128x32xbf16>) {
  %h = fusion.matmul %x, %wc : !dx, !dwc -> tensor<64x128xbf16>
  %a = math.tanh %h : tensor<64x128xbf16>
  %z = fusion.matmul %a, %wr : tensor<64x128xbf16>, !dwr -> !dx
  %da = fusion.matmul %dz, %wr {transpose_b} : !dx, !dwr -> tensor<64x128xbf16>
  %one = arith.constant dense<1.0> : tensor<64x128xbf16>
  %a2 = arith.mulf %a, %a : tensor<64x128xbf16>
  %g = arith.subf %one, %a2 : tensor<64x128xbf16>
  %dh = arith.mulf %da, %g : tensor<64x128xbf16>
  %dx = fusion.matmul %dh, %wc {transpose_b} : tensor<64x128xbf16>, !dwc -> !dx
  %dwc = fusion.matmul %x, %dh {transpose_a} : !dx, tensor<64x128xbf16> -> !dwc
  %dwr = fusion.matmul %a, %dz {transpose_a} : tensor<64x128xbf16>, !dx -> tensor<128x32xbf16>
  return %z, %dx, %dwc, %dwr : !dx, !dx, !dwc, tensor<128x32xbf16>
}
