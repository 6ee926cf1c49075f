// RUN: tandem-opt %s --hostir-expand-collectives="channels-without-collectives=*" --canonicalize --cse --split-input-file | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A ring: a copy of the own slice, then in each step one group that forwards what came last.
// CHECK-LABEL: hostir.program @all_gather
hostir.program @all_gather(%a: memref<3xf32>, %b: memref<4x3xf32> {hostir.result}) {
  // CHECK-DAG: %[[S:.*]] = hostir.main_stream
  // CHECK-DAG: %[[CH:.*]] = hostir.channel "ch" over #tp ["x"] can [two_sided]
  // CHECK-DAG: %[[ME:.*]] = hostir.device_index #tp, "x"
  // CHECK:     %[[R:.*]] = arith.addi %[[ME]], %c1
  // CHECK:     %[[RIGHT:.*]] = arith.remui %[[R]], %c4
  // CHECK:     %[[L:.*]] = arith.addi %[[ME]], %c3
  // CHECK:     %[[LEFT:.*]] = arith.remui %[[L]], %c4
  // CHECK:     %[[OWN:.*]] = memref.subview %{{.*}}[%[[ME]], 0] [1, 3] [1, 1]
  // CHECK:     hostir.copy %{{.*}} to %[[OWN]] on %[[S]]
  // CHECK:     scf.for %[[I:.*]] = %c0 to %c3 step %c1 {
  // CHECK:       %[[SENT:.*]] = memref.subview
  // CHECK:       %[[RECEIVED:.*]] = memref.subview
  // CHECK:       hostir.group via %[[CH]] on %[[S]] {
  // CHECK-NEXT:    hostir.recv %[[RECEIVED]] from %[[LEFT]] : memref<3xf32, strided<[1], offset: ?>>
  // CHECK-NEXT:    hostir.send %[[SENT]] to %[[RIGHT]] : memref<3xf32, strided<[1], offset: ?>>
  // CHECK-NEXT:  }
  // CHECK-NEXT: }
  // CHECK-NOT: hostir.collective
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective all_gather %a to %b via %ch on %s : memref<3xf32> to memref<4x3xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 5]>

// Partial sums in two places in turn, on the collective's stream; the last one arrives in the output.
// CHECK-LABEL: hostir.program @reduce_scatter
// CHECK-SAME:  %[[IN:.*]]: memref<5x3xbf16>, %[[OUT:.*]]: memref<3xbf16> {hostir.result}
hostir.program @reduce_scatter(%a: memref<5x3xbf16>, %b: memref<3xbf16> {hostir.result}) {
  // CHECK: %[[S:.*]] = hostir.worker_stream
  // CHECK: %[[P:.*]] = hostir.alloc on %[[S]] : memref<2x3xbf16>
  // CHECK: hostir.group
  // CHECK: hostir.accumulate max %{{.*}} into %{{.*}} on %[[S]]
  // CHECK: scf.for
  // CHECK:   hostir.group
  // CHECK:   hostir.accumulate max
  // CHECK: }
  // CHECK: hostir.group
  // CHECK-NEXT: hostir.recv %[[OUT]] from
  // CHECK: hostir.accumulate max %{{.*}} into %[[OUT]] on %[[S]]
  // CHECK: hostir.dealloc %[[P]] on %[[S]]
  %c2 = arith.constant 2 : index
  %s = hostir.worker_stream %c2
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  hostir.collective reduce_scatter %a to %b via %ch on %s {reduction = #tandem<reduce_kind max>}
      : memref<5x3xbf16> to memref<3xbf16>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Chunks of a dimension that the group's size divides: reduce-scatter, then all-gather, both in place.
// CHECK-LABEL: hostir.program @all_reduce
hostir.program @all_reduce(%a: memref<3x8xf32, strided<[16, 1]>>, %b: memref<3x8xf32> {hostir.result}) {
  // CHECK:     memref.subview %{{.*}}[0, %{{.*}}] [3, 2] [1, 1]
  // CHECK:     hostir.accumulate sum
  // CHECK:     scf.for %{{.*}} = %c0 to %c3
  // CHECK-NOT: hostir.accumulate
  // CHECK-NOT: hostir.reduce
  // CHECK:     }
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective all_reduce %a to %b via %ch on %s
      : memref<3x8xf32, strided<[16, 1]>> to memref<3x8xf32>
}

// Dense buffers are taken as one run of elements. Two of the ten remain: gathered, then reduced alike on all ranks.
// CHECK-LABEL: hostir.program @all_reduce_rest
hostir.program @all_reduce_rest(%a: memref<2x5xf32>, %b: memref<2x5xf32> {hostir.result}) {
  // CHECK: memref.collapse_shape %{{.*}} {{\[\[}}0, 1]] : memref<2x5xf32> into memref<10xf32>
  // CHECK: memref.collapse_shape
  // CHECK: hostir.accumulate sum
  // CHECK: memref.subview %{{.*}}[8] [2] [1] : memref<10xf32>
  // CHECK: %[[OUT:.*]] = memref.subview %{{.*}}[8] [2] [1] : memref<10xf32>
  // CHECK: %[[TERMS:.*]] = hostir.alloc on %{{.*}} : memref<4x2xf32>
  // CHECK: scf.for
  // CHECK: hostir.reduce sum %[[TERMS]] to %[[OUT]] dims [0]
  // CHECK: hostir.dealloc %[[TERMS]]
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective all_reduce %a to %b via %ch on %s : memref<2x5xf32> to memref<2x5xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// CHECK-LABEL: hostir.program @all_to_all
hostir.program @all_to_all(%a: memref<4x3xi32>, %b: memref<4x3xi32> {hostir.result}) {
  // CHECK: hostir.copy
  // CHECK: scf.for %[[D:.*]] = %c1 to %c4 step %c1 {
  // CHECK:   %[[T:.*]] = arith.addi %{{.*}}, %[[D]]
  // CHECK:   %[[TO:.*]] = arith.remui %[[T]], %c4
  // CHECK:   %[[F:.*]] = arith.subi %{{.*}}, %[[D]]
  // CHECK:   %[[FROM:.*]] = arith.remui %[[F]], %c4
  // CHECK:   hostir.recv %{{.*}} from %[[FROM]]
  // CHECK:   hostir.send %{{.*}} to %[[TO]]
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective all_to_all %a to %b via %ch on %s : memref<4x3xi32> to memref<4x3xi32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 5]>

// Three rounds: 1, 2, 4 devices have it; in the last one, only the first sends.
// CHECK-LABEL: hostir.program @broadcast
hostir.program @broadcast(%a: memref<3xf32>, %b: memref<3xf32> {hostir.result}) {
  // CHECK: %[[V:.*]] = arith.remui %{{.*}}, %c5
  // CHECK: %[[ROOT:.*]] = arith.cmpi eq, %[[V]], %c0
  // CHECK: scf.if %[[ROOT]] {
  // CHECK-NEXT: hostir.copy
  // CHECK: arith.cmpi ult, %[[V]], %c1
  // CHECK: hostir.send
  // CHECK: hostir.recv
  // CHECK: arith.cmpi ult, %[[V]], %c2
  // CHECK: hostir.send
  // CHECK: hostir.recv
  // CHECK: hostir.send
  // CHECK: hostir.recv
  // CHECK-NOT: hostir.send
  %s = hostir.main_stream
  %root = arith.constant 3 : index
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective broadcast %a to %b root %root via %ch on %s : memref<3xf32> to memref<3xf32>
}

// The output is written on the root alone.
// CHECK-LABEL: hostir.program @reduce
// CHECK-SAME:  %{{.*}}: memref<3xf32>, %[[OUT:.*]]: memref<3xf32>
hostir.program @reduce(%a: memref<3xf32>, %b: memref<3xf32> {hostir.result}) {
  // CHECK: hostir.recv
  // CHECK: hostir.accumulate min
  // CHECK: hostir.send
  // CHECK: hostir.dealloc
  // CHECK-NEXT: %[[IS_ROOT:.*]] = arith.cmpi eq, %{{.*}}, %c0
  // CHECK-NEXT: scf.if %[[IS_ROOT]] {
  // CHECK-NEXT:   hostir.copy %{{.*}} to %[[OUT]]
  // CHECK-NEXT: }
  %s = hostir.main_stream
  %root = arith.constant 0 : index
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective reduce %a to %b root %root via %ch on %s {reduction = #tandem<reduce_kind min>}
      : memref<3xf32> to memref<3xf32>
}

// Subtrees of 1, 2 and, cut by the group's end, 1 slices.
// CHECK-LABEL: hostir.program @gather
hostir.program @gather(%a: memref<3xf32>, %b: memref<5x3xf32> {hostir.result}) {
  // CHECK: hostir.recv %{{.*}} : memref<1x3xf32, strided<[3, 1], offset: 3>>
  // CHECK: hostir.recv %{{.*}} : memref<2x3xf32, strided<[3, 1], offset: 6>>
  // CHECK: hostir.recv %{{.*}} : memref<1x3xf32, strided<[3, 1], offset: 12>>
  %s = hostir.main_stream
  %root = arith.constant 1 : index
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective gather %a to %b root %root via %ch on %s : memref<3xf32> to memref<5x3xf32>
}

// CHECK-LABEL: hostir.program @scatter
hostir.program @scatter(%a: memref<5x3xf32>, %b: memref<3xf32> {hostir.result}) {
  // CHECK: hostir.send %{{.*}} : memref<1x3xf32, strided<[3, 1], offset: 12>>
  // CHECK: hostir.send %{{.*}} : memref<2x3xf32, strided<[3, 1], offset: 6>>
  // CHECK: hostir.send %{{.*}} : memref<1x3xf32, strided<[3, 1], offset: 3>>
  %s = hostir.main_stream
  %root = arith.constant 1 : index
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective scatter %a to %b root %root via %ch on %s : memref<5x3xf32> to memref<3xf32>
}

// -----

#one = #tandem.mesh<"one", ["x" = 1]>

// CHECK-LABEL: hostir.program @alone
// CHECK-SAME:  %[[IN:.*]]: memref<3xf32>, %[[OUT:.*]]: memref<1x3xf32>
hostir.program @alone(%a: memref<3xf32>, %b: memref<1x3xf32> {hostir.result}) {
  // CHECK:      %[[V:.*]] = memref.subview %[[OUT]][0, 0] [1, 3] [1, 1]
  // CHECK-NEXT: hostir.copy %[[IN]] to %[[V]]
  // CHECK-NEXT: }
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #one ["x"] can [collectives]
  hostir.collective all_gather %a to %b via %ch on %s : memref<3xf32> to memref<1x3xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// No elements, no messages.
// CHECK-LABEL: hostir.program @nothing
// CHECK-NOT:     hostir.group
// CHECK-NOT:     hostir.collective
hostir.program @nothing(%a: memref<0xf32>, %b: memref<4x0xf32> {hostir.result}) {
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  hostir.collective all_gather %a to %b via %ch on %s : memref<0xf32> to memref<4x0xf32>
}

// -----

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 3]>

// The position in a group over two axes is row-major in the order in which the channel names them.
// CHECK-LABEL: hostir.program @position
hostir.program @position(%a: memref<3xf32>, %b: memref<6x3xf32> {hostir.result}) {
  // CHECK: %[[GPU:.*]] = hostir.device_index #pod, "gpu"
  // CHECK: %[[NODE:.*]] = hostir.device_index #pod, "node"
  // CHECK: %[[OUTER:.*]] = arith.muli %[[GPU]], %c2
  // CHECK: arith.addi %[[OUTER]], %[[NODE]]
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #pod ["gpu", "node"] can [collectives]
  hostir.collective all_gather %a to %b via %ch on %s : memref<3xf32> to memref<6x3xf32>
}
