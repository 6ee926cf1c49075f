// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s --mlir-print-op-generic | tandem-opt | FileCheck %s
// RUN: tandem-opt %s --emit-bytecode | tandem-opt | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 4]>
#one = #tandem.mesh<"one", []>

// CHECK-LABEL: hostir.kernel @residual(%{{.*}}: f32, %{{.*}}: f32) -> f32 {
// CHECK:         arith.addf
// CHECK-NEXT:    hostir.yield %{{.*}} : f32
hostir.kernel @residual(%a: f32, %b: f32) -> f32 {
  %0 = arith.addf %a, %b : f32
  hostir.yield %0 : f32
}

// CHECK-LABEL: hostir.kernel @shifted(
hostir.kernel @shifted(%a: f32, %m: f32, %s: f32) -> f32 {
  // CHECK: hostir.exp_difference %{{.*}}, %{{.*}} scale %{{.*}} : f32
  %0 = hostir.exp_difference %a, %m scale %s : f32
  hostir.yield %0 : f32
}

// CHECK: hostir.kernel private @two(%{{.*}}: i32) -> (i32, i32) {
hostir.kernel private @two(%a: i32) -> (i32, i32) {
  hostir.yield %a, %a : i32, i32
}

// The default number of workers is not printed, any other is.
// CHECK-LABEL: hostir.program @empty() {
// CHECK-NEXT:  }
hostir.program @empty() attributes {workers = 4 : i64} {
}

// CHECK: hostir.program private @attributes
// CHECK-SAME: (%{{.*}}: memref<2x3xf32> {hostir.name = "x", hostir.type = tensor<8x3xf32, #fusion.axes<#tp, [didx("x"), -]>>},
// CHECK-SAME:  %{{.*}}: memref<5xbf16, #hostir.symmetric> {hostir.name = "s"}, %{{.*}}: memref<8x3xf32> {hostir.result})
// CHECK-SAME: attributes {arena_bytes = 128 : i64, reference_of = @empty, symmetric_bytes = 0 : i64, workers = 2 : i64} {
hostir.program private @attributes(
    %x: memref<2x3xf32> {hostir.name = "x", hostir.type = tensor<8x3xf32, #fusion.axes<#tp, [didx("x"), -]>>},
    %s: memref<5xbf16, #hostir.symmetric> {hostir.name = "s"},
    %r: memref<8x3xf32> {hostir.result})
    attributes {workers = 2 : i64, reference_of = @empty, arena_bytes = 128 : i64, symmetric_bytes = 0 : i64} {
}

// CHECK-LABEL: hostir.program @who
hostir.program @who() {
  // CHECK: hostir.device_index #pod, "gpu"
  %gpu = hostir.device_index #pod, "gpu"
  // CHECK: hostir.in_mesh #tp
  %in = hostir.in_mesh #tp
  // CHECK: hostir.translate_position %{{.*}} from #pod to #tp
  %there = hostir.translate_position %gpu from #pod to #tp
  // CHECK: hostir.channel "gather" over #tp ["x"] can [two_sided]
  %a = hostir.channel "gather" over #tp ["x"] can [two_sided]
  // CHECK: hostir.channel "both" over #pod ["gpu", "node"] can [one_sided, collectives] link "network"
  %b = hostir.channel "both" over #pod ["gpu", "node"] can [one_sided, collectives] link "network"
  // CHECK: hostir.channel "alone" over #one [] can [two_sided]
  %c = hostir.channel "alone" over #one [] can [two_sided]
}

// CHECK-LABEL: hostir.program @streams
hostir.program @streams(%x: memref<16x32xf32>, %y: memref<16x32xf32> {hostir.result}) {
  // CHECK: %[[MAIN:.*]] = hostir.main_stream
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  // CHECK: %[[S:.*]] = hostir.worker_stream %{{.*}}
  %s = hostir.worker_stream %c1
  // CHECK: hostir.sync %[[S]] after %[[MAIN]]
  hostir.sync %s after %main
  // CHECK: %[[B:.*]] = hostir.alloc on %[[S]] : memref<16x32xf32>
  %b = hostir.alloc on %s : memref<16x32xf32>
  // CHECK: hostir.alloc on %[[S]] {offset = 64 : i64, pitch = 128 : i64} : memref<4xi32, #hostir.symmetric>
  %c = hostir.alloc on %s {offset = 64 : i64, pitch = 128 : i64} : memref<4xi32, #hostir.symmetric>
  // CHECK: hostir.copy %{{.*}} to %[[B]] on %[[S]] : memref<16x32xf32> to memref<16x32xf32>
  hostir.copy %x to %b on %s : memref<16x32xf32> to memref<16x32xf32>
  %v = memref.subview %b[0, 1] [16, 2] [1, 3] : memref<16x32xf32> to memref<16x2xf32, strided<[32, 3], offset: 1>>
  %w = memref.subview %y[0, 0] [16, 2] [1, 1] : memref<16x32xf32> to memref<16x2xf32, strided<[32, 1]>>
  // CHECK: hostir.copy %{{.*}} : memref<16x2xf32, strided<[32, 3], offset: 1>> to memref<16x2xf32, strided<[32, 1]>>
  hostir.copy %v to %w on %s
      : memref<16x2xf32, strided<[32, 3], offset: 1>> to memref<16x2xf32, strided<[32, 1]>>
  // CHECK: hostir.dealloc %[[B]] on %[[S]] : memref<16x32xf32>
  hostir.dealloc %b on %s : memref<16x32xf32>
}

// CHECK-LABEL: hostir.program @communication
hostir.program @communication(%a: memref<3xf32>, %g: memref<4x3xf32>, %p: memref<3xf32, #hostir.symmetric>,
                              %h: memref<4x3xf32>) {
  %s = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided, one_sided, collectives]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: hostir.collective all_gather %{{.*}} to %{{.*}} via %{{.*}} on %{{.*}} : memref<3xf32> to memref<4x3xf32>
  hostir.collective all_gather %a to %g via %ch on %s : memref<3xf32> to memref<4x3xf32>
  // CHECK: hostir.collective all_reduce %{{.*}} {reduction = #tandem<reduce_kind max>} : memref<3xf32> to memref<3xf32>
  %b = hostir.alloc on %s : memref<3xf32>
  hostir.collective all_reduce %a to %b via %ch on %s {reduction = #tandem<reduce_kind max>}
      : memref<3xf32> to memref<3xf32>
  // CHECK: hostir.collective reduce_scatter %{{.*}} : memref<4x3xf32> to memref<3xf32>
  hostir.collective reduce_scatter %g to %a via %ch on %s : memref<4x3xf32> to memref<3xf32>
  // CHECK: hostir.collective all_to_all %{{.*}} : memref<4x3xf32> to memref<4x3xf32>
  hostir.collective all_to_all %g to %h via %ch on %s : memref<4x3xf32> to memref<4x3xf32>
  // CHECK: hostir.collective broadcast %{{.*}} to %{{.*}} root %{{.*}} via %{{.*}} on %{{.*}} : memref<3xf32> to memref<3xf32>
  hostir.collective broadcast %a to %b root %c1 via %ch on %s : memref<3xf32> to memref<3xf32>
  // CHECK: hostir.collective reduce %{{.*}} root
  hostir.collective reduce %a to %b root %c0 via %ch on %s {reduction = #tandem<reduce_kind min>}
      : memref<3xf32> to memref<3xf32>
  // CHECK: hostir.collective gather %{{.*}} root
  hostir.collective gather %a to %g root %c0 via %ch on %s : memref<3xf32> to memref<4x3xf32>
  // CHECK: hostir.collective scatter %{{.*}} root
  hostir.collective scatter %g to %a root %c0 via %ch on %s : memref<4x3xf32> to memref<3xf32>
  // CHECK: hostir.group via %{{.*}} on %{{.*}} {
  // CHECK:   hostir.recv %{{.*}} from %{{.*}} : memref<3xf32>
  // CHECK:   hostir.send %{{.*}} to %{{.*}} : memref<3xf32>
  // CHECK: }
  hostir.group via %ch on %s {
    hostir.recv %b from %c0 : memref<3xf32>
    hostir.send %a to %c1 : memref<3xf32>
  }
  // CHECK: hostir.put %{{.*}} to %{{.*}} at %{{.*}} via %{{.*}} on %{{.*}} : memref<3xf32> to memref<3xf32, #hostir.symmetric>
  hostir.put %a to %p at %c1 via %ch on %s : memref<3xf32> to memref<3xf32, #hostir.symmetric>
  // CHECK: hostir.signal %{{.*}} = %{{.*}} at %{{.*}} via %{{.*}} on %{{.*}}
  hostir.signal %c0 = %c1 at %c1 via %ch on %s
  // CHECK: hostir.wait_signal %{{.*}} >= %{{.*}} via %{{.*}} on %{{.*}}
  hostir.wait_signal %c0 >= %c1 via %ch on %s
  // CHECK: hostir.peer_exchange one_shot_all_reduce %{{.*}} to %{{.*}} scratch %{{.*}} slot 0 blocks 2 protocol ll via %{{.*}} on %{{.*}} : memref<3xf32> to memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
  %scratch = hostir.alloc on %s : memref<4x3xf32, #hostir.symmetric>
  hostir.peer_exchange one_shot_all_reduce %a to %b scratch %scratch slot 0 blocks 2 protocol ll via %ch on %s
      : memref<3xf32> to memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
  // CHECK: hostir.peer_exchange reduce_scatter {{.*}} slot 4 blocks 1 via %{{.*}} {reduction = #tandem<reduce_kind max>}
  hostir.peer_exchange reduce_scatter %g to %a scratch %scratch slot 4 blocks 1 via %ch on %s {reduction = #tandem<reduce_kind max>}
      : memref<4x3xf32> to memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
  // CHECK: hostir.peer_exchange all_gather %{{.*}}, %{{.*}} to %{{.*}}, %{{.*}} copies %{{.*}}, %{{.*}} slot 8 blocks 1 protocol block via
  %scratch2 = hostir.alloc on %s : memref<4x3xf32, #hostir.symmetric>
  hostir.peer_exchange all_gather %a, %b to %scratch, %scratch2 copies %g, %h slot 8 blocks 1 protocol block via %ch on %s
      : memref<3xf32>, memref<3xf32> to memref<4x3xf32, #hostir.symmetric>, memref<4x3xf32, #hostir.symmetric>
      copies memref<4x3xf32>, memref<4x3xf32>
  // CHECK: hostir.peer_exchange two_shot_all_reduce %{{.*}} to %{{.*}} scratch %{{.*}} cut 1 slot 12 blocks 1 via
  %row = hostir.alloc on %s : memref<3x4xf32>
  %sum = hostir.alloc on %s : memref<3x4xf32, #hostir.symmetric>
  %parts = hostir.alloc on %s : memref<4x3x1xf32, #hostir.symmetric>
  hostir.peer_exchange two_shot_all_reduce %row to %sum scratch %parts cut 1 slot 12 blocks 1 via %ch on %s
      : memref<3x4xf32> to memref<3x4xf32, #hostir.symmetric> scratch memref<4x3x1xf32, #hostir.symmetric>
  // CHECK: hostir.peer_exchange put_all %{{.*}} to %{{.*}} slot 20 value %{{.*}} blocks 4 via %{{.*}} on %{{.*}} : memref<3xf32> to memref<3xf32, #hostir.symmetric>
  hostir.peer_exchange put_all %a to %p slot 20 value %c1 blocks 4 via %ch on %s : memref<3xf32> to memref<3xf32, #hostir.symmetric>
}

// CHECK-LABEL: hostir.program @compute
hostir.program @compute(%a: memref<2x16x32xf16>, %w: memref<32x8xf16>, %v: memref<8xf16>, %y: memref<2x16x8xf16>,
                        %t: memref<2x8x16xf16>, %rows: memref<16x32xf16>, %few: memref<16x8xf16>) {
  %s = hostir.main_stream
  // CHECK: hostir.matmul %{{.*}}, %{{.*}} to %{{.*}} on %{{.*}} : memref<2x16x32xf16>, memref<32x8xf16> to memref<2x16x8xf16>
  hostir.matmul %a, %w to %y on %s : memref<2x16x32xf16>, memref<32x8xf16> to memref<2x16x8xf16>
  // CHECK: hostir.matmul %{{.*}}, %{{.*}} bias %{{.*}} to %{{.*}} on %{{.*}} {accumulate} : memref<2x16x32xf16>, memref<32x8xf16>, memref<8xf16> to memref<2x16x8xf16>
  hostir.matmul %a, %w bias %v to %y on %s {accumulate}
      : memref<2x16x32xf16>, memref<32x8xf16>, memref<8xf16> to memref<2x16x8xf16>
  // CHECK: hostir.gated_matmul on %{{.*}} reserve 2 {
  // CHECK-NEXT: hostir.matmul %{{.*}}, %{{.*}} to %{{.*}} on %{{.*}} : memref<16x32xf16>, memref<32x8xf16> to memref<16x8xf16>
  // CHECK-NEXT: }
  hostir.gated_matmul on %s reserve 2 {
    hostir.matmul %rows, %w to %few on %s : memref<16x32xf16>, memref<32x8xf16> to memref<16x8xf16>
  }
  %one = arith.constant 1 : index
  %ch = hostir.channel "stores" over #tp ["x"] can [one_sided]
  %place = hostir.alloc on %s : memref<16x8xf16, #hostir.symmetric>
  %staged = hostir.alloc on %s : memref<16x8xf16>
  // CHECK: hostir.gated_matmul on %{{.*}} reserve 0 {
  // CHECK-NEXT: hostir.matmul
  // CHECK-NEXT: hostir.put %{{.*}} to %{{.*}} at %{{.*}} via %{{.*}} on %{{.*}} : memref<16x8xf16> to memref<16x8xf16, #hostir.symmetric>
  // CHECK-NEXT: hostir.signal
  // CHECK-NEXT: }
  hostir.gated_matmul on %s reserve 0 {
    hostir.matmul %rows, %w to %staged on %s : memref<16x32xf16>, memref<32x8xf16> to memref<16x8xf16>
    hostir.put %staged to %place at %one via %ch on %s : memref<16x8xf16> to memref<16x8xf16, #hostir.symmetric>
    hostir.signal %one = %one at %one via %ch on %s
  }
  hostir.dealloc %staged on %s : memref<16x8xf16>
  // CHECK: hostir.matmul {{.*}} {transpose_a, transpose_b}
  hostir.matmul %w, %a to %t on %s {transpose_a, transpose_b}
      : memref<32x8xf16>, memref<2x16x32xf16> to memref<2x8x16xf16>
  %z = hostir.alloc on %s : memref<16x8xf16>
  // CHECK: hostir.reduce sum %{{.*}} to %{{.*}} dims [0] on %{{.*}} : memref<2x16x8xf16> to memref<16x8xf16>
  hostir.reduce sum %y to %z dims [0] on %s : memref<2x16x8xf16> to memref<16x8xf16>
  // CHECK: hostir.accumulate max %{{.*}} into %{{.*}} on %{{.*}} : memref<16x8xf16> to memref<16x8xf16>
  hostir.accumulate max %z into %z on %s : memref<16x8xf16> to memref<16x8xf16>
}

// CHECK-LABEL: hostir.program @launches
hostir.program @launches(%a: memref<16xf32>, %i: memref<4xi32>, %j: memref<4xi32>, %k: memref<4xi32>) {
  %s = hostir.main_stream
  %c = hostir.alloc on %s : memref<16xf32>
  // CHECK: hostir.launch @residual ins(%{{.*}}, %{{.*}} : memref<16xf32>, memref<16xf32>) outs(%{{.*}} : memref<16xf32>) on %{{.*}}
  hostir.launch @residual ins(%a, %a : memref<16xf32>, memref<16xf32>) outs(%c : memref<16xf32>) on %s
  // CHECK: hostir.launch @two ins(%{{.*}} : memref<4xi32>) outs(%{{.*}}, %{{.*}} : memref<4xi32>, memref<4xi32>) on %{{.*}}
  hostir.launch @two ins(%i : memref<4xi32>) outs(%j, %k : memref<4xi32>, memref<4xi32>) on %s
}

// CHECK-LABEL: hostir.program @calls
hostir.program @calls(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>, %r: memref<4x4xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // CHECK: hostir.call "rms_norm" ins(%{{.*}}, %{{.*}} : memref<4x16xf32>, memref<16xf32>) outs(%{{.*}} : memref<4x16xf32>) dims [0, -1, 0, -1, -1] at[%{{.*}}] of [32] on %{{.*}} {config = "eps"}
  hostir.call "rms_norm" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [0, -1, 0, -1, -1] at [%c8] of [32] on %s {config = "eps"}
  // CHECK: hostir.call "two" outs(%{{.*}}, %{{.*}} : memref<4x16xf32>, memref<4x4xf32>) dims [0, -1, 0, -1] at[%{{.*}}] of [32] on %{{.*}} {effects = "reads"}
  hostir.call "two" outs(%y, %r : memref<4x16xf32>, memref<4x4xf32>) dims [0, -1, 0, -1] at [%c8] of [32] on %s
      {effects = "reads"}
  // CHECK: hostir.call "zeros" outs(%{{.*}} : memref<4x4xf32, strided<[16, 1]>>) dims [-1, -1] at[] of [] on %{{.*}} {bytes = 6.400000e+01 : f64, flops = 2.000000e+00 : f64, strided}
  %v = memref.subview %y[0, 0] [4, 4] [1, 1] : memref<4x16xf32> to memref<4x4xf32, strided<[16, 1]>>
  hostir.call "zeros" outs(%v : memref<4x4xf32, strided<[16, 1]>>) dims [-1, -1] at[] of [] on %s
      {bytes = 64.0, flops = 2.0, strided}
}
