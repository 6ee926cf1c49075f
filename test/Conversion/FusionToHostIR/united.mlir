// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s --implicit-check-not="hostir.matmul %"

// Two chains that meet end in one loop: what is sliced alike and does not wait for the other. Products that are added up are
// computed into the memory of the sum.

#tp = #tandem.mesh<"tp", ["x" = 2]>
#r = #fusion.axes<#tp, [-, -]>
#cols = #fusion.axes<#tp, [-, didx("x")]>
#s4 = #fusion.axes<#tp, [stream(4), -]>
// CHECK-LABEL: hostir.program @meet(
// CHECK: scf.for
// CHECK-NEXT: hostir.worker_stream
// CHECK-NEXT: hostir.sync
// CHECK: scf.for
// CHECK: hostir.collective all_gather
// CHECK: hostir.collective all_gather
// CHECK: hostir.matmul %
// CHECK: hostir.matmul %{{.*}} {accumulate}
// CHECK-NOT: hostir.launch
// CHECK: scf.for
// CHECK-NEXT: hostir.worker_stream
// CHECK-NEXT: hostir.sync
// CHECK-NOT: scf.for
func.func @meet(%a: tensor<16x16xf32, #cols>, %b: tensor<16x16xf32, #cols>, %w: tensor<16x16xf32, #r>)
    -> tensor<16x16xf32, #s4> {
  %g = fusion.reshard %a : tensor<16x16xf32, #cols> -> tensor<16x16xf32, #s4>
  %h = fusion.reshard %b : tensor<16x16xf32, #cols> -> tensor<16x16xf32, #s4>
  %y = fusion.matmul %g, %w : tensor<16x16xf32, #s4>, tensor<16x16xf32, #r> -> tensor<16x16xf32, #s4>
  %z = fusion.matmul %h, %w : tensor<16x16xf32, #s4>, tensor<16x16xf32, #r> -> tensor<16x16xf32, #s4>
  %e = arith.addf %y, %z : tensor<16x16xf32, #s4>
  return %e : tensor<16x16xf32, #s4>
}

// -----

// A view alone is no loop: the bias is read by the loop of what it is added to. That it stands first does not keep the
// gather from its schedule.

#tp = #tandem.mesh<"tp", ["x" = 2]>
#r = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#s4 = #fusion.axes<#tp, [stream(4), -]>
// CHECK-LABEL: hostir.program @bias(
// CHECK: hostir.matmul %
// CHECK: hostir.launch @bias.addf
// CHECK: hostir.group
// CHECK: hostir.matmul %
// CHECK: hostir.launch @bias.addf
// CHECK: scf.for
// CHECK-NEXT: hostir.worker_stream
// CHECK-NEXT: hostir.sync
// CHECK-NOT: scf.for
func.func @bias(%a: tensor<16x16xf32, #rows>, %w: tensor<16x16xf32, #r>, %b: tensor<16xf32, #fusion.axes<#tp, [-]>>)
    -> tensor<16x16xf32, #s4> {
  %bb = fusion.broadcast %b dims [1] : tensor<16xf32, #fusion.axes<#tp, [-]>> -> tensor<16x16xf32, #s4>
  %g = fusion.reshard %a {schedule = #fusion.schedule<exchange>} : tensor<16x16xf32, #rows> -> tensor<16x16xf32, #s4>
  %y = fusion.matmul %g, %w : tensor<16x16xf32, #s4>, tensor<16x16xf32, #r> -> tensor<16x16xf32, #s4>
  %e = arith.addf %y, %bb : tensor<16x16xf32, #s4>
  return %e : tensor<16x16xf32, #s4>
}

// -----

// One uses what the other makes, whole: they stay two.

#tp = #tandem.mesh<"tp", ["x" = 2]>
#r = #fusion.axes<#tp, [-, -]>
#cols = #fusion.axes<#tp, [-, didx("x")]>
#s4 = #fusion.axes<#tp, [stream(4), -]>
// CHECK-LABEL: hostir.program @dependent(
// CHECK: hostir.collective all_gather
// CHECK: hostir.sync %[[MAIN:.+]] after
// CHECK: hostir.copy {{.*}} on %[[MAIN]]
// CHECK: scf.for
// CHECK: hostir.collective all_gather
// CHECK: hostir.matmul %
// CHECK: hostir.launch @dependent.addf
func.func @dependent(%a: tensor<16x16xf32, #cols>, %b: tensor<16x16xf32, #cols>) -> tensor<16x16xf32, #s4> {
  %g = fusion.reshard %a : tensor<16x16xf32, #cols> -> tensor<16x16xf32, #s4>
  %whole = fusion.reshard %g : tensor<16x16xf32, #s4> -> tensor<16x16xf32, #r>
  %h = fusion.reshard %b : tensor<16x16xf32, #cols> -> tensor<16x16xf32, #s4>
  %y = fusion.matmul %h, %whole : tensor<16x16xf32, #s4>, tensor<16x16xf32, #r> -> tensor<16x16xf32, #s4>
  %e = arith.addf %g, %y : tensor<16x16xf32, #s4>
  return %e : tensor<16x16xf32, #s4>
}

// -----

// exchange goes through the slices in an order of each rank's own: where others own the slices, two stay two.

#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#turns = #fusion.axes<#tp, [serial(2) * didx("x"), -]>
#s4 = #fusion.axes<#tp, [stream(4), -]>
// CHECK-LABEL: hostir.program @apart(
// CHECK: hostir.group
// CHECK-NOT: hostir.launch
// CHECK: hostir.sync %0 after
// CHECK: hostir.launch @apart.addf
// CHECK: hostir.group
// CHECK: hostir.launch @apart.addf
func.func @apart(%a: tensor<16x16xf32, #rows>, %b: tensor<16x16xf32, #turns>) -> tensor<16x16xf32, #s4> {
  %g = fusion.reshard %a {schedule = #fusion.schedule<exchange>} : tensor<16x16xf32, #rows> -> tensor<16x16xf32, #s4>
  %h = fusion.reshard %b {schedule = #fusion.schedule<exchange>} : tensor<16x16xf32, #turns> -> tensor<16x16xf32, #s4>
  %e = arith.addf %g, %h : tensor<16x16xf32, #s4>
  return %e : tensor<16x16xf32, #s4>
}

// -----

// A reshape that keeps the slices stays in the loop.

#tp = #tandem.mesh<"tp", ["x" = 2]>
#cols = #fusion.axes<#tp, [-, didx("x")]>
#s4 = #fusion.axes<#tp, [stream(4), -]>
#heads = #fusion.axes<#tp, [stream(4), -, -]>
// CHECK-LABEL: hostir.program @heads(
// CHECK: hostir.collective all_gather
// CHECK: hostir.launch @heads.tanh
// CHECK: scf.for
// CHECK-NEXT: hostir.worker_stream
// CHECK-NEXT: hostir.sync
// CHECK-NOT: scf.for
func.func @heads(%x: tensor<16x16xf32, #cols>) -> tensor<16x4x4xf32, #heads> {
  %g = fusion.reshard %x : tensor<16x16xf32, #cols> -> tensor<16x16xf32, #s4>
  %h = fusion.reshape %g : tensor<16x16xf32, #s4> -> tensor<16x4x4xf32, #heads>
  %t = math.tanh %h : tensor<16x4x4xf32, #heads>
  return %t : tensor<16x4x4xf32, #heads>
}

// -----

// Two gathers by exchange whose slices the same devices own: one loop, and one group of messages a step.

#tp = #tandem.mesh<"tp", ["x" = 4]>
#r = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#s4 = #fusion.axes<#tp, [stream(4), -]>
// CHECK-LABEL: hostir.program @exchanges(
// CHECK: hostir.matmul %arg0
// CHECK: hostir.matmul %arg1{{.*}} {accumulate}
// CHECK: hostir.group
// CHECK-NEXT: hostir.recv
// CHECK-NEXT: hostir.send
// CHECK-NEXT: hostir.recv
// CHECK-NEXT: hostir.send
// CHECK: hostir.matmul %
// CHECK: hostir.matmul %{{.*}} {accumulate}
// CHECK-NOT: hostir.launch
// CHECK: scf.for
// CHECK-NEXT: hostir.worker_stream
// CHECK-NEXT: hostir.sync
// CHECK-NOT: scf.for
func.func @exchanges(%a: tensor<16x16xf32, #rows>, %b: tensor<16x16xf32, #rows>, %w: tensor<16x16xf32, #r>)
    -> tensor<16x16xf32, #s4> {
  %g = fusion.reshard %a {schedule = #fusion.schedule<exchange>} : tensor<16x16xf32, #rows> -> tensor<16x16xf32, #s4>
  %h = fusion.reshard %b {schedule = #fusion.schedule<exchange>} : tensor<16x16xf32, #rows> -> tensor<16x16xf32, #s4>
  %y = fusion.matmul %g, %w : tensor<16x16xf32, #s4>, tensor<16x16xf32, #r> -> tensor<16x16xf32, #s4>
  %z = fusion.matmul %h, %w : tensor<16x16xf32, #s4>, tensor<16x16xf32, #r> -> tensor<16x16xf32, #s4>
  %e = arith.addf %y, %z : tensor<16x16xf32, #s4>
  return %e : tensor<16x16xf32, #s4>
}
