// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// The own slice first and without communication; then one peer after another, receive and send in one group. The
// matmul of the own slice reads the shard where it is.

// CHECK: #[[TP:.+]] = #tandem.mesh<"tp", ["x" = 4]>
// CHECK-LABEL: hostir.program @matmul
// CHECK-SAME: (%[[X:.+]]: memref<1x16x32xf32> {hostir.name = "x", hostir.type = tensor<4x16x32xf32, #fusion.axes<#[[TP]], [didx("x"), -, -]>>},
// CHECK-SAME: %[[W:.+]]: memref<32x8xf32>
// CHECK-SAME: %[[Y:.+]]: memref<4x16x8xf32> {hostir.name = "res0", hostir.result,
// CHECK-DAG: %[[MAIN:.+]] = hostir.main_stream
// CHECK-DAG: %[[ME:.+]] = hostir.device_index #[[TP]], "x"
// CHECK-DAG: %[[CH:.+]] = hostir.channel "tp.x.two_sided" over #[[TP]] ["x"] can [two_sided]
// CHECK-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<4x16x32xf32>
// CHECK: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// CHECK-NEXT: %[[S:.+]] = hostir.worker_stream %[[I]]
// CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// CHECK: %[[S0:.+]] = hostir.worker_stream %c0
// CHECK: %[[OWN:.+]] = memref.subview %[[Y]][%[[ME]], 0, 0] [1, 16, 8]
// CHECK: hostir.matmul %[[X]], %[[W]] to %[[OWN]] on %[[S0]]
// CHECK: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// CHECK-DAG: %[[A:.+]] = arith.addi %[[ME]], %[[D]]
// CHECK-DAG: %[[FROM:.+]] = arith.remui %[[A]], %c4
// CHECK-DAG: %[[B:.+]] = arith.subi %c4, %[[D]]
// CHECK-DAG: %[[C:.+]] = arith.addi %[[ME]], %[[B]]
// CHECK-DAG: %[[TO:.+]] = arith.remui %[[C]], %c4
// CHECK: %[[S:.+]] = hostir.worker_stream %[[D]]
// CHECK: %[[SLOT:.+]] = memref.subview %[[G]][%[[FROM]], 0, 0] [1, 16, 32]
// CHECK: hostir.group via %[[CH]] on %[[S]] {
// CHECK-NEXT: hostir.recv %[[SLOT]] from %[[FROM]]
// CHECK-NEXT: hostir.send %[[X]] to %[[TO]]
// CHECK-NEXT: }
// CHECK: %[[OUT:.+]] = memref.subview %[[Y]][%[[FROM]], 0, 0] [1, 16, 8]
// CHECK: hostir.matmul %[[SLOT]], %[[W]] to %[[OUT]] on %[[S]]
// CHECK: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// CHECK-NEXT: %[[S:.+]] = hostir.worker_stream %[[I]]
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NOT: hostir.
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @matmul(%x: tensor<4x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "x"},
                  %w: tensor<32x8xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<4x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<4x16x32xf32, #fusion.axes<#tp, [stream, -, -]>>
  %1 = fusion.matmul %0, %w
      : tensor<4x16x32xf32, #fusion.axes<#tp, [stream, -, -]>>, tensor<32x8xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %1 : tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -]>>
}

// -----

// Without a matmul the gathered tensor is the result, so the own slice is copied into it.

// CHECK-LABEL: hostir.program @gather
// CHECK-SAME: (%[[X:.+]]: memref<1x8xf32> {{.*}}, %[[Y:.+]]: memref<4x8xf32>
// CHECK: %[[ME:.+]] = hostir.device_index
// CHECK: %[[OWN:.+]] = memref.subview %[[Y]][%[[ME]], 0] [1, 8]
// CHECK: hostir.copy %[[X]] to %[[OWN]]
// CHECK: scf.for
// CHECK: hostir.recv
// CHECK: hostir.send %[[X]]
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @gather(%x: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
}

// -----

// Two slices an owner: both loops, and the slices of one owner are neighbours.

// CHECK-LABEL: hostir.program @chunks
// CHECK-SAME: (%[[X:.+]]: memref<8x8xf32>
// CHECK: scf.for %[[C:.+]] = %c0 to %c2 step %c1
// CHECK: hostir.matmul
// CHECK: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// CHECK: scf.for %[[C:.+]] = %c0 to %c2 step %c1
// CHECK: %[[ROW:.+]] = arith.muli %[[C]], %c4
// CHECK: %[[MINE:.+]] = memref.subview %[[X]][%[[ROW]], 0] [4, 8]
// CHECK: hostir.group
// CHECK: hostir.send %[[MINE]]
// CHECK: hostir.matmul
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @chunks(%x: tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>>,
                  %w: tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<32x16xf32, #fusion.axes<#tp, [stream(8), -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<32x8xf32, #fusion.axes<#tp, [stream(8), -]>>
  %1 = fusion.matmul %0, %w
      : tensor<32x8xf32, #fusion.axes<#tp, [stream(8), -]>>, tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<32x16xf32, #fusion.axes<#tp, [stream(8), -]>>
  return %1 : tensor<32x16xf32, #fusion.axes<#tp, [stream(8), -]>>
}

// -----

// `streams` of the schedule bounds how many workers the loop uses.

// CHECK-LABEL: hostir.program @two_streams
// CHECK: scf.for %[[D:.+]] = %c1 to %c4 step %c1
// CHECK: %[[R:.+]] = arith.remui %[[D]], %c2
// CHECK: hostir.worker_stream %[[R]]
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @two_streams(%x: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange, streams = 2>}
      : tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
}

// -----

// One device: the own slice is all there is.

// CHECK-LABEL: hostir.program @alone
// CHECK-NOT: hostir.channel
// CHECK: hostir.copy
// CHECK-NOT: hostir.group
#tp = #tandem.mesh<"tp", ["x" = 1]>
func.func @alone(%x: tensor<1x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<1x8xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<1x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<1x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<1x8xf32, #fusion.axes<#tp, [stream, -]>>
}

// -----

// Slices that all devices have a part of: a user who names the schedule gets messages between all, and no collective.

// CHECK-LABEL: hostir.program @shared_slices
// CHECK-NOT: hostir.collective
// CHECK: scf.for
// CHECK: hostir.copy
// CHECK: hostir.group
// CHECK: scf.for
// CHECK: hostir.recv %{{.+}} : memref<1x2xf32, {{.+}}>
// CHECK: scf.for
// CHECK: hostir.send %{{.+}} : memref<1x2xf32, {{.+}}>
// CHECK-NOT: hostir.collective
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @shared_slices(%x: tensor<6x8xf32, #fusion.axes<#tp, [-, didx("x")]>>)
    -> tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<6x8xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>>
}
