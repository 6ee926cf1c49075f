// RUN: %round > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true collectives=true workers=4 among={{1/2=push, slices = 8, dim = 0, per_owner = 2}}' | FileCheck %s
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true collectives=true workers=4 among={{1/2=push, slices = 8, dim = 0, per_owner = 2}} log=true' 2>/dev/null | FileCheck %s
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true collectives=true workers=4 among={{1/2=push, streams = 2, slices = 8, dim = 0, per_owner = 2},{1/2=push, merge = [1, 1, 2], order = xor, slices = 8, dim = 0, per_owner = 2}}' | FileCheck %s --check-prefix=COMMAS
// RUN: not tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json among="1/2=push, streams = 2, slices = 8, dim = 0, per_owner = 2"' 2>&1 | FileCheck %s --check-prefix=APART
// RUN: not tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json tuned="0123456789abcdef=push, streams = 2"' 2>&1 | FileCheck %s --check-prefix=TUNED

// COMMAS: fusion.stream_loop schedule <push, streams = 2>
// A part of a candidate is none.
// APART: error: option among: expected I/N=CANDIDATE, in braces if it has commas, found "{{ ?}}streams = 2"
// TUNED: error: option tuned: expected LOOP=CANDIDATE, in braces if it has commas, found "{{ ?}}streams = 2"

// Option `among` names a candidate of the second loop alone, and that loop gets it, though the first one, which is the same,
// gets another; with and without a log.

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<4096x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<4096x4096xbf16, #fusion.axes<#tp, [-, -]>>
!w = tensor<4096x4096xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<4096x4096xbf16, #fusion.axes<#tp, [-, didx("x")]>>

// CHECK-LABEL: func.func @twice
// CHECK: fusion.stream_loop
// CHECK: fusion.reshard {{.*}} -> tensor<4096x4096xbf16, #fusion.axes<#tp, [stream(4), -]>>
// CHECK: fusion.stream_loop schedule <push>
// CHECK: fusion.reshard {{.*}} -> tensor<4096x4096xbf16, #fusion.axes<#tp, [stream(4) * stream(2), -]>>
func.func @twice(%x: !x, %w: !w, %u: !x, %v: !w) -> (!y, !y) {
  %0 = fusion.reshard %x : !x -> !g
  %1 = fusion.matmul %0, %w : !g, !w -> !y
  %2 = fusion.reshard %u : !x -> !g
  %3 = fusion.matmul %2, %v : !g, !w -> !y
  return %1, %3 : !y, !y
}
