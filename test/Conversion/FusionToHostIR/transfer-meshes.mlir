// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// Meshes that share a device: what it has on both it copies, and it is no peer of itself.

// CHECK-LABEL: hostir.program @shared
// CHECK-DAG: %[[FROM:.+]] = hostir.in_mesh #a
// CHECK-DAG: %[[TO:.+]] = hostir.in_mesh #b
// CHECK-DAG: %[[ME:.+]] = hostir.device_index #a2Bb, "rank"
// CHECK: %[[BOTH:.+]] = arith.andi %[[FROM]], %[[TO]]
// CHECK: scf.if %[[BOTH]] {
// CHECK:   scf.if
// CHECK:     hostir.copy %arg0 to %arg1
// CHECK: hostir.group
// CHECK: scf.if %[[TO]] {
// CHECK:   arith.cmpi ne, %{{.+}}, %[[ME]]
// CHECK:   hostir.recv %arg1 from
// CHECK: scf.if %[[FROM]] {
// CHECK:   %[[PEER:.+]] = hostir.translate_position %{{.+}} from #b to #a2Bb
// CHECK:   arith.cmpi ne, %[[PEER]], %[[ME]]
// CHECK:   hostir.send %arg0 to %[[PEER]]
#a = #tandem.mesh<"a", ["x" = 2]>
#b = #tandem.mesh<"b", ["x" = 2], devices = [1, 2]>
func.func @shared(%x: tensor<8xf32, #fusion.axes<#a, [didx("x")]>>) -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>> {
  %0 = fusion.reshard %x : tensor<8xf32, #fusion.axes<#a, [didx("x")]>> -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
  return %0 : tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
}

// -----

// Two devices hold each piece, and three get it: they ask the holders in turn, or themselves.

// CHECK-LABEL: hostir.program @holders
// CHECK-DAG: %[[Y:.+]] = hostir.device_index #a, "y"
// CHECK-DAG: %[[Z:.+]] = hostir.device_index #b, "z"
// CHECK-DAG: %[[MINE:.+]] = hostir.in_mesh #a
// CHECK: %[[TURN:.+]] = arith.remui %[[Z]], %c2
// CHECK: %[[HOLDER:.+]] = arith.select %[[MINE]], %[[Y]], %[[TURN]]
// CHECK: hostir.recv
// CHECK: hostir.translate_position %{{.+}} from #b to #a
// CHECK: %[[WHO:.+]] = arith.select
// CHECK: arith.cmpi eq, %[[Y]], %[[WHO]]
// CHECK: hostir.send
#a = #tandem.mesh<"a", ["y" = 2, "x" = 2], devices = [4, 0, 1, 5]>
#b = #tandem.mesh<"b", ["x" = 2, "z" = 3], devices = [1, 2, 6, 3, 0, 7]>
func.func @holders(%x: tensor<8xf32, #fusion.axes<#a, [didx("x")]>>) -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>> {
  %0 = fusion.reshard %x : tensor<8xf32, #fusion.axes<#a, [didx("x")]>> -> tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
  return %0 : tensor<8xf32, #fusion.axes<#b, [didx("x")]>>
}

// -----

// Halves become thirds: rows in six runs of two, each of which one device has and one gets.

// CHECK-LABEL: hostir.program @crossing
// CHECK: hostir.group
// CHECK: scf.for %[[I:.+]] = %c0 to %c2
// CHECK:   hostir.recv %{{.+}} from %{{.+}} : memref<2x4xf32, {{.+}}>
// CHECK: scf.for %[[J:.+]] = %c0 to %c3
// CHECK:   hostir.send %{{.+}} to %{{.+}} : memref<2x4xf32, {{.+}}>
#a = #tandem.mesh<"a", ["x" = 2]>
#b = #tandem.mesh<"b", ["x" = 3], devices = [2, 3, 4]>
func.func @crossing(%x: tensor<12x4xf32, #fusion.axes<#a, [didx("x"), -]>>) -> tensor<12x4xf32, #fusion.axes<#b, [didx("x"), -]>> {
  %0 = fusion.reshard %x : tensor<12x4xf32, #fusion.axes<#a, [didx("x"), -]>> -> tensor<12x4xf32, #fusion.axes<#b, [didx("x"), -]>>
  return %0 : tensor<12x4xf32, #fusion.axes<#b, [didx("x"), -]>>
}

// -----

// Every device has what it gets: no messages.

// CHECK-LABEL: hostir.program @narrowed
// CHECK-NOT: hostir.channel
// CHECK: scf.if
// CHECK: hostir.copy
// CHECK-NOT: hostir.group
#a = #tandem.mesh<"a", ["x" = 4]>
#b = #tandem.mesh<"b", ["y" = 2], devices = [3, 1]>
func.func @narrowed(%x: tensor<8xf32, #fusion.axes<#a, [-]>>) -> tensor<8xf32, #fusion.axes<#b, [didx("y")]>> {
  %0 = fusion.reshard %x : tensor<8xf32, #fusion.axes<#a, [-]>> -> tensor<8xf32, #fusion.axes<#b, [didx("y")]>>
  return %0 : tensor<8xf32, #fusion.axes<#b, [didx("y")]>>
}

// -----

// Both axes of the mesh cut a dimension of their own: one copy.

// CHECK-LABEL: hostir.program @two_axes_local
// CHECK-NOT: hostir.group
// CHECK: hostir.copy %{{.+}} to %{{.+}} : memref<2x2xf32, {{.+}}> to memref<2x2xf32>
// CHECK-NOT: hostir.group
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 3]>
func.func @two_axes_local(%x: tensor<4x6xf32, #fusion.axes<#pod, [-, -]>>) -> tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>> {
  %0 = fusion.reshard %x : tensor<4x6xf32, #fusion.axes<#pod, [-, -]>> -> tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>>
  return %0 : tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>>
}
