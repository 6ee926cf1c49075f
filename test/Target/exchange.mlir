// RUN: tandem-compile %s --dump --rank=0 | FileCheck %s
// RUN: tandem-compile %s --dump --rank=2 | FileCheck %s --check-prefix=RANK2

// A program whose text is one for all ranks becomes one list a rank: loops are gone, peers, places and tags are numbers.

#tp = #tandem.mesh<"tp", ["x" = 3]>

// CHECK: stream program @exchange version 6 ranks 3 target "cpu-ucx" capabilities two_sided
// CHECK: argument arg0 input "shard" f32[3,4] axes [didx("x"), -] mesh @tp["x" = 3]
// CHECK: program @exchange rank 0 of 3
// CHECK-NEXT: streams 3, events 4, arena 0, symmetric 2x0, signals [], commands 15
// CHECK-NEXT: argument arg0 input "shard" f32[3,4] axes [didx("x"), -] local [1,4] shard 0+[1,4]:[4,1]
// CHECK-NEXT: argument arg1 result "gathered" f32[3,4] axes [-, -] local [3,4] shard 0+[3,4]:[4,1]
// CHECK-NEXT: channel c0 "ch" two_sided link "node" group [0,1,2] self 0
// CHECK-NEXT: 0 s0 copy arg1:f32[1,4] <- arg0:f32[1,4] bytes 16 "copy #0" loc "{{.*}}exchange.mlir:[[#]]:3"
// CHECK-NEXT: 1 s0 record e0 "sync #0"
// CHECK-NEXT: 2 s1 wait e0 "sync #0"
// CHECK-NEXT: 3 s1 group c0 of 2 "group #0"
// CHECK-NEXT: 4 s1 recv c0 arg1+16:f32[1,4] from 1 tag 0 bytes 16 "recv #0"
// CHECK-NEXT: 5 s1 send c0 arg0:f32[1,4] to 2 tag 0 bytes 16 "send #0"
// CHECK-NEXT: 6 s1 record e1
// CHECK-NEXT: 7 s0 wait e1
// CHECK-NEXT: 8 s0 record e2
// CHECK-NEXT: 9 s2 wait e2
// CHECK-NEXT: 10 s2 group c0 of 2
// CHECK-NEXT: 11 s2 recv c0 arg1+32:f32[1,4] from 2 tag 0 bytes 16
// CHECK-NEXT: 12 s2 send c0 arg0:f32[1,4] to 1 tag 0 bytes 16
// CHECK-NEXT: 13 s2 record e3
// CHECK-NEXT: 14 s0 wait e3
// CHECK-NOT: 15

// RANK2: program @exchange rank 2 of 3
// RANK2: argument arg0 {{.*}} shard 8+[1,4]:[4,1]
// RANK2: group [0,1,2] self 2
// RANK2: recv c0 arg1:f32[1,4] from 0 tag 0
// RANK2: send c0 arg0:f32[1,4] to 1 tag 0
// RANK2: recv c0 arg1+16:f32[1,4] from 1 tag 0
// RANK2: send c0 arg0:f32[1,4] to 0 tag 0

hostir.program @exchange(
    %in: memref<1x4xf32> {hostir.name = "shard", hostir.type = tensor<3x4xf32, #fusion.axes<#tp, [didx("x"), -]>>},
    %out: memref<3x4xf32> {hostir.name = "gathered", hostir.result,
                           hostir.type = tensor<3x4xf32, #fusion.axes<#tp, [-, -]>>})
    attributes {workers = 3 : i64} {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided] link "node"
  %own = memref.subview %out[%me, 0] [1, 4] [1, 1] : memref<3x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
  hostir.copy %in to %own on %main : memref<1x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
  scf.for %i = %c1 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    %a = arith.addi %me, %i : index
    %from = arith.remui %a, %c3 : index
    %b = arith.addi %me, %c3 : index
    %c = arith.subi %b, %i : index
    %to = arith.remui %c, %c3 : index
    %slot = memref.subview %out[%from, 0] [1, 4] [1, 1] : memref<3x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
    hostir.group via %ch on %s {
      hostir.recv %slot from %from : memref<1x4xf32, strided<[4, 1], offset: ?>>
      hostir.send %in to %to : memref<1x4xf32>
    }
    hostir.sync %main after %s
  }
}
