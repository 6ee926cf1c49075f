// RUN: %round links.node.topology='"mesh"' links.node.sharing=null links.node.bandwidth='[50, "GB/s"]' > %t.mesh.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule=machine=%t.mesh.json | FileCheck %s --check-prefix=MESH
// RUN: %round > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule=machine=%t.json | FileCheck %s --check-prefix=SWITCH

// Between devices with a link to each other one, puts to several peers at once are tried. With a switch they share a port.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>
!w = tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>

// MESH: fusion.stream_loop schedule <push, copies = 4> from cost
// MESH: fusion.reshard {{.*}}[stream(8) * stream(4), -]>>
// SWITCH: fusion.stream_loop schedule <push
// SWITCH-NOT: copies
// SWITCH: fusion.reshard
func.func @gather(%x: !x, %w: !w) -> !y {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}
