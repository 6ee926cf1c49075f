// RUN: tandem-opt %s -fusion-verify
// RUN: tandem-compile %s --entry=floats -o %t.tsp
// RUN: tandem-compile %s --entry=integers -o %t.tsp
// RUN: tandem-compile %s --entry=others -o %t.tsp

// All that kernels compute, so that fusion-verify and the kernels' translation agree.
#one = #tandem.mesh<"one", ["x" = 1]>
#a = #fusion.axes<#one, [-]>
!f = tensor<8xf32, #a>
!h = tensor<8xf16, #a>
!b = tensor<8xbf16, #a>
!i = tensor<8xi32, #a>
!t = tensor<8xi1, #a>

func.func @floats(%0: !f, %1: !f, %2: !h) -> (!f, !b, !h) {
  %a0 = arith.addf %0, %1 : !f
  %a1 = arith.subf %a0, %1 : !f
  %a2 = arith.mulf %a1, %1 : !f
  %a3 = arith.divf %a2, %1 : !f
  %a4 = arith.negf %a3 : !f
  %a5 = arith.maximumf %a4, %1 : !f
  %a6 = arith.minimumf %a5, %1 : !f
  %a7 = arith.maxnumf %a6, %1 : !f
  %a8 = arith.minnumf %a7, %1 : !f
  %m0 = math.absf %a8 : !f
  %m1 = math.ceil %m0 : !f
  %m2 = math.cos %m1 : !f
  %m3 = math.erf %m2 : !f
  %m4 = math.exp %m3 : !f
  %m5 = math.exp2 %m4 : !f
  %m6 = math.floor %m5 : !f
  %m7 = math.fma %m6, %0, %1 : !f
  %m8 = math.log %m7 : !f
  %m9 = math.log2 %m8 : !f
  %n0 = math.log10 %m9 : !f
  %n1 = math.powf %n0, %1 : !f
  %n2 = math.rsqrt %n1 : !f
  %n3 = math.sin %n2 : !f
  %n4 = math.sqrt %n3 : !f
  %n5 = math.tanh %n4 : !f
  %c0 = arith.cmpf olt, %0, %1 : !f
  %c1 = arith.cmpf uno, %0, %1 : !f
  %c2 = arith.xori %c0, %c1 : !t
  %c3 = arith.constant dense<true> : !t
  %c4 = arith.select %c0, %c2, %c3 : !t, !t
  %s0 = arith.select %c4, %n5, %0 : !t, !f
  %t0 = arith.truncf %s0 : !f to !b
  %e0 = arith.extf %2 : !h to !f
  %u0 = arith.uitofp %c0 : !t to !f
  %u1 = arith.sitofp %c0 : !t to !f
  %u2 = arith.addf %u0, %u1 : !f
  %u3 = arith.addf %u2, %e0 : !f
  %t1 = arith.truncf %u3 to_nearest_even : !f to !h
  %x0 = math.erfc %s0 : !f
  %x1 = math.expm1 %x0 : !f
  %x2 = math.log1p %x1 : !f
  %x3 = math.round %x2 : !f
  %x4 = math.roundeven %x3 : !f
  %x5 = math.trunc %x4 : !f
  %x6 = arith.remf %x5, %1 : !f
  return %x6, %t0, %t1 : !f, !b, !h
}

func.func @integers(%0: !i, %1: !i, %2: !f) -> (!i, !f) {
  %a0 = arith.addi %0, %1 : !i
  %a1 = arith.subi %a0, %1 : !i
  %a2 = arith.muli %a1, %1 : !i
  %a3 = arith.maxsi %a2, %1 : !i
  %a4 = arith.minsi %a3, %1 : !i
  %a5 = arith.andi %a4, %1 : !i
  %a6 = arith.ori %a5, %1 : !i
  %a7 = arith.xori %a6, %1 : !i
  %s = arith.constant dense<3> : !i
  %a8 = arith.shli %a7, %s : !i
  %a9 = arith.shrsi %a8, %s : !i
  %c0 = arith.cmpi ult, %0, %1 : !i
  %c1 = arith.cmpi sge, %0, %1 : !i
  %c2 = arith.andi %c0, %c1 : !t
  %c3 = arith.ori %c2, %c1 : !t
  %b0 = arith.select %c3, %a9, %0 : !t, !i
  %b1 = arith.extsi %c0 : !t to !i
  %b2 = arith.extui %c1 : !t to !i
  %b3 = arith.fptosi %2 : !f to !i
  %d0 = arith.addi %b0, %b1 : !i
  %d1 = arith.addi %b2, %b3 : !i
  %d2 = arith.addi %d0, %d1 : !i
  %f0 = arith.sitofp %d2 : !i to !f
  %g0 = arith.divsi %d2, %1 : !i
  %g1 = arith.remsi %g0, %1 : !i
  %g2 = math.absi %g1 : !i
  %g3 = arith.bitcast %f0 : !f to !i
  %g4 = arith.addi %g2, %g3 : !i
  %f1 = arith.uitofp %g4 : !i to !f
  return %g4, %f1 : !i, !f
}

// Elements of 1, 8 and 64 bits, among arguments and results.
func.func @others(%0: tensor<8xi8, #a>, %1: tensor<8xi64, #a>, %2: tensor<8xf64, #a>, %3: !t, %4: !i)
    -> (tensor<8xi8, #a>, tensor<8xi64, #a>, tensor<8xf64, #a>, !t) {
  %5 = arith.extsi %0 : tensor<8xi8, #a> to tensor<8xi64, #a>
  %6 = arith.addi %5, %1 : tensor<8xi64, #a>
  %7 = arith.divsi %6, %1 : tensor<8xi64, #a>
  %8 = arith.trunci %7 : tensor<8xi64, #a> to tensor<8xi8, #a>
  %9 = arith.addi %8, %0 : tensor<8xi8, #a>
  %10 = arith.sitofp %6 : tensor<8xi64, #a> to tensor<8xf64, #a>
  %11 = math.exp %2 : tensor<8xf64, #a>
  %12 = arith.addf %10, %11 : tensor<8xf64, #a>
  %13 = arith.fptosi %12 : tensor<8xf64, #a> to tensor<8xi64, #a>
  %14 = arith.extui %4 : !i to tensor<8xi64, #a>
  %15 = arith.ori %13, %14 : tensor<8xi64, #a>
  %16 = arith.cmpi slt, %15, %1 : tensor<8xi64, #a>
  %17 = arith.cmpi ne, %16, %3 : !t
  %18 = arith.select %17, %15, %1 : !t, tensor<8xi64, #a>
  return %9, %18, %12, %17 : tensor<8xi8, #a>, tensor<8xi64, #a>, tensor<8xf64, #a>, !t
}
