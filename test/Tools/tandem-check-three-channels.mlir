// RUN: tandem-compile %s --target=cuda-nccl -o %t.tsp && tandem-check %t.tsp | FileCheck %s
// RUN: tandem-compile %s --target=cuda-nccl --dump | FileCheck %s --check-prefix=CERTIFICATE

// Three NCCL channels: a ring both ways, and an all-reduce after it. At most two have a kernel at a time, so their kernels
// leave enough SMs.
// CHECK-NOT: not decided
// CHECK: @layer: 8 ranks, {{.*}} no error
// CERTIFICATE: channel c2
#m = #tandem.mesh<"m", ["dp" = 2, "tp" = 4]>
func.func @layer(%x: tensor<1024x512xbf16, #fusion.axes<#m, [didx("dp") * didx("tp"), -]>>,
                 %w: tensor<512x1024xbf16, #fusion.axes<#m, [-, didx("tp")]>>)
    -> (tensor<1024x1024xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), didx("tp")]>>, tensor<512x1024xbf16, #fusion.axes<#m, [-, didx("tp")]>>) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : tensor<1024x512xbf16, #fusion.axes<#m, [didx("dp") * didx("tp"), -]>> -> tensor<1024x512xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), -]>>
  %y = fusion.matmul %g, %w : tensor<1024x512xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), -]>>, tensor<512x1024xbf16, #fusion.axes<#m, [-, didx("tp")]>> -> tensor<1024x1024xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), didx("tp")]>>
  %t = math.tanh %y : tensor<1024x1024xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), didx("tp")]>>
  %p = fusion.matmul %g, %t {transpose_a} : tensor<1024x512xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), -]>>, tensor<1024x1024xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), didx("tp")]>> -> tensor<512x1024xbf16, #fusion.axes<#m, [-, didx("tp")], partial = ["dp"]>>
  %d = fusion.reshard %p : tensor<512x1024xbf16, #fusion.axes<#m, [-, didx("tp")], partial = ["dp"]>> -> tensor<512x1024xbf16, #fusion.axes<#m, [-, didx("tp")]>>
  return %y, %d : tensor<1024x1024xbf16, #fusion.axes<#m, [didx("dp") * stream("tp"), didx("tp")]>>, tensor<512x1024xbf16, #fusion.axes<#m, [-, didx("tp")]>>
}
