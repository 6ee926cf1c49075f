// RUN: tandem-opt %s -fusion-insert-reshards -fusion-verify --mlir-print-debuginfo | FileCheck %s
// RUN: tandem-opt %s -fusion-insert-reshards -canonicalize -fusion-verify | FileCheck %s --check-prefix=KEPT

// A reshard of several rows is written out, and every part is named in traces after its row.
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 4]>
#one = #tandem.mesh<"one", [], devices = [3]>
!terms = tensor<16x16xf32, #fusion.axes<#pod, [didx("node"), -], partial = max ["gpu"]>>

// CHECK-LABEL: @two_axes
// CHECK:         %[[A:.*]] = fusion.reshard %arg0 {part} : {{.*}} -> tensor<16x16xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>> loc([[A_LOC:#.*]])
// CHECK-NEXT:    fusion.reshard %[[A]] {part} : {{.*}} loc([[B_LOC:#.*]])
// KEPT-LABEL: @two_axes
// KEPT-COUNT-2:  fusion.reshard
func.func @two_axes(%0: !terms) -> tensor<16x16xf32, #fusion.axes<#pod, [-, didx("gpu")]>> {
  %1 = fusion.reshard %0 : !terms -> tensor<16x16xf32, #fusion.axes<#pod, [-, didx("gpu")]>>
  return %1 : tensor<16x16xf32, #fusion.axes<#pod, [-, didx("gpu")]>>
}

// What is partial is reduced before it goes to another mesh, or where no rows lead.
// CHECK-LABEL: @terms_away
// CHECK:         fusion.reshard %arg0 {part} : {{.*}} loc([[LOC0:#.*]])
// CHECK-NEXT:    fusion.reshard %{{.*}} {part} : {{.*}} loc([[LOC1:#.*]])
// CHECK-NEXT:    fusion.reshard %arg1 {part} : {{.*}} loc([[LOC2:#.*]])
// CHECK-NEXT:    fusion.reshard %{{.*}} {part} : {{.*}} loc([[LOC3:#.*]])
#cube = #tandem.mesh<"cube", ["x" = 2, "y" = 4, "z" = 2]>
!crossed = tensor<16x16xf32, #fusion.axes<#cube, [didx("x"), didx("y")], partial = ["z"]>>
func.func @terms_away(%0: !terms, %2: !crossed) {
  %1 = fusion.reshard %0 : !terms -> tensor<16x16xf32, #fusion.axes<#one, [-, -]>>
  %3 = fusion.reshard %2 : !crossed -> tensor<16x16xf32, #fusion.axes<#cube, [didx("y") * didx("z"), didx("x")]>>
  return
}

// A matmul whose terms are scattered along one axis while the result moves along another.
// CHECK-LABEL: @reduction_and_move
// CHECK:         fusion.matmul
// CHECK-NEXT:    fusion.reshard %{{.*}} {part} : {{.*}} loc([[LOC4:#.*]])
// CHECK-NEXT:    fusion.reshard %{{.*}} {part} : {{.*}} loc([[LOC5:#.*]])
func.func @reduction_and_move(%0: tensor<16x16xf32, #fusion.axes<#pod, [-, didx("gpu")]>>, %1: tensor<16x16xf32, #fusion.axes<#pod, [didx("gpu"), didx("node")]>>) {
  %2 = fusion.matmul %0, %1 {fusion.gather = "after"} : tensor<16x16xf32, #fusion.axes<#pod, [-, didx("gpu")]>>, tensor<16x16xf32, #fusion.axes<#pod, [didx("gpu"), didx("node")]>> -> tensor<16x16xf32, #fusion.axes<#pod, [didx("gpu"), -]>>
  return
}

// A dimension that no part moves keeps its slices on the way, and so does one that is in its place already: the parts run in
// one loop.
// CHECK-LABEL: @slices_on_the_way
// CHECK:         fusion.reshard %arg0 {part} : {{.*}} -> tensor<8x16x16xf32, #fusion.axes<#pod, [stream(4), serial(2) * didx("gpu"), didx("node")]>> loc([[LOC6:#.*]])
// CHECK-NEXT:    fusion.reshard %{{.*}} {part} : {{.*}} -> tensor<8x16x16xf32, #fusion.axes<#pod, [stream(4), didx("gpu"), didx("node")]>> loc([[LOC7:#.*]])
func.func @slices_on_the_way(%0: tensor<8x16x16xf32, #fusion.axes<#pod, [-, didx("node") * didx("gpu"), -]>>) {
  %1 = fusion.reshard %0 : tensor<8x16x16xf32, #fusion.axes<#pod, [-, didx("node") * didx("gpu"), -]>> -> tensor<8x16x16xf32, #fusion.axes<#pod, [stream(4), didx("gpu"), didx("node")]>>
  return
}

// CHECK-DAG: [[A_LOC]] = loc("1 of 2: reduce-scatter by max over gpu onto dimension 1"({{.*}}))
// CHECK-DAG: [[B_LOC]] = loc("2 of 2: all-gather over node from dimension 0"({{.*}}))
// CHECK-DAG: [[LOC0]] = loc("1 of 2: all-reduce by max over gpu"({{.*}}))
// CHECK-DAG: [[LOC1]] = loc("2 of 2: transfer from dimension 0"({{.*}}))
// CHECK-DAG: [[LOC2]] = loc("1 of 2: reduce-scatter over z onto dimension 0"({{.*}}))
// CHECK-DAG: [[LOC3]] = loc("2 of 2: transfer over x, y"({{.*}}))
// CHECK-DAG: [[LOC4]] = loc("1 of 2: reduce-scatter over gpu onto dimension 0"({{.*}}))
// CHECK-DAG: [[LOC5]] = loc("2 of 2: all-gather over node from dimension 1"({{.*}}))
// CHECK-DAG: [[LOC6]] = loc("1 of 2: all-to-all over node from dimension 1 onto dimension 2"({{.*}}))
// CHECK-DAG: [[LOC7]] = loc("2 of 2: all-to-all over gpu from dimension 1 onto dimension 1"({{.*}}))
