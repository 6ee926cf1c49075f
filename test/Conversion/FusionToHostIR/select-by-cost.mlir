// RUN: %round device.sm_interference='[5, "1"]' > %t.json
// RUN: %round device.sm_interference='[5, "1"]' links.node.topology='"mesh"' links.node.sharing=null links.node.bandwidth='[50, "GB/s"]' > %t.mesh.json
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false' | FileCheck %s --check-prefixes=CHECK,SWITCH
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule='machine=%t.mesh.json one-sided=false' | FileCheck %s --check-prefixes=CHECK,MESH
// RUN: tandem-opt %s -split-input-file -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=false log' -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOG

#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<8192x8192xbf16, #fusion.axes<#tp, [stream(8), -]>>
!w = tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<8192x28672xbf16, #fusion.axes<#tp, [stream(8), didx("x")]>>

// Large slices of one owner: what takes SMs hides little, whatever it is.
// LOG: remark: fusion-select-schedule: all-gather goes through schedule pipeline: pipeline {{[0-9.]+}} us; exchange {{[0-9.]+}} us{{.*}} (round)
// LOG: remark: fusion-select-schedule: 1 pipeline, 0 annotated
// CHECK-LABEL: func.func @large
// CHECK: fusion.stream_loop schedule <pipeline> from cost
func.func @large(%x: !x, %w: !w) -> !y {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}

// -----

// Small ones: on one machine messages are quicker than broadcasts, on the other they are not.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<256x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<256x4096xbf16, #fusion.axes<#tp, [stream(8), -]>>
!w = tensor<4096x1024xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<256x1024xbf16, #fusion.axes<#tp, [stream(8), didx("x")]>>

// CHECK-LABEL: func.func @small
// SWITCH: fusion.stream_loop schedule <exchange> from cost
// MESH: fusion.stream_loop schedule <pipeline> from cost
func.func @small(%x: !x, %w: !w) -> !y {
  %g = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %g, %w : !g, !w -> !y
  return %y : !y
}

// -----

// A named schedule is kept, and what it is on keeps its slices: none.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>

// LOG: remark: fusion-select-schedule: all-gather keeps schedule pipeline
// CHECK-LABEL: func.func @named
// CHECK: fusion.stream_loop schedule <pipeline> from annotation {{.*}}[-, -]>>
func.func @named(%x: !x) -> !g {
  %g = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !g
  return %g : !g
}
