// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// The puts of push. One matmul has all rows; each part of it begins when its rows have arrived.

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
// CHECK-NEXT: hostir.gated_matmul on %[[MAIN]] reserve 2 {
// CHECK-NEXT:   %[[V13:.+]] = memref.subview %[[ARG2]][%[[ME]], 0, 0] [1, 128, 8] [1, 1, 1]
// CHECK-NEXT:   %[[V131:.+]] = memref.collapse_shape %[[ARG0]] [{{\[}}0, 1], [2]]
// CHECK-NEXT:   %[[V14:.+]] = memref.collapse_shape %[[V13]] [{{\[}}0, 1], [2]]
// CHECK-NEXT:   hostir.matmul %[[V131]], %[[ARG1]] to %[[V14]] on %[[MAIN]]
// CHECK-NEXT:   scf.for %[[I15:.+]] = %c1 to %c4 step %c1 {
// CHECK-NEXT:     %[[V15:.+]] = arith.addi %[[ME]], %[[I15]]
// CHECK-NEXT:     %[[V151:.+]] = arith.remui %[[V15]], %c4
// CHECK-NEXT:     hostir.wait_signal %[[V151]] >= %c1 via %[[CH]] on %[[MAIN]]
// CHECK-NEXT:     %[[V1511:.+]] = memref.subview %[[V6]][%[[V151]], 0, 0] [1, 128, 32] [1, 1, 1]
// CHECK-NEXT:     %[[V16:.+]] = memref.subview %[[ARG2]][%[[V151]], 0, 0] [1, 128, 8] [1, 1, 1]
// CHECK-NEXT:     %[[V17:.+]] = memref.collapse_shape %[[V1511]] [{{\[}}0, 1], [2]]
// CHECK-NEXT:     %[[V18:.+]] = memref.collapse_shape %[[V16]] [{{\[}}0, 1], [2]]
// CHECK-NEXT:     hostir.matmul %[[V17]], %[[ARG1]] to %[[V18]] on %[[MAIN]]
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S]]
// CHECK-NEXT: }
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<4x128x32xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>
!slices = tensor<4x128x32xbf16, #fusion.axes<#tp, [stream, -, -]>>
!w = tensor<32x8xbf16, #fusion.axes<#tp, [-, -]>>
!y = tensor<4x128x8xbf16, #fusion.axes<#tp, [stream, -, -]>>
func.func @gather(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<gated>} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}
