// RUN: tandem-opt %s --hostir-fuse-epilogues | FileCheck %s
// RUN: tandem-opt %s --hostir-fuse-epilogues=log 2>&1 >/dev/null | FileCheck %s --check-prefix=LOG

hostir.kernel private @relu(%a: f32) -> f32 {
  %0 = arith.constant 0.0 : f32
  %1 = arith.maximumf %a, %0 : f32
  hostir.yield %1 : f32
}
hostir.kernel private @addf(%a: f32, %b: f32) -> f32 {
  %0 = arith.addf %a, %b : f32
  hostir.yield %0 : f32
}
hostir.kernel private @narrow(%a: f32) -> bf16 {
  %0 = arith.truncf %a : f32 to bf16
  hostir.yield %0 : bf16
}

// The product is written to the result. What the matmul reads lives on until then.

// CHECK-LABEL: hostir.program @result(
// CHECK-SAME: %[[X:[^:]+]]: memref<8x4xf32>, %[[W:[^:]+]]: memref<4x8xf32>, %[[Y:[^:]+]]: memref<16x8xf32>
// CHECK: %[[IN:.+]] = hostir.alloc
// CHECK-NEXT: hostir.copy %[[X]] to %[[IN]]
// CHECK-NOT: hostir.alloc
// CHECK: %[[ROWS:.+]] = memref.subview %[[Y]]
// CHECK-NEXT: hostir.matmul %[[IN]], %[[W]] to %[[ROWS]]
// CHECK-NEXT: hostir.launch @relu ins(%[[ROWS]] : {{.*}}) outs(%[[ROWS]] :
// CHECK-NEXT: hostir.dealloc %[[IN]]
// CHECK-NEXT: }
// LOG: remark: hostir-fuse-epilogues: @relu computes in place
hostir.program @result(%x: memref<8x4xf32>, %w: memref<4x8xf32>, %y: memref<16x8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %in = hostir.alloc on %s : memref<8x4xf32>
  hostir.copy %x to %in on %s : memref<8x4xf32> to memref<8x4xf32>
  %t = hostir.alloc on %s : memref<8x8xf32>
  hostir.matmul %in, %w to %t on %s : memref<8x4xf32>, memref<4x8xf32> to memref<8x8xf32>
  hostir.dealloc %in on %s : memref<8x4xf32>
  %rows = memref.subview %y[8, 0] [8, 8] [1, 1] : memref<16x8xf32> to memref<8x8xf32, strided<[8, 1], offset: 64>>
  hostir.launch @relu ins(%t : memref<8x8xf32>) outs(%rows : memref<8x8xf32, strided<[8, 1], offset: 64>>) on %s
  hostir.dealloc %t on %s : memref<8x8xf32>
}

// None of these: another op reads the product; a command between; the residual is overwritten; the matmul reads the
// launch's output; another type; columns one after the other; another stream; the matmul adds to a sum.

// CHECK-LABEL: hostir.program @kept(
// CHECK: hostir.matmul {{.*}} to %[[READ:.+]] on
// CHECK-NEXT: hostir.launch @relu ins(%[[READ]] :
// CHECK: hostir.matmul {{.*}} to %[[APART:.+]] on
// CHECK-NEXT: hostir.copy
// CHECK-NEXT: hostir.launch @relu ins(%[[APART]] :
// CHECK: hostir.matmul {{.*}} to %[[ADDED:.+]] on
// CHECK-NEXT: hostir.launch @addf ins(%[[ADDED]], %[[OVER:.+]] : {{.*}}) outs(%[[OVER]] :
// CHECK: hostir.matmul %[[FROM:.+]], %{{.+}} to %[[BACK:.+]] on
// CHECK-NEXT: hostir.launch @relu ins(%[[BACK]] : {{.*}}) outs(%[[FROM]] :
// CHECK: hostir.matmul {{.*}} to %[[WIDE:.+]] on
// CHECK-NEXT: hostir.launch @narrow ins(%[[WIDE]] :
// CHECK: hostir.matmul {{.*}} to %[[TURNED:.+]] on
// CHECK: hostir.launch @relu ins(%[[TURNED]] :
// CHECK: hostir.matmul {{.*}} to %[[OTHER:.+]] on
// CHECK: hostir.launch @relu ins(%[[OTHER]] :
// CHECK: hostir.matmul {{.*}} to %[[SUM:.+]] on %{{.+}} {accumulate}
// CHECK-NEXT: hostir.launch @relu ins(%[[SUM]] :
// LOG-NOT: remark
!m = memref<8x8xf32>
hostir.program @kept(%x: !m, %w: !m, %y: !m {hostir.result}, %z: !m {hostir.result}, %n: memref<8x8xbf16> {hostir.result}) {
  %s = hostir.main_stream
  %c0 = arith.constant 0 : index
  %o = hostir.worker_stream %c0
  %a = hostir.alloc on %s : !m
  hostir.matmul %x, %w to %a on %s : !m, !m to !m
  hostir.launch @relu ins(%a : !m) outs(%y : !m) on %s
  hostir.copy %a to %z on %s : !m to !m
  %b = hostir.alloc on %s : !m
  hostir.matmul %x, %w to %b on %s : !m, !m to !m
  hostir.copy %x to %z on %s : !m to !m
  hostir.launch @relu ins(%b : !m) outs(%y : !m) on %s
  %c = hostir.alloc on %s : !m
  hostir.matmul %x, %w to %c on %s : !m, !m to !m
  hostir.launch @addf ins(%c, %z : !m, !m) outs(%z : !m) on %s
  %d = hostir.alloc on %s : !m
  hostir.matmul %z, %w to %d on %s : !m, !m to !m
  hostir.launch @relu ins(%d : !m) outs(%z : !m) on %s
  %e = hostir.alloc on %s : !m
  hostir.matmul %x, %w to %e on %s : !m, !m to !m
  hostir.launch @narrow ins(%e : !m) outs(%n : memref<8x8xbf16>) on %s
  %f = hostir.alloc on %s : !m
  hostir.matmul %x, %w to %f on %s : !m, !m to !m
  %turned = memref.transpose %y (i, j) -> (j, i) : !m to memref<8x8xf32, strided<[1, 8]>>
  hostir.launch @relu ins(%f : !m) outs(%turned : memref<8x8xf32, strided<[1, 8]>>) on %s
  %g = hostir.alloc on %s : !m
  hostir.matmul %x, %w to %g on %o : !m, !m to !m
  hostir.launch @relu ins(%g : !m) outs(%y : !m) on %s
  %h = hostir.alloc on %s : !m
  hostir.copy %x to %h on %s : !m to !m
  hostir.matmul %x, %w to %h on %s {accumulate} : !m, !m to !m
  hostir.launch @relu ins(%h : !m) outs(%y : !m) on %s
}

// Behind a gated matmul, on its whole result. The launch's output begins before the parts.

// CHECK-LABEL: hostir.program @gated(
// CHECK: %[[OUT:.+]] = hostir.alloc on %{{.+}} : memref<16x8xf32>
// CHECK-NEXT: hostir.gated_matmul
// CHECK: %[[FIRST:.+]] = memref.subview %[[OUT]]
// CHECK-NEXT: hostir.matmul {{.*}} to %[[FIRST]]
// CHECK: %[[SECOND:.+]] = memref.subview %[[OUT]]
// CHECK-NEXT: hostir.matmul {{.*}} to %[[SECOND]]
// CHECK: hostir.launch @relu ins(%[[OUT]] : {{.*}}) outs(%[[OUT]] :
// CHECK-NEXT: hostir.copy %[[OUT]]
// LOG: remark: hostir-fuse-epilogues: @relu computes in place
hostir.program @gated(%x: memref<16x4xf32>, %w: memref<4x8xf32>, %y: memref<16x8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %t = hostir.alloc on %s : memref<16x8xf32>
  hostir.gated_matmul on %s reserve 0 {
    %a = memref.subview %x[0, 0] [8, 4] [1, 1] : memref<16x4xf32> to memref<8x4xf32, strided<[4, 1]>>
    %c = memref.subview %t[0, 0] [8, 8] [1, 1] : memref<16x8xf32> to memref<8x8xf32, strided<[8, 1]>>
    hostir.matmul %a, %w to %c on %s : memref<8x4xf32, strided<[4, 1]>>, memref<4x8xf32> to memref<8x8xf32, strided<[8, 1]>>
    %b = memref.subview %x[8, 0] [8, 4] [1, 1] : memref<16x4xf32> to memref<8x4xf32, strided<[4, 1], offset: 32>>
    %d = memref.subview %t[8, 0] [8, 8] [1, 1] : memref<16x8xf32> to memref<8x8xf32, strided<[8, 1], offset: 64>>
    hostir.matmul %b, %w to %d on %s : memref<8x4xf32, strided<[4, 1], offset: 32>>, memref<4x8xf32> to memref<8x8xf32, strided<[8, 1], offset: 64>>
  }
  %o = hostir.alloc on %s : memref<16x8xf32>
  hostir.launch @relu ins(%t : memref<16x8xf32>) outs(%o : memref<16x8xf32>) on %s
  hostir.dealloc %t on %s : memref<16x8xf32>
  hostir.copy %o to %y on %s : memref<16x8xf32> to memref<16x8xf32>
  hostir.dealloc %o on %s : memref<16x8xf32>
}
