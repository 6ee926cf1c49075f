// RUN: tandem-opt %s --canonicalize --cse --split-input-file | FileCheck %s

// A stream after itself is nothing, however it is named; nor is the same sync twice.
// CHECK-LABEL: hostir.program @syncs
hostir.program @syncs(%a: memref<4xf32>, %b: memref<4xf32>) {
  %main = hostir.main_stream
  %again = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = hostir.worker_stream %c0
  %t = hostir.worker_stream %c1
  // CHECK-DAG: %[[MAIN:.*]] = hostir.main_stream
  // CHECK-DAG: %[[S:.*]] = hostir.worker_stream %c0
  // CHECK-DAG: %[[T:.*]] = hostir.worker_stream %c1
  hostir.sync %main after %main
  hostir.sync %main after %again
  // CHECK: hostir.sync %[[S]] after %[[MAIN]]
  // CHECK-NEXT: hostir.copy
  hostir.sync %s after %main
  %u = hostir.worker_stream %c0
  hostir.sync %u after %again
  hostir.copy %a to %b on %s : memref<4xf32> to memref<4xf32>
  // Something has been issued since: kept. So are syncs of other streams.
  // CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
  // CHECK-NEXT: hostir.sync %[[T]] after %[[MAIN]]
  // CHECK-NEXT: hostir.sync %[[MAIN]] after %[[T]]
  // CHECK-NEXT: hostir.sync %[[S]] after %[[MAIN]]
  hostir.sync %s after %main
  hostir.sync %t after %main
  hostir.sync %main after %t
  hostir.sync %s after %main
}

// -----

// Two workers of different numbers may be one stream, or not: kept.
// CHECK-LABEL: hostir.program @unknown_workers
hostir.program @unknown_workers() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  scf.for %i = %c0 to %c9 step %c1 {
    %j = arith.addi %i, %c1 : index
    %s = hostir.worker_stream %i
    %t = hostir.worker_stream %j
    // CHECK: hostir.sync
    hostir.sync %s after %t
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Where a device of one mesh stands in another: known for a constant, and in the same mesh.
// CHECK-LABEL: hostir.program @positions
// CHECK-DAG: %[[ME:.*]] = hostir.device_index #part, "x"
// CHECK-DAG: %[[THERE:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[NOWHERE:.*]] = arith.constant -1 : index
// CHECK-DAG: %[[KEPT:.*]] = hostir.translate_position %[[ME]] from #part to #tp
// CHECK: hostir.worker_stream %[[THERE]]
// CHECK: hostir.worker_stream %[[NOWHERE]]
// CHECK: hostir.worker_stream %[[KEPT]]
// CHECK: hostir.worker_stream %[[ME]]
#part = #tandem.mesh<"part", ["x" = 2], devices = [5, 3]>
hostir.program @positions() {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %me = hostir.device_index #part, "x"
  %there = hostir.translate_position %c1 from #part to #tp
  %nowhere = hostir.translate_position %c0 from #part to #tp
  %kept = hostir.translate_position %me from #part to #tp
  %same = hostir.translate_position %me from #part to #part
  %s0 = hostir.worker_stream %there
  %s1 = hostir.worker_stream %nowhere
  %s2 = hostir.worker_stream %kept
  %s3 = hostir.worker_stream %same
  hostir.sync %s0 after %main
  hostir.sync %s1 after %main
  hostir.sync %s2 after %main
  hostir.sync %s3 after %main
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// What has a result that nobody uses goes; what says who or where is merged.
// CHECK-LABEL: hostir.program @pure
hostir.program @pure(%a: memref<3xf32>, %b: memref<3xf32>) {
  // CHECK-NOT: hostir.alloc
  // CHECK-NOT: hostir.in_mesh
  // CHECK:     hostir.channel "a"
  // CHECK-NOT: hostir.channel
  %main = hostir.main_stream
  %unused = hostir.alloc on %main : memref<4xf32>
  %in = hostir.in_mesh #tp
  %x = hostir.channel "a" over #tp ["x"] can [collectives]
  %y = hostir.channel "a" over #tp ["x"] can [collectives]
  %z = hostir.channel "z" over #tp ["x"] can [collectives]
  // CHECK: hostir.collective all_reduce %{{.*}} via %[[CH:.*]] on
  // CHECK: hostir.collective all_reduce %{{.*}} via %[[CH]] on
  hostir.collective all_reduce %a to %b via %x on %main : memref<3xf32> to memref<3xf32>
  hostir.collective all_reduce %a to %b via %y on %main : memref<3xf32> to memref<3xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

hostir.kernel @same(%a: f32) -> f32 {
  hostir.yield %a : f32
}

// No command is deleted, merged or moved, be its result read or not.
// CHECK-LABEL: hostir.program @commands
hostir.program @commands(%a: memref<2x2xf32>, %p: memref<2x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided, one_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  // CHECK: hostir.alloc
  // CHECK: hostir.alloc
  %x = hostir.alloc on %main : memref<2x2xf32>
  %y = hostir.alloc on %main : memref<2x2xf32>
  scf.for %i = %c0 to %c2 step %c1 {
    // CHECK: scf.for
    // CHECK-NEXT: hostir.copy
    // CHECK-NEXT: hostir.copy
    // CHECK-NEXT: hostir.matmul
    // CHECK-NEXT: hostir.accumulate
    // CHECK-NEXT: hostir.launch
    // CHECK-NEXT: hostir.group
    // CHECK-NEXT:   hostir.send
    // CHECK-NEXT:   hostir.send
    // CHECK-NEXT:   hostir.recv
    // CHECK-NEXT: }
    // CHECK-NEXT: hostir.put
    // CHECK-NEXT: hostir.put
    // CHECK-NEXT: hostir.signal
    // CHECK-NEXT: hostir.signal
    // CHECK-NEXT: hostir.wait_signal
    // CHECK-NEXT: hostir.wait_signal
    // CHECK-NEXT: }
    hostir.copy %a to %x on %main : memref<2x2xf32> to memref<2x2xf32>
    hostir.copy %a to %x on %main : memref<2x2xf32> to memref<2x2xf32>
    hostir.matmul %x, %x to %y on %main : memref<2x2xf32>, memref<2x2xf32> to memref<2x2xf32>
    hostir.accumulate sum %x into %y on %main : memref<2x2xf32> to memref<2x2xf32>
    hostir.launch @same ins(%x : memref<2x2xf32>) outs(%y : memref<2x2xf32>) on %main
    hostir.group via %ch on %main {
      hostir.send %a to %c1 : memref<2x2xf32>
      hostir.send %a to %c1 : memref<2x2xf32>
      hostir.recv %x from %c1 : memref<2x2xf32>
    }
    hostir.put %a to %p at %c1 via %ch on %main : memref<2x2xf32> to memref<2x2xf32, #hostir.symmetric>
    hostir.put %a to %p at %c1 via %ch on %main : memref<2x2xf32> to memref<2x2xf32, #hostir.symmetric>
    hostir.signal %c1 = %c1 at %c1 via %ch on %main
    hostir.signal %c1 = %c1 at %c1 via %ch on %main
    hostir.wait_signal %c1 >= %c1 via %ch on %main
    hostir.wait_signal %c1 >= %c1 via %ch on %main
  }
  // CHECK: hostir.dealloc
  hostir.dealloc %x on %main : memref<2x2xf32>
}
