// RUN: tandem-compile %s --entry=gather_xor --dump --rank=5 | FileCheck %s --check-prefix=XOR
// RUN: tandem-compile %s --entry=gather_rotated --dump --rank=1 | FileCheck %s --check-prefix=FITS
// RUN: tandem-compile %s --entry=gather_rotated --dump --rank=3 | FileCheck %s --check-prefix=WRAPS
// RUN: tandem-compile %s --entry=reduce_xor --dump --rank=5 | FileCheck %s --check-prefix=REDUCE
// RUN: tandem-compile %s --entry=reduce_rotated --dump --rank=2 | FileCheck %s --check-prefix=BACK

// The schedule `push` where slices of several devices are computed at once.
//
// In xor order they are neighbours: 5; 4; 7 and 6; 1, 0, 3 and 2.
//
// XOR: s2 matmul arg2+{{[0-9]+}}:f32[6,3] = arg0:f32[6,16]
// XOR-NEXT: s3 wait_signal c0 slot 4
// XOR-NEXT: s3 matmul {{.*}} = sym1+1536:f32[6,16]
// XOR-NEXT: s2 wait_signal c0 slot 7
// XOR-NEXT: s2 wait_signal c0 slot 6
// XOR-NEXT: s2 matmul {{.*}} = sym1+2304:f32[12,16]
// XOR-NEXT: s3 wait_signal c0 slot 1
// XOR-NEXT: s3 wait_signal c0 slot 0
// XOR-NEXT: s3 wait_signal c0 slot 3
// XOR-NEXT: s3 wait_signal c0 slot 2
// XOR-NEXT: s3 matmul arg2:f32[24,3] = sym1:f32[24,16]
//
// In rotated order, rank 1 has 1 and 2, 3 and then 0; the own slice goes into the receive memory.
//
// FITS: s0 copy sym1+768:f32[12,16] <- arg0
// FITS-NEXT: s0 wait_signal c0 slot 2
// FITS-NEXT: s0 matmul {{.*}} = sym1+768:f32[24,16]
// FITS-NEXT: s0 wait_signal c0 slot 3
// FITS-NEXT: s0 wait_signal c0 slot 0
// FITS-NEXT: s0 matmul {{.*}} = sym1+2304:f32[12,16]
// FITS-NEXT: s0 matmul {{.*}} = sym1:f32[12,16]
//
// WRAPS: s0 copy sym1+2304:f32[12,16] <- arg0
// WRAPS-NEXT: s0 wait_signal c0 slot 0
// WRAPS-NEXT: s0 matmul {{.*}} = sym1+2304:f32[12,16]
// WRAPS-NEXT: s0 matmul {{.*}} = sym1:f32[12,16]
// WRAPS-NEXT: s0 wait_signal c0 slot 1
// WRAPS-NEXT: s0 wait_signal c0 slot 2
// WRAPS-NEXT: s0 matmul {{.*}} = sym1+768:f32[24,16]
//
// Those of the farthest first, the own last: 2 and 3; 0 and 1; 6 and 7; 4; 5.
//
// REDUCE: {{s0 matmul .*f32\[12,16\] =}}
// REDUCE: s1 put {{.*}} to 2
// REDUCE: s1 put {{.*}} to 3
// REDUCE: {{s0 matmul .*f32\[12,16\] =}}
// REDUCE: s1 put {{.*}} to 0
// REDUCE: s1 put {{.*}} to 1
// REDUCE: {{s0 matmul .*f32\[12,16\] =}}
// REDUCE: s1 put {{.*}} to 6
// REDUCE: s1 put {{.*}} to 7
// REDUCE: {{s0 matmul .*f32\[6,16\] =}}
// REDUCE: s1 put {{.*}} to 4
// REDUCE: s0 matmul sym{{.*}}f32[6,16] =
// REDUCE-COUNT-7: wait_signal
// REDUCE: s0 reduce
//
// BACK: {{s0 matmul .*f32\[12,16\] =}}
// BACK: s1 put {{.*}} to 3
// BACK: {{s0 matmul .*f32\[36,16\] =}}
// BACK: s1 put {{.*}} to 0
// BACK: s1 put {{.*}} to 1
// BACK: {{s0 copy sym.* <- buf}}

#of8 = #tandem.mesh<"of8", ["x" = 8]>
#of4 = #tandem.mesh<"of4", ["x" = 4]>

func.func @gather_xor(
    %x: tensor<48x16xf32, #fusion.axes<#of8, [didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x24xf32, #fusion.axes<#of8, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<48x24xf32, #fusion.axes<#of8, [stream("x"), didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {fusion.gather = "before", fusion.schedule = #fusion.schedule<push, streams = 2, order = xor, merge = [1, 1, 2, 4]>}
      : tensor<48x16xf32, #fusion.axes<#of8, [didx("x"), -]>>, tensor<16x24xf32, #fusion.axes<#of8, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#of8, [stream("x"), didx("x")]>>
  return %y : tensor<48x24xf32, #fusion.axes<#of8, [stream("x"), didx("x")]>>
}

func.func @gather_rotated(
    %x: tensor<48x16xf32, #fusion.axes<#of4, [didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x24xf32, #fusion.axes<#of4, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<48x24xf32, #fusion.axes<#of4, [stream("x"), didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w {fusion.gather = "before", fusion.schedule = #fusion.schedule<push, merge = [2, 2]>}
      : tensor<48x16xf32, #fusion.axes<#of4, [didx("x"), -]>>, tensor<16x24xf32, #fusion.axes<#of4, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#of4, [stream("x"), didx("x")]>>
  return %y : tensor<48x24xf32, #fusion.axes<#of4, [stream("x"), didx("x")]>>
}

func.func @reduce_xor(
    %x: tensor<48x24xf32, #fusion.axes<#of8, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#of8, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#of8, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#of8, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#of8, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#of8, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, order = xor, merge = [2, 2, 2, 1, 1]>}
      : tensor<48x16xf32, #fusion.axes<#of8, [stream("x"), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#of8, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#of8, [didx("x"), -]>>
}

func.func @reduce_rotated(
    %x: tensor<48x24xf32, #fusion.axes<#of4, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#of4, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#of4, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#of4, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#of4, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#of4, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, merge = [1, 3]>}
      : tensor<48x16xf32, #fusion.axes<#of4, [stream("x"), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#of4, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#of4, [didx("x"), -]>>
}
