// RUN: tandem-compile %s --target=cuda-nccl -o %t.tsp
// RUN: tandem-compile --dump --kernels %t.tsp --rank=0 | FileCheck %s
// RUN: tandem-compile %s --target=cpu-local -o %t.cpu.tsp
// RUN: tandem-compile --dump --kernels %t.cpu.tsp --rank=0 | FileCheck %s --check-prefix=CPU

// Kernels for a GPU travel beside their expression: two entries, without calls, with 16-byte accesses where elements are
// adjacent; f16 and bf16 are converted where they are loaded and stored.

// CHECK: kernel k0 "gelu.{{[^"]*}}" expression target "cpu" bytes {{[0-9]+}}, ptx target "sm_90" bytes
// CHECK: kernel k0 "gelu
// CHECK-NEXT: %0 = load f32 input 0
// CHECK: = erf f32 %
// CHECK: output 0 = store f32 %
// CHECK: kernel k0 ptx target "sm_90"
// CHECK: .version 8.0
// CHECK: .target sm_90
// CHECK: .visible .entry rows(
// CHECK-NEXT: .param .u64 rows_param_0,
// CHECK-NEXT: .param .u64 rows_param_1,
// CHECK-NEXT: .param .u64 .ptr .global {{.*}}rows_param_2,
// CHECK-NEXT: .param .u64 rows_param_3,
// CHECK-NEXT: .param .u64 rows_param_4,
// CHECK-NEXT: .param .u64 .ptr .global {{.*}}rows_param_5,
// CHECK-NEXT: .param .u64 rows_param_6,
// CHECK-NEXT: .param .u64 rows_param_7,
// CHECK-NEXT: .param .u64 .ptr .global {{.*}}rows_param_8,
// CHECK-NEXT: .param .u64 rows_param_9,
// CHECK-NEXT: .param .u64 rows_param_10
// CHECK-NOT: call
// CHECK-DAG: ld.global.v4.b32
// CHECK-DAG: ld.global.{{v4.b16|v2.b32|b64}}
// CHECK-DAG: st.global.{{v4.b16|v2.b32|b64}}
// CHECK: .visible .entry strided(
// CHECK-COUNT-4: .param .u64 strided_param_
// CHECK: .param .u64 .ptr .global {{.*}}strided_param_4
// CHECK-NOT: call
// CHECK: ld.global.b16
// CHECK: ld.global.b32
// CHECK: st.global.b16

// CPU-NOT: ptx
// CPU: kernel k0 "gelu

#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

func.func @gelu(%x: tensor<64x32xbf16, #rows>, %r: tensor<64x32xf32, #rows>) -> (tensor<64x32xbf16, #rows>) {
  %one = arith.constant dense<1.0> : tensor<64x32xf32, #rows>
  %half = arith.constant dense<0.5> : tensor<64x32xf32, #rows>
  %c = arith.constant dense<0.70710678> : tensor<64x32xf32, #rows>
  %0 = arith.extf %x : tensor<64x32xbf16, #rows> to tensor<64x32xf32, #rows>
  %1 = arith.mulf %0, %c : tensor<64x32xf32, #rows>
  %2 = math.erf %1 : tensor<64x32xf32, #rows>
  %3 = arith.addf %2, %one : tensor<64x32xf32, #rows>
  %4 = arith.mulf %0, %half : tensor<64x32xf32, #rows>
  %5 = arith.mulf %4, %3 : tensor<64x32xf32, #rows>
  %6 = arith.addf %5, %r : tensor<64x32xf32, #rows>
  %7 = arith.truncf %6 : tensor<64x32xf32, #rows> to tensor<64x32xbf16, #rows>
  return %7 : tensor<64x32xbf16, #rows>
}
