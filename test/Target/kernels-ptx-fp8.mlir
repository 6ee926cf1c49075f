// RUN: tandem-compile %s --target=cuda-nccl -o %t.tsp
// RUN: tandem-compile --dump --kernels %t.tsp --rank=0 | FileCheck %s

// Floats of 8 bits are bytes in memory and f32 in registers. They are converted by instructions that every GPU has: those
// of Hopper saturate.

// CHECK: = load f32 input 0
// CHECK: = round_f8E5M2 f32
// CHECK: output 0 = store f32 %
// CHECK: .visible .entry rows(
// CHECK-NOT: call
// CHECK-NOT: cvt.{{.*}}e4m3
// CHECK: ld.global
// CHECK: st.global
// CHECK: .visible .entry strided(
// CHECK-NOT: call
// CHECK: ld.global.b8
// CHECK: st.global.b8

#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

func.func @scale(%x: tensor<64x32xf8E4M3FN, #rows>, %s: tensor<64x32xf32, #rows>) -> (tensor<64x32xf8E4M3FN, #rows>) {
  %0 = arith.extf %x : tensor<64x32xf8E4M3FN, #rows> to tensor<64x32xf32, #rows>
  %1 = arith.mulf %0, %s : tensor<64x32xf32, #rows>
  %2 = arith.truncf %1 : tensor<64x32xf32, #rows> to tensor<64x32xf8E5M2, #rows>
  %3 = arith.extf %2 : tensor<64x32xf8E5M2, #rows> to tensor<64x32xf32, #rows>
  %4 = arith.truncf %3 : tensor<64x32xf32, #rows> to tensor<64x32xf8E4M3FN, #rows>
  return %4 : tensor<64x32xf8E4M3FN, #rows>
}
