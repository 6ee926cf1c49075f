// RUN: %round > %t.json
// RUN: tandem-compile %s --entry=residual --target=cuda-peer --machine=%t.json --check=false --explain | FileCheck %s
// RUN: tandem-compile %s --entry=next --target=cuda-peer --machine=%t.json --check=false --explain | FileCheck %s
// RUN: tandem-compile %s --entry=norm --target=cuda-peer --machine=%t.json --check=false --explain | FileCheck %s

// An all-reduce behind a large matmul is overlapped with it, whatever follows: a residual, another matmul, a norm.
//
// CHECK: {{all-reduce|reduce-scatter}} at {{.*}}: push{{.*}}, slices = {{8|16|32}}, dim = {{[01]}}{{.*}}, by cost
// CHECK-NEXT: communicates for {{.*}}, {{[4-8][0-9]}} % of it overlapped with compute

#tp = #tandem.mesh<"tp", ["x" = 8]>
#rep = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#cols = #fusion.axes<#tp, [-, didx("x")]>
func.func @next(%x: tensor<8192x28672xbf16, #cols>, %w: tensor<28672x8192xbf16, #rows>, %v: tensor<8192x8192xbf16, #cols>) -> tensor<8192x8192xbf16, #cols> {
  %y = fusion.matmul %x, %w : tensor<8192x28672xbf16, #cols>, tensor<28672x8192xbf16, #rows> -> tensor<8192x8192xbf16, #rep>
  %z = fusion.matmul %y, %v : tensor<8192x8192xbf16, #rep>, tensor<8192x8192xbf16, #cols> -> tensor<8192x8192xbf16, #cols>
  return %z : tensor<8192x8192xbf16, #cols>
}
func.func @residual(%x: tensor<8192x28672xbf16, #cols>, %w: tensor<28672x8192xbf16, #rows>, %r: tensor<8192x8192xbf16, #rep>) -> tensor<8192x8192xbf16, #rep> {
  %y = fusion.matmul %x, %w : tensor<8192x28672xbf16, #cols>, tensor<28672x8192xbf16, #rows> -> tensor<8192x8192xbf16, #rep>
  %z = arith.addf %y, %r : tensor<8192x8192xbf16, #rep>
  return %z : tensor<8192x8192xbf16, #rep>
}
func.func @norm(%x: tensor<8192x28672xbf16, #cols>, %w: tensor<28672x8192xbf16, #rows>, %r: tensor<8192x8192xbf16, #rep>, %v: tensor<8192x8192xbf16, #cols>) -> (tensor<8192x8192xbf16, #cols>, tensor<8192x8192xbf16, #rep>) {
  %y = fusion.matmul %x, %w : tensor<8192x28672xbf16, #cols>, tensor<28672x8192xbf16, #rows> -> tensor<8192x8192xbf16, #rep>
  %s = arith.addf %y, %r : tensor<8192x8192xbf16, #rep>
  %q = arith.mulf %s, %s : tensor<8192x8192xbf16, #rep>
  %m = fusion.reduce sum %q dims [1] {keep_dims} : tensor<8192x8192xbf16, #rep> -> tensor<8192x1xbf16, #rep>
  %i = math.rsqrt %m : tensor<8192x1xbf16, #rep>
  %b = fusion.broadcast %i dims [0, 1] : tensor<8192x1xbf16, #rep> -> tensor<8192x8192xbf16, #rep>
  %n = arith.mulf %s, %b : tensor<8192x8192xbf16, #rep>
  %z = fusion.matmul %n, %v : tensor<8192x8192xbf16, #rep>, tensor<8192x8192xbf16, #cols> -> tensor<8192x8192xbf16, #cols>
  return %z, %s : tensor<8192x8192xbf16, #cols>, tensor<8192x8192xbf16, #rep>
}
