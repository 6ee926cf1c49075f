// RUN: tandem-compile %s --mesh node=2,gpu=2 --dump --rank=1 | FileCheck %s

// The gathered value is a result of the program: each slice is received in symmetric memory and copied when it has come.
//
// CHECK: s2   recv c0 [[PLACE:sym.*]]:f32[12,16] from 3
// CHECK: s0 copy arg1+768:f32[12,16] <- arg0:f32[12,16]
// CHECK: s0 wait_signal c1 slot 0 value 1
// CHECK-NEXT: s0 copy arg1:f32[12,16] <- sym0:f32[12,16]
// CHECK: s1 put c1 [[PLACE]]:f32[12,16] <- [[PLACE]]:f32[12,16] to 0
// CHECK: s0 copy arg1+2304:f32[12,16] <- [[PLACE]]:f32[12,16]

#pod = #tandem.mesh<"pod", ["node" = ?, "gpu" = ?]>
!x = tensor<48x16xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!xs = tensor<48x16xf32, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>

func.func @gather_only(%x: !x {fusion.name = "x"}) -> (!xs {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical>} : !x -> !xs
  return %0 : !xs
}
