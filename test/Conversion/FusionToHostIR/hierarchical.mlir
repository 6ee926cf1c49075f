// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// Slices move between nodes by a ring of messages, and inside of a node by puts.

// CHECK-LABEL: hostir.program @gather(
// CHECK-SAME: %[[ARG0:.+]]: memref<12x16xf32>{{.*}}%[[ARG1:.+]]: memref<16x24xf32>{{.*}}%[[ARG2:.+]]: memref<48x24xf32>
// CHECK: %[[MAIN:.+]] = hostir.main_stream
// CHECK-NEXT: %[[ME:.+]] = hostir.device_index #{{.+}}, "node"
// CHECK-NEXT: %[[ME1:.+]] = hostir.device_index #{{.+}}, "gpu"
// CHECK-NEXT: %[[CH:.+]] = hostir.channel "pod.node.two_sided" over #{{.+}} ["node"] can [two_sided]
// CHECK-NEXT: %[[CH1:.+]] = hostir.channel "pod.gpu.one_sided" over #{{.+}} ["gpu"] can [one_sided]
// CHECK-NEXT: %[[V8:.+]] = hostir.alloc on %[[MAIN]] : memref<48x16xf32, #hostir.symmetric>
// CHECK-NEXT: scf.for %[[I9:.+]] = %c0 to %c2 step %c1 {
// CHECK-NEXT:   %[[S:.+]] = hostir.worker_stream %[[I9]]
// CHECK-NEXT:   hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V11:.+]] = arith.addi %[[ME]], %c1
// CHECK-NEXT: %[[V12:.+]] = arith.remui %[[V11]], %c2
// CHECK-NEXT: %[[V13:.+]] = arith.muli %[[V12]], %c2
// CHECK-NEXT: %[[V14:.+]] = arith.addi %[[V13]], %[[ME1]]
// CHECK-NEXT: %[[S1:.+]] = hostir.worker_stream %c1
// CHECK-NEXT: %[[V16:.+]] = arith.divui %[[V14]], %c2
// CHECK-NEXT: %[[V17:.+]] = arith.remui %[[V14]], %c2
// CHECK-NEXT: %[[V18:.+]] = arith.muli %[[V16]], %c2
// CHECK-NEXT: %[[V19:.+]] = arith.addi %[[V18]], %[[V17]]
// CHECK-NEXT: %[[V20:.+]] = arith.muli %[[V19]], %c12
// CHECK-NEXT: %[[V21:.+]] = memref.subview %[[V8]][%[[V20]], 0] [12, 16] [1, 1]
// CHECK-NEXT: hostir.group via %[[CH]] on %[[S1]] {
// CHECK-NEXT:   hostir.recv %[[V21]] from %[[V12]]
// CHECK-NEXT:   hostir.send %[[ARG0]] to %[[V12]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V22:.+]] = arith.remui %[[ME]], %c2
// CHECK-NEXT: %[[V23:.+]] = arith.muli %[[V22]], %c2
// CHECK-NEXT: %[[V24:.+]] = arith.addi %[[V23]], %[[ME1]]
// CHECK-NEXT: %[[V25:.+]] = arith.addi %[[ME1]], %c1
// CHECK-NEXT: %[[V26:.+]] = arith.remui %[[V25]], %c2
// CHECK-NEXT: %[[V27:.+]] = arith.divui %[[V24]], %c2
// CHECK-NEXT: %[[V28:.+]] = arith.remui %[[V24]], %c2
// CHECK-NEXT: %[[V29:.+]] = arith.muli %[[V27]], %c2
// CHECK-NEXT: %[[V30:.+]] = arith.addi %[[V29]], %[[V28]]
// CHECK-NEXT: %[[V31:.+]] = arith.muli %[[V30]], %c12
// CHECK-NEXT: %[[V32:.+]] = memref.subview %[[V8]][%[[V31]], 0] [12, 16] [1, 1]
// CHECK-NEXT: %[[S11:.+]] = hostir.worker_stream %c0
// CHECK-NEXT: hostir.put %[[ARG0]] to %[[V32]] at %[[V26]] via %[[CH1]] on %[[S11]]
// CHECK-NEXT: hostir.signal %[[ME1]] = %c1 at %[[V26]] via %[[CH1]] on %[[S11]]
// CHECK-NEXT: %[[V34:.+]] = arith.muli %[[V24]], %c12
// CHECK-NEXT: %[[V35:.+]] = memref.subview %[[ARG2]][%[[V34]], 0] [12, 24] [1, 1]
// CHECK-NEXT: hostir.matmul %[[ARG0]], %[[ARG1]] to %[[V35]] on %[[MAIN]]
// CHECK-NEXT: %[[V36:.+]] = arith.addi %[[V23]], %[[V26]]
// CHECK-NEXT: hostir.wait_signal %[[V26]] >= %c1 via %[[CH1]] on %[[MAIN]]
// CHECK-NEXT: %[[V37:.+]] = arith.muli %[[V36]], %c12
// CHECK-NEXT: %[[V38:.+]] = memref.subview %[[V8]][%[[V37]], 0] [12, 16] [1, 1]
// CHECK-NEXT: %[[V39:.+]] = memref.subview %[[ARG2]][%[[V37]], 0] [12, 24] [1, 1]
// CHECK-NEXT: hostir.matmul %[[V38]], %[[ARG1]] to %[[V39]] on %[[MAIN]]
// CHECK-NEXT: hostir.sync %[[S11]] after %[[S1]]
// CHECK-NEXT: hostir.sync %[[MAIN]] after %[[S1]]
// CHECK-NEXT: hostir.put %[[V21]] to %[[V21]] at %[[V26]] via %[[CH1]] on %[[S11]]
// CHECK-NEXT: hostir.signal %[[ME1]] = %c2 at %[[V26]] via %[[CH1]] on %[[S11]]
// CHECK-NEXT: %[[V40:.+]] = arith.muli %[[V14]], %c12
// CHECK-NEXT: %[[V41:.+]] = memref.subview %[[V8]][%[[V40]], 0] [12, 16] [1, 1]
// CHECK-NEXT: %[[V42:.+]] = memref.subview %[[ARG2]][%[[V40]], 0] [12, 24] [1, 1]
// CHECK-NEXT: hostir.matmul %[[V41]], %[[ARG1]] to %[[V42]] on %[[MAIN]]
// CHECK-NEXT: %[[V43:.+]] = arith.addi %[[V13]], %[[V26]]
// CHECK-NEXT: hostir.wait_signal %[[V26]] >= %c2 via %[[CH1]] on %[[MAIN]]
// CHECK-NEXT: %[[V44:.+]] = arith.muli %[[V43]], %c12
// CHECK-NEXT: %[[V45:.+]] = memref.subview %[[V8]][%[[V44]], 0] [12, 16] [1, 1]
// CHECK-NEXT: %[[V46:.+]] = memref.subview %[[ARG2]][%[[V44]], 0] [12, 24] [1, 1]
// CHECK-NEXT: hostir.matmul %[[V45]], %[[ARG1]] to %[[V46]] on %[[MAIN]]
// CHECK-NEXT: scf.for %[[I47:.+]] = %c0 to %c2 step %c1 {
// CHECK-NEXT:   %[[S111:.+]] = hostir.worker_stream %[[I47]]
// CHECK-NEXT:   hostir.sync %[[MAIN]] after %[[S111]]
// CHECK-NEXT: }
// CHECK-NEXT: }
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
!x = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!w = tensor<16x24xf32, #fusion.axes<#pod, [-, -]>>
!slices = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!y = tensor<48x24xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
func.func @gather(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical>} : !x -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}
