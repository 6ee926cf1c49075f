// RUN: tandem-opt %s --tandem-lower=target=cpu-local | FileCheck %s

// A mesh that is a part of the world: who is in it is asked once in an iteration, so buffers are slices and kernels are fused
// as where all ranks are.
// CHECK-LABEL: hostir.program @f(
// CHECK-SAME: arena_bytes = 512
// CHECK: scf.for
// CHECK: scf.if
// CHECK: hostir.collective all_gather
// CHECK: hostir.launch
// CHECK-NOT: hostir.launch
// CHECK-NOT: scf.if
// CHECK: hostir.program private @f__reference(
#m = #tandem.mesh<"m", ["x" = 2], devices = [1, 3]>
!columns = tensor<16x8xf32, #fusion.axes<#m, [-, didx("x")]>>
!slices = tensor<16x8xf32, #fusion.axes<#m, [stream(4), -]>>
func.func @f(%0: !columns) -> !slices {
  %1 = fusion.reshard %0 : !columns -> !slices
  %2 = arith.addf %1, %1 : !slices
  %3 = math.absf %2 : !slices
  %4 = arith.maximumf %3, %1 : !slices
  return %4 : !slices
}
