// RUN: %round device.memory.elementwise='[100, "GB/s"]' links.node.bandwidth='[50, "GB/s"]' transports.collectives.bandwidth='[20, "GB/s"]' transports.two_sided.bandwidth=null transports.two_sided.mover='"host"' transports.two_sided.sms=null > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false' | FileCheck %s

// Partial sums in f32, half of which travel each way: matmuls add to them, which saves the additions behind them.
// CHECK-LABEL: func.func @wide
// CHECK: fusion.stream_loop schedule <ring, directions = 2, sum = matmul> from cost
// In bf16 a matmul that added to what has arrived would round otherwise than the addition does.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT: adds
// CHECK: fusion.stream_loop schedule
// CHECK-NOT: adds
#tp = #tandem.mesh<"tp", ["x" = 8]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#terms = #fusion.axes<#tp, [-, -], partial = ["x"]>
func.func @wide(%a: tensor<8192x11008xbf16, #columns>, %b: tensor<11008x4096xbf16, #rows>) -> tensor<8192x4096xf32, #rows> {
  %p = fusion.matmul %a, %b : tensor<8192x11008xbf16, #columns>, tensor<11008x4096xbf16, #rows> -> tensor<8192x4096xf32, #terms>
  %y = fusion.reshard %p : tensor<8192x4096xf32, #terms> -> tensor<8192x4096xf32, #rows>
  return %y : tensor<8192x4096xf32, #rows>
}
func.func @narrow(%a: tensor<8192x11008xbf16, #columns>, %b: tensor<11008x4096xbf16, #rows>) -> tensor<8192x4096xbf16, #rows> {
  %p = fusion.matmul %a, %b : tensor<8192x11008xbf16, #columns>, tensor<11008x4096xbf16, #rows> -> tensor<8192x4096xbf16, #terms>
  %y = fusion.reshard %p : tensor<8192x4096xbf16, #terms> -> tensor<8192x4096xbf16, #rows>
  return %y : tensor<8192x4096xbf16, #rows>
}
