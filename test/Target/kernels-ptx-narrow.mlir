// RUN: tandem-compile %s --target=cuda-nccl -o %t.tsp
// RUN: tandem-compile --dump --kernels %t.tsp --rank=0 | FileCheck %s

// RUN: %if ptxas %{ tandem-compile --dump --kernels %t.tsp --rank=0 | sed -n -e '/^\.version/,/^kernel/p' | sed -e '/^kernel/,$d' > %t.ptx %}
// RUN: %if ptxas %{ %ptxas -arch=sm_90 %t.ptx -o %t.cubin %}

// RUN: tandem-compile %s --target=hip-rccl:gfx90a -o %t.hip.tsp

// A wide number becomes an f32 whose last bit says that it is inexact, so that a narrow float is rounded once. In PTX:
// the nearest f32, compared with the number, and the next one away from it or back.
//
// CHECK:      kernel k0 "narrow.truncf"
// CHECK:        = convert_odd f32
// CHECK-NEXT:   store f32
// CHECK:      kernel k0 ptx
// CHECK:        cvt.rn.f32.f64 [[NEAR:%r[0-9]+]], [[X:%rd[0-9]+]]
// CHECK:        cvt.f64.f32
// CHECK:        selp.b32 {{.*}}, 1, -1
// CHECK-NOT:    cvt.rn.f16.f64
// CHECK:        cvt.rn.f16x2.f32
// CHECK:      kernel k1 "narrow.sitofp"
// CHECK:        = convert_odd f32
// CHECK:      kernel k1 ptx
// CHECK:        cvt.rn.f64.s64
// CHECK:        cvt.rn.f32.f64
// CHECK:        cvt.rn.bf16x2.f32

#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

func.func @narrow(%double: tensor<8x32xf64, #rows>, %wide: tensor<8x32xi64, #rows>)
    -> (tensor<8x32xf16, #rows>, tensor<8x32xbf16, #rows>) {
  %0 = arith.truncf %double : tensor<8x32xf64, #rows> to tensor<8x32xf16, #rows>
  %1 = arith.sitofp %wide : tensor<8x32xi64, #rows> to tensor<8x32xbf16, #rows>
  return %0, %1 : tensor<8x32xf16, #rows>, tensor<8x32xbf16, #rows>
}
