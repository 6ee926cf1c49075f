// RUN: tandem-opt %s -fusion-insert-reshards -fusion-verify=stage=resharded | FileCheck %s --check-prefixes=CHECK,BEFORE
// RUN: tandem-opt %s -fusion-insert-reshards=gather=after -fusion-verify=stage=resharded | FileCheck %s --check-prefixes=CHECK,AFTER

// A reshape whose operand has slices that are none of its result takes the operand whole: the loop ends there, and
// nothing moves.

#tp = #tandem.mesh<"tp", ["x" = 2]>
!rows = tensor<5x6x8xf32, #fusion.axes<#tp, [-, stream, didx("x")]>>

// CHECK-LABEL: @other_slices
// CHECK-NEXT:    fusion.reshape %arg0 : {{.*}} -> tensor<2x15x8xf32, #fusion.axes<#tp, [stream(2), -, didx("x")]>>
// CHECK-NEXT:    return
func.func @other_slices(%0: !rows) -> tensor<2x15x8xf32, #fusion.axes<#tp, [stream(2), -, didx("x")]>> {
  %1 = fusion.reshape %0 : !rows -> tensor<2x15x8xf32, #fusion.axes<#tp, [stream(2), -, didx("x")]>>
  return %1 : tensor<2x15x8xf32, #fusion.axes<#tp, [stream(2), -, didx("x")]>>
}

// CHECK-LABEL: @no_slices
// CHECK-NEXT:    fusion.reshape %arg0 :
func.func @no_slices(%0: !rows) -> tensor<2x15x8xf32, #fusion.axes<#tp, [-, -, didx("x")]>> {
  %1 = fusion.reshape %0 : !rows -> tensor<2x15x8xf32, #fusion.axes<#tp, [-, -, didx("x")]>>
  return %1 : tensor<2x15x8xf32, #fusion.axes<#tp, [-, -, didx("x")]>>
}

// A split that has to go beside the slices.
// CHECK-LABEL: @gathered
// BEFORE-NEXT:   %[[ALL:.*]] = fusion.reshard %arg0 : {{.*}}[-, stream, didx("x")]>> -> {{.*}}[-, -, -]>>
// BEFORE-NEXT:   fusion.reshape %[[ALL]] :
// AFTER-NEXT:    %[[SPLIT:.*]] = fusion.reshape %arg0 : {{.*}} -> {{.*}}[-, serial(15) * didx("x")]>>
// AFTER-NEXT:    fusion.reshard %[[SPLIT]] : {{.*}} -> {{.*}}[-, -]>>
func.func @gathered(%0: !rows) -> tensor<2x120xf32, #fusion.axes<#tp, [-, -]>> {
  %1 = fusion.reshape %0 : !rows -> tensor<2x120xf32, #fusion.axes<#tp, [-, -]>>
  return %1 : tensor<2x120xf32, #fusion.axes<#tp, [-, -]>>
}
