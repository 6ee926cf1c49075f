// RUN: tandem-compile %s --target=cuda-nccl -o %t.tsp
// RUN: tandem-compile --dump --kernels %t.tsp --rank=0 | FileCheck %s

// RUN: %if ptxas %{ tandem-compile --dump --kernels %t.tsp --rank=0 | sed -n -e '/^\.version/,/^kernel/p' | sed -e '/^kernel/,$d' > %t.ptx %}
// RUN: %if ptxas %{ %ptxas -arch=sm_90 %t.ptx -o %t.cubin %}

// Everything that expressions can do has instructions on a GPU, without libdevice.

// CHECK: .visible .entry rows(
// CHECK-NOT: {{call|__nv_}}

#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

func.func @all(%x: tensor<8x32xf16, #rows>, %y: tensor<8x32xf16, #rows>, %k: tensor<8x32xi32, #rows>)
    -> (tensor<8x32xf16, #rows>, tensor<8x32xi32, #rows>) {
  %a = arith.extf %x : tensor<8x32xf16, #rows> to tensor<8x32xf32, #rows>
  %b = arith.extf %y : tensor<8x32xf16, #rows> to tensor<8x32xf32, #rows>
  %0 = math.absf %a : tensor<8x32xf32, #rows>
  %1 = math.sqrt %0 : tensor<8x32xf32, #rows>
  %2 = math.rsqrt %1 : tensor<8x32xf32, #rows>
  %3 = math.log %2 : tensor<8x32xf32, #rows>
  %4 = math.log2 %2 : tensor<8x32xf32, #rows>
  %5 = math.log10 %2 : tensor<8x32xf32, #rows>
  %6 = math.exp %3 : tensor<8x32xf32, #rows>
  %7 = math.exp2 %4 : tensor<8x32xf32, #rows>
  %8 = math.tanh %5 : tensor<8x32xf32, #rows>
  %9 = math.sin %6 : tensor<8x32xf32, #rows>
  %10 = math.cos %7 : tensor<8x32xf32, #rows>
  %11 = math.floor %9 : tensor<8x32xf32, #rows>
  %12 = math.ceil %10 : tensor<8x32xf32, #rows>
  %13 = math.fma %8, %11, %12 : tensor<8x32xf32, #rows>
  %14 = arith.maximumf %13, %b : tensor<8x32xf32, #rows>
  %15 = arith.minnumf %14, %a : tensor<8x32xf32, #rows>
  %16 = math.powf %0, %15 : tensor<8x32xf32, #rows>
  %17 = arith.divf %16, %b : tensor<8x32xf32, #rows>
  %p = arith.cmpf olt, %17, %a : tensor<8x32xf32, #rows>
  %18 = arith.select %p, %17, %b : tensor<8x32xi1, #rows>, tensor<8x32xf32, #rows>
  %19 = arith.sitofp %k : tensor<8x32xi32, #rows> to tensor<8x32xf32, #rows>
  %20 = arith.addf %18, %19 : tensor<8x32xf32, #rows>
  %21 = arith.truncf %20 : tensor<8x32xf32, #rows> to tensor<8x32xf16, #rows>
  %22 = arith.fptosi %18 : tensor<8x32xf32, #rows> to tensor<8x32xi32, #rows>
  %23 = arith.muli %22, %k : tensor<8x32xi32, #rows>
  %24 = arith.maxsi %23, %k : tensor<8x32xi32, #rows>
  %q = arith.cmpi sge, %24, %22 : tensor<8x32xi32, #rows>
  %25 = arith.select %q, %24, %k : tensor<8x32xi1, #rows>, tensor<8x32xi32, #rows>
  return %21, %25 : tensor<8x32xf16, #rows>, tensor<8x32xi32, #rows>
}
