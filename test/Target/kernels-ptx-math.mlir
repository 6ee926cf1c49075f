// RUN: tandem-compile %s --target=cuda-nccl -o %t.tsp
// RUN: tandem-compile --dump --kernels %t.tsp --rank=0 | FileCheck %s

// RUN: %if ptxas %{ tandem-compile --dump --kernels %t.tsp --rank=0 | sed -n -e '/^\.version/,/^kernel/p' | sed -e '/^kernel/,$d' > %t.ptx %}
// RUN: %if ptxas %{ %ptxas -arch=sm_90 %t.ptx -o %t.cubin %}

// RUN: tandem-compile %s --target=hip-rccl:gfx90a,gfx1100 -o %t.hip.tsp
// RUN: tandem-compile --dump %t.hip.tsp --rank=0 | FileCheck %s --check-prefix=AMD

// Everything that expressions can do has instructions on a GPU, without libdevice and without ROCm's libraries.

// AMD: target "cpu" bytes {{[0-9]+}}, amdgcn target "gfx90a" bytes {{[0-9]+}}, amdgcn target "gfx1100" bytes {{[0-9]+}}

// CHECK: .visible .entry rows(
// CHECK-NOT: {{call|__nv_}}

#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

func.func @all(%x: tensor<8x32xf16, #rows>, %y: tensor<8x32xf16, #rows>, %k: tensor<8x32xi32, #rows>,
               %b8: tensor<8x32xi8, #rows>, %wide: tensor<8x32xi64, #rows>, %double: tensor<8x32xf64, #rows>,
               %truth: tensor<8x32xi1, #rows>)
    -> (tensor<8x32xf16, #rows>, tensor<8x32xi32, #rows>, tensor<8x32xi8, #rows>, tensor<8x32xi64, #rows>,
        tensor<8x32xf64, #rows>, tensor<8x32xi1, #rows>) {
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
  %26 = math.erfc %a : tensor<8x32xf32, #rows>
  %27 = math.log1p %0 : tensor<8x32xf32, #rows>
  %28 = math.expm1 %a : tensor<8x32xf32, #rows>
  %29 = math.round %27 : tensor<8x32xf32, #rows>
  %30 = math.roundeven %28 : tensor<8x32xf32, #rows>
  %31 = math.trunc %26 : tensor<8x32xf32, #rows>
  %32 = arith.remf %29, %30 : tensor<8x32xf32, #rows>
  %33 = arith.addf %32, %31 : tensor<8x32xf32, #rows>
  %34 = arith.divsi %k, %24 : tensor<8x32xi32, #rows>
  %35 = arith.remsi %34, %k : tensor<8x32xi32, #rows>
  %36 = math.absi %35 : tensor<8x32xi32, #rows>
  %37 = arith.uitofp %36 : tensor<8x32xi32, #rows> to tensor<8x32xf32, #rows>
  %38 = arith.addf %33, %37 : tensor<8x32xf32, #rows>
  %39 = arith.bitcast %38 : tensor<8x32xf32, #rows> to tensor<8x32xi32, #rows>
  %40 = arith.trunci %39 : tensor<8x32xi32, #rows> to tensor<8x32xi8, #rows>
  %41 = arith.divsi %40, %b8 : tensor<8x32xi8, #rows>
  %42 = arith.extsi %41 : tensor<8x32xi8, #rows> to tensor<8x32xi64, #rows>
  %43 = arith.addi %42, %wide : tensor<8x32xi64, #rows>
  %44 = arith.sitofp %43 : tensor<8x32xi64, #rows> to tensor<8x32xf64, #rows>
  %45 = arith.divf %44, %double : tensor<8x32xf64, #rows>
  %46 = arith.fptosi %45 : tensor<8x32xf64, #rows> to tensor<8x32xi8, #rows>
  %47 = arith.xori %p, %truth : tensor<8x32xi1, #rows>
  %25 = arith.select %q, %24, %k : tensor<8x32xi1, #rows>, tensor<8x32xi32, #rows>
  return %21, %25, %46, %43, %45, %47 : tensor<8x32xf16, #rows>, tensor<8x32xi32, #rows>, tensor<8x32xi8, #rows>,
      tensor<8x32xi64, #rows>, tensor<8x32xf64, #rows>, tensor<8x32xi1, #rows>
}
