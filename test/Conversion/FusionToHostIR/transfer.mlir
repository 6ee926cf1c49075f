// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// Both mesh axes split one dimension in the order of the mesh: one all-gather over their product.

// CHECK-LABEL: hostir.program @two_axes
// CHECK: %[[CH:.+]] = hostir.channel "pod.node.gpu.collectives" over #{{.+}} ["node", "gpu"]
// CHECK: hostir.collective all_gather %{{.+}} to %{{.+}} via %[[CH]] on %{{.+}} : memref<8xf32{{.*}}> to memref<8x8xf32>
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 4]>
func.func @two_axes(%x: tensor<8x8xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>)
    -> tensor<8x8xf32, #fusion.axes<#pod, [-, -]>> {
  %0 = fusion.reshard %x
      : tensor<8x8xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>> -> tensor<8x8xf32, #fusion.axes<#pod, [-, -]>>
  return %0 : tensor<8x8xf32, #fusion.axes<#pod, [-, -]>>
}

// -----

// A stream slice that two of four devices own: messages, each only if this device has a part of the slice.

// CHECK-LABEL: hostir.program @cut_axis
// CHECK: scf.for %[[I:.+]] = %c0 to %c2 step %c1
// CHECK: scf.if
// CHECK: hostir.copy
// CHECK: hostir.group
// CHECK: scf.for
// CHECK: hostir.recv
// CHECK: scf.if
// CHECK: hostir.send
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @cut_axis(%x: tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<8x8xf32, #fusion.axes<#tp, [stream(2), -]>> {
  %0 = fusion.reshard %x
      : tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x8xf32, #fusion.axes<#tp, [stream(2), -]>>
  return %0 : tensor<8x8xf32, #fusion.axes<#tp, [stream(2), -]>>
}

// -----

// Between two meshes: one channel over all devices of both, those of the source first.

// CHECK-DAG: #[[A:.+]] = #tandem.mesh<"a", ["x" = 2], devices = [3, 1]>
// CHECK-DAG: #[[B:.+]] = #tandem.mesh<"b", ["x" = 2], devices = [0, 2]>
// CHECK-DAG: #[[AB:.+]] = #tandem.mesh<"a+b", ["rank" = 4], devices = [3, 1, 0, 2]>
// CHECK-LABEL: hostir.program @two_meshes
// CHECK: hostir.channel "a+b.rank.two_sided" over #[[AB]] ["rank"]
// CHECK-DAG: %[[TO:.+]] = hostir.in_mesh #[[B]]
// CHECK-DAG: %[[FROM:.+]] = hostir.in_mesh #[[A]]
// CHECK: hostir.group
// CHECK: scf.if %[[TO]] {
// CHECK: hostir.recv
// CHECK: scf.if %[[FROM]] {
// CHECK: hostir.send
#a = #tandem.mesh<"a", ["x" = 2], devices = [3, 1]>
#b = #tandem.mesh<"b", ["x" = 2], devices = [0, 2]>
func.func @two_meshes(%x: tensor<8xf32, #fusion.axes<#a, [didx("x")]>>) -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>> {
  %0 = fusion.reshard %x : tensor<8xf32, #fusion.axes<#a, [didx("x")]>> -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
  return %0 : tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
}

// -----

// A mesh that is a part of the world: the others run nothing of it.

// CHECK-LABEL: hostir.program @part_of_the_world
// CHECK: %[[MINE:.+]] = hostir.in_mesh
// CHECK: scf.if %[[MINE]] {
// CHECK: hostir.launch
#part = #tandem.mesh<"part", ["x" = 2], devices = [3, 1]>
func.func @part_of_the_world(%x: tensor<8xf32, #fusion.axes<#part, [didx("x")]>>) -> tensor<8xf32, #fusion.axes<#part, [didx("x")]>> {
  %0 = arith.negf %x : tensor<8xf32, #fusion.axes<#part, [didx("x")]>>
  return %0 : tensor<8xf32, #fusion.axes<#part, [didx("x")]>>
}
