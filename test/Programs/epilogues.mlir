// RUN: tandem-compile %s --entry=epilogue_residual --mesh x=2 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s
// RUN: tandem-compile %s --entry=epilogue_gelu --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=GELU
// RUN: tandem-compile %s --entry=epilogue_gated --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=GATED

// What follows a matmul in place is its epilogue (docs/kernels.md): each slice of the product is computed in the result.
//
// CHECK: s0 matmul arg4+2304:f32[24,24] = arg0:f32[24,16]
// CHECK-NEXT: s0 launch {{.*}}arg4+2304:f32[24,24]{{.*}}arg4+2304:f32[24,24]
// CHECK-NEXT: s0 wait_signal
// CHECK-NEXT: s0 matmul arg4:f32[24,24]
// CHECK-NEXT: s0 launch {{.*}}arg4:f32[24,24]{{.*}}arg4:f32[24,24]
//
// GATED: s0 gated_matmul 3 parts
// GATED-NEXT: s0   matmul [[P:buf[0-9]+]]+2304:f32[24,24]
// GATED-NEXT: s0   wait_signal
// GATED-NEXT: s0   matmul [[P]]:f32[24,24]
// GATED-NEXT: s0 launch {{.*}}[[P]]:f32[48,24]{{.*}}[[P]]:f32[48,24]
//
// GELU: s0 matmul arg3:f32[24,12]
// GELU-NEXT: s0 launch {{.*}}arg3:f32[24,12]

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [stream("x"), -]>
!x = tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!all = tensor<48x16xf32, #rows>
!w = tensor<16x24xf32, #fusion.axes<#tp, [-, -]>>
!b = tensor<24xf32, #fusion.axes<#tp, [-]>>
!y = tensor<48x24xf32, #rows>

// relu(AG(x) w + b - r / 2)
func.func @epilogue_residual(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %b: !b {fusion.name = "b"}, %r: !y {fusion.name = "r"})
    -> (!y {fusion.name = "y"}) {
  %zero = arith.constant dense<0.0> : !y
  %half = arith.constant dense<0.5> : !y
  %all = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !all
  %0 = fusion.matmul %all, %w : !all, !w -> !y
  %1 = fusion.broadcast %b dims [1] : !b -> !y
  %2 = arith.addf %0, %1 : !y
  %3 = arith.mulf %r, %half : !y
  %4 = arith.subf %2, %3 : !y
  %y = arith.maximumf %4, %zero : !y
  return %y : !y
}

// silu(AG(x) w + b) by a gated matmul, then another matmul: kernels of gated matmuls need aligned memory, which a result of
// the program may not have.
!v = tensor<24x24xf32, #fusion.axes<#tp, [-, -]>>
func.func @epilogue_gated(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %b: !b {fusion.name = "b"}, %v: !v {fusion.name = "v"})
    -> (!y {fusion.name = "y"}) {
  %one = arith.constant dense<1.0> : !y
  %all = fusion.reshard %x {schedule = #fusion.schedule<gated>} : !x -> !all
  %0 = fusion.matmul %all, %w : !all, !w -> !y
  %1 = fusion.broadcast %b dims [1] : !b -> !y
  %2 = arith.addf %0, %1 : !y
  %3 = arith.negf %2 : !y
  %4 = math.exp %3 : !y
  %5 = arith.addf %4, %one : !y
  %6 = arith.divf %2, %5 : !y
  %y = fusion.matmul %6, %v : !y, !v -> !y
  return %y : !y
}

// The gelu of tanh of rows w^T + b, without communication. Columns are split over the devices.
!rows = tensor<24x16xf32, #fusion.axes<#tp, [-, -]>>
!columns = tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!split = tensor<24xf32, #fusion.axes<#tp, [didx("x")]>>
!h = tensor<24x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
func.func @epilogue_gelu(%x: !rows {fusion.name = "x"}, %w: !columns {fusion.name = "w"}, %b: !split {fusion.name = "b"}) -> (!h {fusion.name = "y"}) {
  %half = arith.constant dense<0.5> : !h
  %one = arith.constant dense<1.0> : !h
  %scale = arith.constant dense<0.7978845608> : !h
  %cubic = arith.constant dense<0.044715> : !h
  %0 = fusion.matmul %x, %w {transpose_b} : !rows, !columns -> !h
  %1 = fusion.broadcast %b dims [1] : !split -> !h
  %2 = arith.addf %0, %1 : !h
  %3 = arith.mulf %2, %2 : !h
  %4 = arith.mulf %3, %2 : !h
  %5 = arith.mulf %4, %cubic : !h
  %6 = arith.addf %2, %5 : !h
  %7 = arith.mulf %6, %scale : !h
  %8 = math.tanh %7 : !h
  %9 = arith.addf %8, %one : !h
  %10 = arith.mulf %2, %half : !h
  %y = arith.mulf %10, %9 : !h
  return %y : !h
}
