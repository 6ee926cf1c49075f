// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// The matmul writes all partial sums, then one kernel of each device exchanges, adds and exchanges them.

// CHECK-LABEL: hostir.program @all_reduce(
// CHECK-SAME: %[[ARG0:.+]]: memref<16x8xf32>{{.*}}%[[ARG1:.+]]: memref<8x8xf32>{{.*}}%[[ARG2:.+]]: memref<16x8xf32>
// CHECK: %[[MAIN:.+]] = hostir.main_stream
// CHECK-NEXT: %[[CH:.+]] = hostir.channel "tp.x.one_sided" over #{{.+}} ["x"] can [one_sided]
// CHECK-NEXT: %[[V5:.+]] = hostir.alloc on %[[MAIN]] : memref<16x8xf32>
// CHECK-NEXT: hostir.matmul %[[ARG0]], %[[ARG1]] to %[[V5]] on %[[MAIN]]
// CHECK-NEXT: %[[V6:.+]] = hostir.alloc on %[[MAIN]] : memref<16x8xf32, #hostir.symmetric>
// CHECK-NEXT: %[[V7:.+]] = hostir.alloc on %[[MAIN]] : memref<4x4x8xf32, #hostir.symmetric>
// CHECK-NEXT: hostir.peer_exchange two_shot_all_reduce %[[V5]] to %[[V6]] copies %[[ARG2]] scratch %[[V7]] slot 0 blocks 1 via %[[CH]] on %[[MAIN]] {reduction = #tandem<reduce_kind sum>}
// CHECK-NEXT: }
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x32xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<16x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @all_reduce(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !terms
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = two>} : !terms -> !y
  return %1 : !y
}
