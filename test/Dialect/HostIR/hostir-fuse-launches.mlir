// RUN: tandem-opt %s --split-input-file --hostir-fuse-launches | FileCheck %s
// RUN: tandem-opt %s --split-input-file --hostir-fuse-launches=log 2>&1 >/dev/null | FileCheck %s --check-prefix=LOG
// RUN: tandem-opt %s --split-input-file --hostir-fuse-launches=max-operands=3 | FileCheck %s --check-prefix=SMALL

// A chain and a diamond: one kernel, no buffers. Lives of what it reads end behind it.

// CHECK: hostir.kernel private @diamond.mulf_tanh_addf(%[[A:.+]]: f32) -> f32 {
// CHECK-NEXT: %[[M:.+]] = arith.mulf %[[A]], %[[A]]
// CHECK-NEXT: %[[T:.+]] = math.tanh %[[M]]
// CHECK-NEXT: %[[R:.+]] = arith.addf %[[T]], %[[M]]
// CHECK-NEXT: hostir.yield %[[R]]
// CHECK-NOT: hostir.kernel
// CHECK-LABEL: hostir.program @diamond(
// CHECK-SAME: %[[X:[^:]+]]: memref<4x8xf32>, %[[Y:[^:]+]]: memref<4x8xf32>
// CHECK: %[[IN:.+]] = hostir.alloc
// CHECK-NEXT: hostir.copy %{{.+}} to %[[IN]]
// CHECK-NEXT: hostir.launch @diamond.mulf_tanh_addf ins(%[[IN]] : {{.*}}) outs(%[[Y]] : memref<4x8xf32>)
// CHECK-NEXT: hostir.dealloc %[[IN]]
// CHECK-NEXT: }
// LOG: remark: hostir-fuse-launches: one launch of @diamond.mulf_tanh_addf in place of 3; 2 buffers are gone

// SMALL-LABEL: hostir.program @diamond(
// SMALL-COUNT-1: hostir.launch
hostir.kernel private @mulf(%a: f32, %b: f32) -> f32 {
  %0 = arith.mulf %a, %b : f32
  hostir.yield %0 : f32
}
hostir.kernel private @tanh(%a: f32) -> f32 {
  %0 = math.tanh %a : f32
  hostir.yield %0 : f32
}
hostir.kernel private @addf(%a: f32, %b: f32) -> f32 {
  %0 = arith.addf %a, %b : f32
  hostir.yield %0 : f32
}
hostir.program @diamond(%x: memref<4x8xf32>, %y: memref<4x8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %in = hostir.alloc on %s : memref<4x8xf32>
  hostir.copy %x to %in on %s : memref<4x8xf32> to memref<4x8xf32>
  %m = hostir.alloc on %s : memref<4x8xf32>
  hostir.launch @mulf ins(%in, %in : memref<4x8xf32>, memref<4x8xf32>) outs(%m : memref<4x8xf32>) on %s
  hostir.dealloc %in on %s : memref<4x8xf32>
  %t = hostir.alloc on %s : memref<4x8xf32>
  hostir.launch @tanh ins(%m : memref<4x8xf32>) outs(%t : memref<4x8xf32>) on %s
  hostir.launch @addf ins(%t, %m : memref<4x8xf32>, memref<4x8xf32>) outs(%y : memref<4x8xf32>) on %s
  hostir.dealloc %m on %s : memref<4x8xf32>
  hostir.dealloc %t on %s : memref<4x8xf32>
}

// -----

// What others read too is an output. Operands may be broadcast and transposed views; constants fuse.

// CHECK: hostir.kernel private @results.addf_negf(%{{.+}}: f32, %{{.+}}: f32) -> (f32, f32)
// CHECK-LABEL: hostir.program @results(
// CHECK-SAME: %[[X:[^:]+]]: memref<8x4xf32>, %[[B:[^:]+]]: memref<8xf32>, %[[H:[^:]+]]: memref<4x8xf32>
// CHECK-SAME: %[[Y:[^:]+]]: memref<4x8xf32>
// CHECK-DAG: %[[ROWS:.+]] = memref.reinterpret_cast %[[B]]
// CHECK-DAG: %[[XT:.+]] = memref.transpose %[[X]]
// CHECK: hostir.launch @results.addf_negf ins(%[[XT]], %[[ROWS]] : {{.*}}) outs(%[[H]], %[[Y]] :
// CHECK-NOT: hostir.launch
// LOG: one launch of @results.addf_negf in place of 2; 0 buffers are gone
hostir.kernel private @addf(%a: f32, %b: f32) -> f32 {
  %0 = arith.addf %a, %b : f32
  hostir.yield %0 : f32
}
hostir.kernel private @negf(%a: f32) -> f32 {
  %0 = arith.negf %a : f32
  hostir.yield %0 : f32
}
hostir.program @results(%x: memref<8x4xf32>, %b: memref<8xf32>, %h: memref<4x8xf32> {hostir.result},
                        %y: memref<4x8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %xt = memref.transpose %x (i, j) -> (j, i) : memref<8x4xf32> to memref<4x8xf32, strided<[1, 4]>>
  %rows = memref.reinterpret_cast %b to offset: [0], sizes: [4, 8], strides: [0, 1] : memref<8xf32> to memref<4x8xf32, strided<[0, 1]>>
  hostir.launch @addf ins(%xt, %rows : memref<4x8xf32, strided<[1, 4]>>, memref<4x8xf32, strided<[0, 1]>>) outs(%h : memref<4x8xf32>) on %s
  hostir.launch @negf ins(%h : memref<4x8xf32>) outs(%y : memref<4x8xf32>) on %s
}

// -----

// Per slice, on the iteration's stream; both places share the kernel. Views that take the same elements are one.

// CHECK: hostir.kernel private @slices.exp_negf
// CHECK-LABEL: hostir.program @slices(
// CHECK: hostir.launch @slices.exp_negf {{.*}} on %[[MAIN:.+]]
// CHECK: scf.for
// CHECK: %[[S:.+]] = hostir.worker_stream
// CHECK-NOT: hostir.alloc
// CHECK: hostir.launch @slices.exp_negf {{.*}} on %[[S]]
// CHECK-NEXT: }
hostir.kernel private @exp(%a: f32) -> f32 {
  %0 = math.exp %a : f32
  hostir.yield %0 : f32
}
hostir.kernel private @negf(%a: f32) -> f32 {
  %0 = arith.negf %a : f32
  hostir.yield %0 : f32
}
hostir.program @slices(%x: memref<4x8xf32>, %y: memref<4x8xf32> {hostir.result}, %z: memref<4x8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %whole = hostir.alloc on %main : memref<4x8xf32>
  hostir.launch @exp ins(%x : memref<4x8xf32>) outs(%whole : memref<4x8xf32>) on %main
  %same = memref.cast %whole : memref<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
  hostir.launch @negf ins(%same : memref<4x8xf32, strided<[8, 1]>>) outs(%y : memref<4x8xf32>) on %main
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    %in = memref.subview %x[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<1x8xf32, strided<[8, 1], offset: ?>>
    %out = memref.subview %z[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<1x8xf32, strided<[8, 1], offset: ?>>
    %t = hostir.alloc on %s : memref<1x8xf32>
    hostir.launch @exp ins(%in : memref<1x8xf32, strided<[8, 1], offset: ?>>) outs(%t : memref<1x8xf32>) on %s
    hostir.launch @negf ins(%t : memref<1x8xf32>) outs(%out : memref<1x8xf32, strided<[8, 1], offset: ?>>) on %s
    hostir.dealloc %t on %s : memref<1x8xf32>
  }
}

// -----

// In place is fine: each element is read before it is written. A kernel that computes a constant joins.

// CHECK-LABEL: hostir.program @in_place(
// CHECK: hostir.launch @in_place.addf_mulf ins(%[[X:.+]], %{{.+}} : {{.*}}) outs(%[[X]] :
// CHECK-NEXT: hostir.copy
hostir.kernel private @two() -> f32 {
  %0 = arith.constant 2.0 : f32
  hostir.yield %0 : f32
}
hostir.kernel private @addf(%a: f32, %b: f32) -> f32 {
  %0 = arith.addf %a, %b : f32
  hostir.yield %0 : f32
}
hostir.kernel private @mulf(%a: f32, %b: f32) -> f32 {
  %0 = arith.mulf %a, %b : f32
  hostir.yield %0 : f32
}
hostir.program @in_place(%a: memref<8xf32>, %b: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %x = hostir.alloc on %s : memref<8xf32>
  hostir.copy %a to %x on %s : memref<8xf32> to memref<8xf32>
  %c = hostir.alloc on %s : memref<8xf32>
  hostir.launch @two outs(%c : memref<8xf32>) on %s
  %t = hostir.alloc on %s : memref<8xf32>
  hostir.launch @addf ins(%x, %b : memref<8xf32>, memref<8xf32>) outs(%t : memref<8xf32>) on %s
  hostir.launch @mulf ins(%t, %c : memref<8xf32>, memref<8xf32>) outs(%x : memref<8xf32>) on %s
  hostir.copy %x to %y on %s : memref<8xf32> to memref<8xf32>
}

// -----

// A reference stays as it is.

// CHECK-LABEL: hostir.program @reference(
// CHECK-COUNT-2: hostir.launch @negf
hostir.kernel private @negf(%a: f32) -> f32 {
  %0 = arith.negf %a : f32
  hostir.yield %0 : f32
}
hostir.program @entry(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  hostir.launch @negf ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) on %s
}
hostir.program @reference(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) attributes {reference_of = @entry} {
  %s = hostir.main_stream
  %t = hostir.alloc on %s : memref<8xf32>
  hostir.launch @negf ins(%x : memref<8xf32>) outs(%t : memref<8xf32>) on %s
  hostir.launch @negf ins(%t : memref<8xf32>) outs(%y : memref<8xf32>) on %s
}
