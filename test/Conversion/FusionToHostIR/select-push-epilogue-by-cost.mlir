// RUN: %round device.gated_matmul='{"source": "round", "epilogue_push": [1, "1", "round"], "points": [[1024, 1024, 1024, 1]]}' > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s --check-prefix=WITH
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false' | FileCheck %s --check-prefix=WITHOUT
// RUN: %round device.gated_matmul='{"source": "round", "points": [[1024, 1024, 1024, 1]]}' > %t.unknown.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.unknown.json one-sided=true' | FileCheck %s --check-prefix=WITHOUT

// A matmul that stores its rows to their owners, where the machine file says that its kernels do.

#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x16384xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<16384x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// WITHOUT-NOT: epilogue
// WITH: fusion.stream_loop schedule <push, by = epilogue> from cost
func.func @reduce_scatter(%x: !x, %w: !w) -> !y {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// An all-reduce can have it, too.

!s = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>
// WITH: fusion.stream_loop schedule <push{{.*}} from cost {{.*}}<push, by = epilogue, slices = 8, dim = 0
func.func @all_reduce(%x: !x, %w: !w) -> !s {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !s
  %z = math.tanh %y : !s
  return %z : !s
}
