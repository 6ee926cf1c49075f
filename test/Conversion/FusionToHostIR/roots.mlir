// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// One device and the mesh that it belongs to: a collective of the mesh, with the device's place in it as the root.

// CHECK-LABEL: hostir.program @broadcast
// CHECK-DAG: %[[CH:.+]] = hostir.channel "tp.x.collectives" over #{{.+}} ["x"]
// CHECK: scf.for
// CHECK: hostir.collective broadcast %{{.+}} to %{{.+}} root %c2 via %[[CH]] on %{{.+}} : memref<2x5xf32, {{.+}}> to memref<2x5xf32, {{.+}}>
#tp = #tandem.mesh<"tp", ["x" = 4]>
#root = #tandem.mesh<"root", [], devices = [2]>
func.func @broadcast(%x: tensor<6x5xf32, #fusion.axes<#root, [-, -]>>) -> tensor<6x5xf32, #fusion.axes<#tp, [stream(3), -]>> {
  %0 = fusion.reshard %x : tensor<6x5xf32, #fusion.axes<#root, [-, -]>> -> tensor<6x5xf32, #fusion.axes<#tp, [stream(3), -]>>
  return %0 : tensor<6x5xf32, #fusion.axes<#tp, [stream(3), -]>>
}

// -----

// The root is counted as the devices are listed, over both axes of the mesh.

// CHECK-LABEL: hostir.program @scatter
// CHECK-DAG: %[[CH:.+]] = hostir.channel "pod.node.gpu.collectives"
// CHECK: hostir.collective scatter %{{.+}} to %{{.+}} root %c3 via %[[CH]] on %{{.+}} : memref<4x2x5xf32> to memref<2x5xf32>
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2], devices = [3, 1, 2, 0]>
#root = #tandem.mesh<"root", [], devices = [0]>
func.func @scatter(%x: tensor<8x5xf32, #fusion.axes<#root, [-, -]>>)
    -> tensor<8x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>> {
  %0 = fusion.reshard %x
      : tensor<8x5xf32, #fusion.axes<#root, [-, -]>> -> tensor<8x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
  return %0 : tensor<8x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
}

// -----

// The dimension counts the devices in another order than the mesh: so does the channel. Device 1 is the second of the
// mesh and the third of the group.

// CHECK-LABEL: hostir.program @gather
// CHECK-DAG: %[[CH:.+]] = hostir.channel "pod.gpu.node.collectives" over #{{.+}} ["gpu", "node"]
// CHECK: hostir.collective gather %{{.+}} to %{{.+}} root %c2 via %[[CH]] on
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
#root = #tandem.mesh<"root", [], devices = [1]>
func.func @gather(%x: tensor<8x6xf32, #fusion.axes<#pod, [didx("gpu") * didx("node"), -]>>)
    -> tensor<8x6xf32, #fusion.axes<#root, [-, stream(3)]>> {
  %0 = fusion.reshard %x
      : tensor<8x6xf32, #fusion.axes<#pod, [didx("gpu") * didx("node"), -]>> -> tensor<8x6xf32, #fusion.axes<#root, [-, stream(3)]>>
  return %0 : tensor<8x6xf32, #fusion.axes<#root, [-, stream(3)]>>
}

// -----

// CHECK-LABEL: hostir.program @reduce
// CHECK: hostir.collective reduce %{{.+}} to %{{.+}} root %c3 via %{{.+}} on %{{.+}} {reduction = #tandem<reduce_kind max>} : memref<6xf32> to memref<6xf32>
#tp = #tandem.mesh<"tp", ["x" = 4]>
#root = #tandem.mesh<"root", [], devices = [3]>
func.func @reduce(%x: tensor<6xf32, #fusion.axes<#tp, [-], partial = max ["x"]>>) -> tensor<6xf32, #fusion.axes<#root, [-]>> {
  %0 = fusion.reshard %x
      : tensor<6xf32, #fusion.axes<#tp, [-], partial = max ["x"]>> -> tensor<6xf32, #fusion.axes<#root, [-]>>
  return %0 : tensor<6xf32, #fusion.axes<#root, [-]>>
}

// -----

// A root outside of the mesh: the mesh's first device stands for it.

// CHECK-LABEL: hostir.program @broadcast_into
// CHECK-DAG: %[[PAIR:.+]] = hostir.channel "ranks7+1.rank.two_sided"
// CHECK-DAG: %[[ALL:.+]] = hostir.channel "tp.x.collectives"
// CHECK: %[[THERE:.+]] = hostir.alloc
// CHECK: hostir.group via %[[PAIR]]
// CHECK: hostir.send %arg0 to %c1
// CHECK: hostir.recv %[[THERE]] from %c0
// CHECK: hostir.collective broadcast %[[THERE]] to %arg1 root %c0 via %[[ALL]]
#tp = #tandem.mesh<"tp", ["x" = 3], devices = [1, 4, 2]>
#root = #tandem.mesh<"root", [], devices = [7]>
func.func @broadcast_into(%x: tensor<5xf32, #fusion.axes<#root, [-]>>) -> tensor<5xf32, #fusion.axes<#tp, [-]>> {
  %0 = fusion.reshard %x : tensor<5xf32, #fusion.axes<#root, [-]>> -> tensor<5xf32, #fusion.axes<#tp, [-]>>
  return %0 : tensor<5xf32, #fusion.axes<#tp, [-]>>
}

// -----

// CHECK-LABEL: hostir.program @reduce_out_of
// CHECK: %[[THERE:.+]] = hostir.alloc
// CHECK: hostir.collective reduce %arg0 to %[[THERE]] root %c0
// CHECK: hostir.send %[[THERE]] to %c1
// CHECK: hostir.recv %arg1 from %c0
#tp = #tandem.mesh<"tp", ["x" = 3], devices = [1, 4, 2]>
#root = #tandem.mesh<"root", [], devices = [7]>
func.func @reduce_out_of(%x: tensor<5xf32, #fusion.axes<#tp, [-], partial = ["x"]>>) -> tensor<5xf32, #fusion.axes<#root, [-]>> {
  %0 = fusion.reshard %x : tensor<5xf32, #fusion.axes<#tp, [-], partial = ["x"]>> -> tensor<5xf32, #fusion.axes<#root, [-]>>
  return %0 : tensor<5xf32, #fusion.axes<#root, [-]>>
}

// -----

// Gathered by a device outside: each sends to it, no one in between.

// CHECK-LABEL: hostir.program @gather_out_of
// CHECK-NOT: hostir.collective
// CHECK: hostir.group
// CHECK: hostir.recv
// CHECK: hostir.send
#tp = #tandem.mesh<"tp", ["x" = 3]>
#root = #tandem.mesh<"root", [], devices = [7]>
func.func @gather_out_of(%x: tensor<6xf32, #fusion.axes<#tp, [didx("x")]>>) -> tensor<6xf32, #fusion.axes<#root, [-]>> {
  %0 = fusion.reshard %x : tensor<6xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<6xf32, #fusion.axes<#root, [-]>>
  return %0 : tensor<6xf32, #fusion.axes<#root, [-]>>
}
