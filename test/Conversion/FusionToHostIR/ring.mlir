// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// In each step a slice is received from the next device, while the one that arrived before is passed on and multiplied.

// CHECK-LABEL: hostir.program @gather(
// CHECK-SAME: %[[ARG0:.+]]: memref<1x128x32xbf16>{{.*}}%[[ARG1:.+]]: memref<32x8xbf16>{{.*}}%[[ARG2:.+]]: memref<4x128x8xbf16>
// CHECK: %[[MAIN:.+]] = hostir.main_stream
// CHECK-NEXT: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// CHECK-NEXT: %[[CH:.+]] = hostir.channel "tp.x.two_sided" over #{{.+}} ["x"] can [two_sided]
// CHECK-NEXT: %[[V6:.+]] = hostir.alloc on %[[MAIN]] : memref<4x128x32xbf16>
// CHECK-NEXT: %[[S:.+]] = hostir.worker_stream %c0
// CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT: %[[V8:.+]] = arith.addi %[[ME]], %c1
// CHECK-NEXT: %[[V9:.+]] = arith.remui %[[V8]], %c4
// CHECK-NEXT: %[[V10:.+]] = arith.addi %[[ME]], %c3
// CHECK-NEXT: %[[V11:.+]] = arith.remui %[[V10]], %c4
// CHECK-NEXT: %[[V12:.+]] = memref.subview %[[V6]][%[[V9]], 0, 0] [1, 128, 32] [1, 1, 1]
// CHECK-NEXT: hostir.group via %[[CH]] on %[[S]] {
// CHECK-NEXT:   hostir.recv %[[V12]] from %[[V9]]
// CHECK-NEXT:   hostir.send %[[ARG0]] to %[[V11]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V13:.+]] = memref.subview %[[ARG2]][%[[ME]], 0, 0] [1, 128, 8] [1, 1, 1]
// CHECK-NEXT: hostir.matmul %[[ARG0]], %[[ARG1]] to %[[V13]] on %[[MAIN]]
// CHECK-NEXT: scf.for %[[I14:.+]] = %c1 to %c3 step %c1 {
// CHECK-NEXT:   hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NEXT:   %[[V15:.+]] = arith.addi %[[ME]], %[[I14]]
// CHECK-NEXT:   %[[V16:.+]] = arith.remui %[[V15]], %c4
// CHECK-NEXT:   %[[V17:.+]] = arith.addi %[[I14]], %c1
// CHECK-NEXT:   %[[V18:.+]] = arith.addi %[[ME]], %[[V17]]
// CHECK-NEXT:   %[[V19:.+]] = arith.remui %[[V18]], %c4
// CHECK-NEXT:   %[[V20:.+]] = memref.subview %[[V6]][%[[V16]], 0, 0] [1, 128, 32] [1, 1, 1]
// CHECK-NEXT:   %[[V21:.+]] = memref.subview %[[V6]][%[[V19]], 0, 0] [1, 128, 32] [1, 1, 1]
// CHECK-NEXT:   hostir.group via %[[CH]] on %[[S]] {
// CHECK-NEXT:     hostir.recv %[[V21]] from %[[V9]]
// CHECK-NEXT:     hostir.send %[[V20]] to %[[V11]]
// CHECK-NEXT:   }
// CHECK-NEXT:   %[[V22:.+]] = memref.subview %[[ARG2]][%[[V16]], 0, 0] [1, 128, 8] [1, 1, 1]
// CHECK-NEXT:   hostir.matmul %[[V20]], %[[ARG1]] to %[[V22]] on %[[MAIN]]
// CHECK-NEXT: }
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NEXT: %[[V23:.+]] = memref.subview %[[V6]][%[[V11]], 0, 0] [1, 128, 32] [1, 1, 1]
// CHECK-NEXT: %[[V24:.+]] = memref.subview %[[ARG2]][%[[V11]], 0, 0] [1, 128, 8] [1, 1, 1]
// CHECK-NEXT: hostir.matmul %[[V23]], %[[ARG1]] to %[[V24]] on %[[MAIN]]
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NEXT: }
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<4x128x32xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>
!slices = tensor<4x128x32xbf16, #fusion.axes<#tp, [stream, -, -]>>
!w = tensor<32x8xbf16, #fusion.axes<#tp, [-, -]>>
!y = tensor<4x128x8xbf16, #fusion.axes<#tp, [stream, -, -]>>
func.func @gather(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

// -----

// The partial sum travels: it is received, added to the local product, and passed on. The local slice is last.

// CHECK-LABEL: hostir.program @scatter(
// CHECK-SAME: %[[ARG0:.+]]: memref<4x16x8xf32>{{.*}}%[[ARG1:.+]]: memref<8x8xf32>{{.*}}%[[ARG2:.+]]: memref<1x16x8xf32>
// CHECK: %[[MAIN:.+]] = hostir.main_stream
// CHECK-NEXT: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// CHECK-NEXT: %[[CH:.+]] = hostir.channel "tp.x.two_sided" over #{{.+}} ["x"] can [two_sided]
// CHECK-NEXT: %[[V6:.+]] = hostir.alloc on %[[MAIN]] : memref<1x16x8xf32>
// CHECK-NEXT: %[[V7:.+]] = hostir.alloc on %[[MAIN]] : memref<4x16x8xf32>
// CHECK-NEXT: %[[S:.+]] = hostir.worker_stream %c0
// CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT: %[[V9:.+]] = arith.addi %[[ME]], %c1
// CHECK-NEXT: %[[V10:.+]] = arith.remui %[[V9]], %c4
// CHECK-NEXT: %[[V11:.+]] = arith.addi %[[ME]], %c3
// CHECK-NEXT: %[[V12:.+]] = arith.remui %[[V11]], %c4
// CHECK-NEXT: %[[V13:.+]] = memref.subview %[[ARG0]][%[[V10]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT: %[[V14:.+]] = memref.subview %[[V7]][%[[V10]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT: hostir.matmul %[[V13]], %[[ARG1]] to %[[V14]] on %[[MAIN]]
// CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT: %[[V15:.+]] = memref.cast %[[V6]]
// CHECK-NEXT: hostir.group via %[[CH]] on %[[S]] {
// CHECK-NEXT:   hostir.recv %[[V15]] from %[[V10]]
// CHECK-NEXT:   hostir.send %[[V14]] to %[[V12]]
// CHECK-NEXT: }
// CHECK-NEXT: scf.for %[[I16:.+]] = %c1 to %c3 step %c1 {
// CHECK-NEXT:   %[[V17:.+]] = arith.addi %[[I16]], %c1
// CHECK-NEXT:   %[[V18:.+]] = arith.addi %[[ME]], %[[V17]]
// CHECK-NEXT:   %[[V19:.+]] = arith.remui %[[V18]], %c4
// CHECK-NEXT:   %[[V20:.+]] = memref.subview %[[ARG0]][%[[V19]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT:   %[[V21:.+]] = memref.subview %[[V7]][%[[V19]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT:   hostir.matmul %[[V20]], %[[ARG1]] to %[[V21]] on %[[MAIN]]
// CHECK-NEXT:   hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT:   hostir.accumulate sum %[[V15]] into %[[V21]] on %[[S]]
// CHECK-NEXT:   hostir.group via %[[CH]] on %[[S]] {
// CHECK-NEXT:     hostir.recv %[[V15]] from %[[V10]]
// CHECK-NEXT:     hostir.send %[[V21]] to %[[V12]]
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: %[[V22:.+]] = memref.subview %[[ARG0]][%[[ME]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT: hostir.matmul %[[V22]], %[[ARG1]] to %[[ARG2]] on %[[MAIN]]
// CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT: %[[V23:.+]] = memref.cast %[[ARG2]]
// CHECK-NEXT: hostir.accumulate sum %[[V15]] into %[[V23]] on %[[S]]
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NEXT: }
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<4x16x32xf32, #fusion.axes<#tp, [-, -, didx("x")]>>
!w = tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -], partial = ["x"]>>
!y = tensor<4x16x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
func.func @scatter(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<ring>} : !terms -> !y
  return %1 : !y
}
