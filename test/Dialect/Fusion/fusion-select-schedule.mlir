// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule | FileCheck %s
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule=log -o /dev/null 2>&1 | FileCheck %s --check-prefix=STATS

// STATS: remark: fusion-select-schedule: 2 exchange, 6 pipeline, 2 annotated
// STATS: remark: fusion-select-schedule: 1 pipeline, 0 annotated

#tp = #tandem.mesh<"tp", ["x" = 4]>
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
!rows = tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: @select
func.func @select(%0: !rows, %1: tensor<16x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>, %2: tensor<16x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>) {
  // Every slice of the result has one owner.
  // CHECK: schedule <exchange> from fallback {{.*}} -> {{.*}}[stream(4), -]>>
  %3 = fusion.reshard %0 : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>
  // CHECK: schedule <exchange> from fallback {{.*}} -> {{.*}}[stream, -]>>
  %4 = fusion.reshard %0 : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream, -]>>
  // A slice of two owners; of all; all at once; a reduction; a slice; two mesh axes.
  // CHECK: schedule <pipeline> from fallback {{.*}} -> {{.*}}[stream(2), -]>>
  %5 = fusion.reshard %0 : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(2), -]>>
  // CHECK: schedule <pipeline> from fallback {{.*}} -> {{.*}}[-, stream(4)]>>
  %6 = fusion.reshard %0 : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [-, stream(4)]>>
  // CHECK: schedule <pipeline> from fallback {{.*}} -> {{.*}}[-, -]>>
  %7 = fusion.reshard %0 : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
  // CHECK: schedule <pipeline> from fallback {{.*}}partial = ["x"]>>) -> {{.*}}[stream(4), -]>>
  %8 = fusion.reshard %1 : tensor<16x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>
  // CHECK: schedule <pipeline> from fallback {{.*}} -> {{.*}}[didx("x"), stream(4)]>>
  %9 = fusion.reshard %0 : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), stream(4)]>>
  // CHECK: schedule <pipeline> from fallback {{.*}} -> {{.*}}#pod, [stream(4), -]>>
  %10 = fusion.reshard %2 : tensor<16x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>> -> tensor<16x16xf32, #fusion.axes<#pod, [stream(4), -]>>
  // Annotations.
  // CHECK: schedule <push, order = xor> from annotation {{.*}} -> {{.*}}[stream(4), -]>>
  %11 = fusion.reshard %0 {schedule = #fusion.schedule<push, order = xor>} : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(4), -]>>
  // CHECK: schedule <exchange, streams = 2> from annotation {{.*}} -> {{.*}}[stream(8), -]>>
  %12 = fusion.reshard %0 {schedule = #fusion.schedule<exchange, streams = 2>} : !rows -> tensor<16x16xf32, #fusion.axes<#tp, [stream(8), -]>>
  return
}

// A mesh axis of one device moves nothing, but exchange is for one axis.
#unit = #tandem.mesh<"unit", ["x" = 1, "y" = 2]>
// CHECK-LABEL: @unit_axis
// CHECK: schedule <pipeline> from fallback
func.func @unit_axis(%0: tensor<8x4xf32, #fusion.axes<#unit, [didx("x") * didx("y"), -]>>) {
  %1 = fusion.reshard %0 : tensor<8x4xf32, #fusion.axes<#unit, [didx("x") * didx("y"), -]>> -> tensor<8x4xf32, #fusion.axes<#unit, [stream(2), -]>>
  return
}
