// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// All puts first, on a stream of their own, in an order in which no two devices put to one peer. The local slice is multiplied
// meanwhile, then each slice that arrives.

// CHECK-LABEL: hostir.program @gather(
// CHECK-SAME: %[[ARG0:.+]]: memref<1x128x32xbf16>{{.*}}%[[ARG1:.+]]: memref<32x8xbf16>{{.*}}%[[ARG2:.+]]: memref<4x128x8xbf16>
// CHECK: %[[MAIN:.+]] = hostir.main_stream
// CHECK-NEXT: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// CHECK-NEXT: %[[CH:.+]] = hostir.channel "tp.x.one_sided" over #{{.+}} ["x"] can [one_sided]
// CHECK-NEXT: %[[V6:.+]] = hostir.alloc on %[[MAIN]] : memref<4x128x32xbf16, #hostir.symmetric>
// CHECK-NEXT: %[[S:.+]] = hostir.worker_stream %c0
// CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT: scf.for %[[I8:.+]] = %c1 to %c4 step %c1 {
// CHECK-NEXT:   %[[V9:.+]] = arith.subi %c4, %[[I8]]
// CHECK-NEXT:   %[[V10:.+]] = arith.addi %[[ME]], %[[V9]]
// CHECK-NEXT:   %[[V11:.+]] = arith.remui %[[V10]], %c4
// CHECK-NEXT:   %[[V12:.+]] = memref.subview %[[V6]][%[[ME]], 0, 0] [1, 128, 32] [1, 1, 1]
// CHECK-NEXT:   hostir.put %[[ARG0]] to %[[V12]] at %[[V11]] via %[[CH]] on %[[S]]
// CHECK-NEXT:   hostir.signal %[[ME]] = %c1 at %[[V11]] via %[[CH]] on %[[S]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V13:.+]] = memref.subview %[[ARG2]][%[[ME]], 0, 0] [1, 128, 8] [1, 1, 1]
// CHECK-NEXT: hostir.matmul %[[ARG0]], %[[ARG1]] to %[[V13]] on %[[MAIN]]
// CHECK-NEXT: scf.for %[[I14:.+]] = %c1 to %c4 step %c1 {
// CHECK-NEXT:   %[[V14:.+]] = arith.addi %[[ME]], %[[I14]]
// CHECK-NEXT:   %[[V141:.+]] = arith.remui %[[V14]], %c4
// CHECK-NEXT:   hostir.wait_signal %[[V141]] >= %c1 via %[[CH]] on %[[MAIN]]
// CHECK-NEXT:   %[[V1411:.+]] = memref.subview %[[V6]][%[[V141]], 0, 0] [1, 128, 32] [1, 1, 1]
// CHECK-NEXT:   %[[V14111:.+]] = memref.subview %[[ARG2]][%[[V141]], 0, 0] [1, 128, 8] [1, 1, 1]
// CHECK-NEXT:   hostir.matmul %[[V1411]], %[[ARG1]] to %[[V14111]] on %[[MAIN]]
// CHECK-NEXT: }
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NEXT: }
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<4x128x32xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>
!slices = tensor<4x128x32xbf16, #fusion.axes<#tp, [stream, -, -]>>
!w = tensor<32x8xbf16, #fusion.axes<#tp, [-, -]>>
!y = tensor<4x128x8xbf16, #fusion.axes<#tp, [stream, -, -]>>
func.func @gather(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

// -----

// Each product goes to its owner's receive memory as soon as it is computed, the local one last and directly. One reduction adds
// what has arrived.

// CHECK-LABEL: hostir.program @scatter(
// CHECK-SAME: %[[ARG0:.+]]: memref<4x16x8xf32>{{.*}}%[[ARG1:.+]]: memref<8x8xf32>{{.*}}%[[ARG2:.+]]: memref<1x16x8xf32>
// CHECK: %[[MAIN:.+]] = hostir.main_stream
// CHECK-NEXT: %[[ME:.+]] = hostir.device_index #{{.+}}, "x"
// CHECK-NEXT: %[[CH:.+]] = hostir.channel "tp.x.one_sided" over #{{.+}} ["x"] can [one_sided]
// CHECK-NEXT: %[[V6:.+]] = hostir.alloc on %[[MAIN]] : memref<4x1x16x8xf32, #hostir.symmetric>
// CHECK-NEXT: %[[V7:.+]] = hostir.alloc on %[[MAIN]] : memref<4x16x8xf32>
// CHECK-NEXT: %[[S:.+]] = hostir.worker_stream %c0
// CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT: %[[V9:.+]] = memref.subview %[[V6]][%[[ME]], 0, 0, 0] [1, 1, 16, 8] [1, 1, 1, 1]
// CHECK-NEXT: scf.for %[[I10:.+]] = %c1 to %c4 step %c1 {
// CHECK-NEXT:   %[[V11:.+]] = arith.addi %[[ME]], %[[I10]]
// CHECK-NEXT:   %[[V12:.+]] = arith.remui %[[V11]], %c4
// CHECK-NEXT:   %[[V13:.+]] = memref.subview %[[ARG0]][%[[V12]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT:   %[[V14:.+]] = memref.subview %[[V7]][%[[V12]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT:   hostir.matmul %[[V13]], %[[ARG1]] to %[[V14]] on %[[MAIN]]
// CHECK-NEXT:   hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT:   hostir.put %[[V14]] to %[[V9]] at %[[V12]] via %[[CH]] on %[[S]]
// CHECK-NEXT:   hostir.signal %[[ME]] = %c1 at %[[V12]] via %[[CH]] on %[[S]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V15:.+]] = memref.subview %[[ARG0]][%[[ME]], 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NEXT: hostir.matmul %[[V15]], %[[ARG1]] to %[[V9]] on %[[MAIN]]
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NEXT: scf.for %[[I16:.+]] = %c1 to %c4 step %c1 {
// CHECK-NEXT:   %[[V16:.+]] = arith.addi %[[ME]], %[[I16]]
// CHECK-NEXT:   %[[V161:.+]] = arith.remui %[[V16]], %c4
// CHECK-NEXT:   hostir.wait_signal %[[V161]] >= %c1 via %[[CH]] on %[[MAIN]]
// CHECK-NEXT: }
// CHECK-NEXT: hostir.reduce sum %[[V6]] to %[[ARG2]] dims [0] on %[[MAIN]]
// CHECK-NEXT: }
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<4x16x32xf32, #fusion.axes<#tp, [-, -, didx("x")]>>
!w = tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<4x16x8xf32, #fusion.axes<#tp, [stream, -, -], partial = ["x"]>>
!y = tensor<4x16x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
func.func @scatter(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !terms -> !y
  return %1 : !y
}
