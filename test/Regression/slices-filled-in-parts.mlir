// REQUIRES: runtime
// RUN: tandem-compile %s --entry=blocks --target=cpu-local --workers=1 -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=BLOCKS
// RUN: tandem-run %t.tsp --channel=local --verify
// RUN: tandem-compile %s --entry=turned --target=cpu-local --workers=1 --gather=after -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=TURNED
// RUN: tandem-run %t.tsp --channel=local --verify
// RUN: tandem-compile %s --entry=part --target=cpu-ucx --workers=1 -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=PART
// RUN: tandem-run %t.tsp --channel=local --verify

// What a transfer fills piece by piece, and of what somebody takes a device's part, is one slice a worker, not the whole.
// BLOCKS: arena 64,
// TURNED: arena 256,
// PART: arena 192,
#m = #tandem.mesh<"m", ["x" = 2, "y" = 3]>
#n = #tandem.mesh<"n", ["x" = 3, "y" = 2]>
#p = #tandem.mesh<"p", ["x" = 4]>

func.func @blocks(%0: tensor<12x10x6xbf16, #fusion.axes<#m, [didx("x"), -, didx("y")]>>)
    -> tensor<12x10x6xbf16, #fusion.axes<#m, [didx("y"), stream, didx("x")]>> {
  %1 = fusion.reshard %0 : tensor<12x10x6xbf16, #fusion.axes<#m, [didx("x"), -, didx("y")]>> -> tensor<12x10x6xbf16, #fusion.axes<#m, [didx("y"), stream, didx("x")]>>
  %2 = arith.maximumf %1, %1 : tensor<12x10x6xbf16, #fusion.axes<#m, [didx("y"), stream, didx("x")]>>
  return %2 : tensor<12x10x6xbf16, #fusion.axes<#m, [didx("y"), stream, didx("x")]>>
}

func.func @turned(%0: tensor<3x12x18xf32, #fusion.axes<#n, [didx("x"), -, didx("y")]>>)
    -> tensor<12x18xf32, #fusion.axes<#n, [stream(4), didx("x") * didx("y")]>> {
  %1 = fusion.reshard %0 : tensor<3x12x18xf32, #fusion.axes<#n, [didx("x"), -, didx("y")]>> -> tensor<3x12x18xf32, #fusion.axes<#n, [-, stream(4), didx("x") * didx("y")]>>
  %2 = arith.maximumf %1, %1 : tensor<3x12x18xf32, #fusion.axes<#n, [-, stream(4), didx("x") * didx("y")]>>
  %3 = fusion.reduce min %2 dims [0] : tensor<3x12x18xf32, #fusion.axes<#n, [-, stream(4), didx("x") * didx("y")]>> -> tensor<12x18xf32, #fusion.axes<#n, [stream(4), didx("x") * didx("y")]>>
  return %3 : tensor<12x18xf32, #fusion.axes<#n, [stream(4), didx("x") * didx("y")]>>
}

func.func @part(%0: tensor<4x4x24xbf16, #fusion.axes<#p, [didx("x"), -, -]>>)
    -> (tensor<4x24xbf16, #fusion.axes<#p, [-, serial(2) * stream(4)]>>, tensor<4x4x24xbf16, #fusion.axes<#p, [didx("x"), -, serial(2) * stream(4)]>>) {
  %1 = fusion.reshard %0 : tensor<4x4x24xbf16, #fusion.axes<#p, [didx("x"), -, -]>> -> tensor<4x4x24xbf16, #fusion.axes<#p, [-, -, serial(2) * stream(4)]>>
  %2 = fusion.reduce sum %1 dims [1] : tensor<4x4x24xbf16, #fusion.axes<#p, [-, -, serial(2) * stream(4)]>> -> tensor<4x24xbf16, #fusion.axes<#p, [-, serial(2) * stream(4)]>>
  %3 = fusion.reshard %1 : tensor<4x4x24xbf16, #fusion.axes<#p, [-, -, serial(2) * stream(4)]>> -> tensor<4x4x24xbf16, #fusion.axes<#p, [didx("x"), -, serial(2) * stream(4)]>>
  return %2, %3 : tensor<4x24xbf16, #fusion.axes<#p, [-, serial(2) * stream(4)]>>, tensor<4x4x24xbf16, #fusion.axes<#p, [didx("x"), -, serial(2) * stream(4)]>>
}
