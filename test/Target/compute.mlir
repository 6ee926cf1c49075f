// RUN: tandem-compile %s --dump | FileCheck %s

// What computes. Names say the operation's kind, which of them it is, and the name that its location bears.

// CHECK: program @compute rank 0 of 1
// CHECK: buffer buf5 arena at 64 size 32 "alloc #0"
// CHECK: kernel k0 "gelu" expression target "cpu" bytes [[#]]
// CHECK: 0 s0 matmul arg4:bf16[4,4] = arg0:bf16[4,8] * arg1:bf16[8,4] + arg2:bf16[4] "matmul #0 (mlp.up)" loc "model.py:7:3"
// CHECK-NEXT: 1 s0 matmul arg4:bf16[4,4] += arg0:bf16[4,8] * arg3:bf16[4,8]^T "matmul #1"
// CHECK-NEXT: 2 s0 matmul arg4:bf16[4,4] = arg1:bf16[8,4]^T * arg1:bf16[8,4] "matmul #2"
// CHECK-NEXT: 3 s0 reduce max buf5:bf16[4] <- arg0:bf16[4,8] dims 0x2 "reduce #0"
// CHECK-NEXT: 4 s0 accumulate sum buf5:bf16[4] <- arg2:bf16[4] "accumulate #0"
// CHECK-NEXT: 5 s0 launch k0(arg5:bf16[4,4], arg4:bf16[4,4]) "launch @gelu #0"
// CHECK-NEXT: 6 s0 copy arg5:bf16[4]{5} <- buf5:bf16[4] bytes 8

#loc = loc("mlp.up"("model.py":7:3))

hostir.program @compute(%a: memref<4x8xbf16>, %b: memref<8x4xbf16>, %bias: memref<4xbf16>, %bt: memref<4x8xbf16>,
                        %c: memref<4x4xbf16> {hostir.result}, %d: memref<4x4xbf16> {hostir.result})
    attributes {arena_bytes = 128 : i64} {
  %main = hostir.main_stream
  %t = hostir.alloc on %main {offset = 64 : i64} : memref<16xbf16>
  %row = memref.subview %t[0] [4] [1] : memref<16xbf16> to memref<4xbf16, strided<[1]>>
  hostir.matmul %a, %b bias %bias to %c on %main : memref<4x8xbf16>, memref<8x4xbf16>, memref<4xbf16> to memref<4x4xbf16> loc(#loc)
  hostir.matmul %a, %bt to %c on %main {accumulate, transpose_b} : memref<4x8xbf16>, memref<4x8xbf16> to memref<4x4xbf16>
  hostir.matmul %b, %b to %c on %main {transpose_a} : memref<8x4xbf16>, memref<8x4xbf16> to memref<4x4xbf16>
  hostir.reduce max %a to %row dims [1] on %main : memref<4x8xbf16> to memref<4xbf16, strided<[1]>>
  hostir.accumulate sum %bias into %row on %main : memref<4xbf16> to memref<4xbf16, strided<[1]>>
  hostir.launch @gelu ins(%c : memref<4x4xbf16>) outs(%d : memref<4x4xbf16>) on %main
  %diagonal = memref.reinterpret_cast %d to offset: [0], sizes: [4], strides: [5] : memref<4x4xbf16> to memref<4xbf16, strided<[5]>>
  hostir.copy %row to %diagonal on %main : memref<4xbf16, strided<[1]>> to memref<4xbf16, strided<[5]>>
  hostir.dealloc %t on %main : memref<16xbf16>
}

hostir.kernel @gelu(%x: bf16) -> bf16 {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %scale = arith.constant 0.70710678 : f32
  %0 = arith.extf %x : bf16 to f32
  %1 = arith.mulf %0, %scale : f32
  %2 = math.erf %1 : f32
  %3 = arith.addf %2, %one : f32
  %4 = arith.mulf %0, %half : f32
  %5 = arith.mulf %4, %3 : f32
  %6 = arith.truncf %5 : f32 to bf16
  hostir.yield %6 : bf16
}
