// RUN: tandem-opt %s -fusion-specialize="mesh=x=4,pod.node=2,pod.gpu=3" | FileCheck %s
// RUN: tandem-opt %s -fusion-specialize="mesh=x=4,pod.node=2,pod.gpu=3 shape=arg0=12x5 entry=rows" | FileCheck %s --check-prefix=NAMED

// Shapes that the file itself names, and which option overrides them.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#pod = #tandem.mesh<"pod", ["node" = ?, "gpu" = ?]>
// CHECK-DAG: #tp = #tandem.mesh<"tp", ["x" = 4]>
// CHECK-DAG: #pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 3]>

// An axis name stands for the size of the axis; the attribute is gone once it is used.
// CHECK-LABEL: @rows(%arg0: tensor<4x7xf32, #fusion.axes<#tp, [didx("x"), -]>>)
// NAMED-LABEL: @rows(%arg0: tensor<12x5xf32, #fusion.axes<#tp, [didx("x"), -]>>)
func.func @rows(%0: tensor<?x?xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.shape = ["x", 7]}) {
  return
}

// The option names an argument of one function only.
// NAMED-LABEL: @others(%arg0: tensor<2x3xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>>)
func.func @others(%0: tensor<?x?xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>> {fusion.shape = ["node", "gpu"]}) {
  return
}

// An undecided argument may name an axis of any mesh.
// CHECK-LABEL: @undecided(%arg0: tensor<3x2xf32>
func.func @undecided(%0: tensor<?x2xf32> {fusion.shape = ["gpu", 2]}, %1: tensor<8xf32, #fusion.axes<#tp, [stream]>>) {
  return
}

// One device: a broadcast dimension of extent `?` is not repeated.
// CHECK-LABEL: @one
// CHECK:         fusion.broadcast {{.*}} : tensor<1x4xf32> -> tensor<2x1x4xf32>
func.func @one(%0: tensor<?x4xf32> {fusion.shape = [1, 4]}) {
  %1 = fusion.broadcast %0 dims [1, 2] : tensor<?x4xf32> -> tensor<2x?x4xf32>
  return
}

// Static functions stay as they are.
// CHECK-LABEL: @static(%arg0: tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>) -> tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>
func.func @static(%0: tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>) -> tensor<8xf32, #fusion.axes<#tp, [didx("x")]>> {
  return %0 : tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>
}
