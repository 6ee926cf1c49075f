// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=gather_k --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// A stream over a dimension that is contracted: slices come on the workers, and the main stream adds up what they give.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#r = #fusion.axes<#tp, [-, -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [-, stream("x")]>

// Copies of one result are equal to the last bit, so all devices add up in one order: no exchange, and the first slice is
// known by its number. The bias goes with it.
//
// HOSTIR-LABEL: hostir.program @gather_k(
// HOSTIR-SAME: %[[X:[^:]+]]: memref<16x12xf32> {{.*}} %[[W:[^:]+]]: memref<48x24xf32> {{.*}} %[[B:[^:]+]]: memref<24xf32> {{.*}} %[[Y:[^:]+]]: memref<16x24xf32>
// HOSTIR: %[[MAIN:.+]] = hostir.main_stream
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// HOSTIR: %[[S:.+]] = hostir.worker_stream %[[I]]
// HOSTIR: hostir.collective broadcast %[[X]] to %[[SLICE:.+]] root %[[I]] {{.*}} on %[[S]]
// HOSTIR: hostir.sync %[[MAIN]] after %[[S]]
// HOSTIR: %[[FIRST:.+]] = arith.cmpi eq, %[[I]], %c0
// HOSTIR: %[[ROWS:.+]] = memref.subview %[[W]]
// HOSTIR: scf.if %[[FIRST]]
// HOSTIR-NEXT: hostir.matmul %[[SLICE]], %[[ROWS]] bias %[[B]] to %[[Y]] on %[[MAIN]] :
// HOSTIR: else
// HOSTIR-NEXT: hostir.matmul %[[SLICE]], %[[ROWS]] to %[[Y]] on %[[MAIN]] {accumulate}
// HOSTIR: hostir.sync %[[S]] after %[[MAIN]]
//
// Four slices in flight, of 16 x 12.
//
// PLANNED-LABEL: hostir.program @gather_k(
// PLANNED-SAME: arena_bytes = 3072
// PLANNED: %[[SLICE:.+]] = hostir.alloc on %[[S:.+]] {offset = 0 : i64, pitch = 768 : i64}
// PLANNED: hostir.matmul %[[SLICE]]
// PLANNED: hostir.sync %[[S]] after %
// PLANNED-NEXT: hostir.dealloc %[[SLICE]] on %[[S]]
//
// RANK1: s0 matmul arg3:f32[16,24] = buf{{.+}} + arg2:f32[24]
// RANK1-COUNT-3: s0 matmul arg3:f32[16,24] += buf
func.func @gather_k(
    %x: tensor<16x48xf32, #columns> {fusion.name = "x"},
    %w: tensor<48x24xf32, #r> {fusion.name = "w"},
    %b: tensor<24xf32, #fusion.axes<#tp, [-]>> {fusion.name = "b"})
    -> (tensor<16x24xf32, #r> {fusion.name = "y"}) {
  %g = fusion.reshard %x : tensor<16x48xf32, #columns> -> tensor<16x48xf32, #slices>
  %y = fusion.matmul %g, %w bias %b
      : tensor<16x48xf32, #slices>, tensor<48x24xf32, #r>, tensor<24xf32, #fusion.axes<#tp, [-]>> -> tensor<16x24xf32, #r>
  return %y : tensor<16x24xf32, #r>
}

#chunks = #fusion.axes<#tp, [-, serial("x") * stream(3)]>
// A slice of every device's columns: runs of K, which accumulate one after another.
//
// HOSTIR-LABEL: hostir.program @gather_k_chunks(
// HOSTIR: hostir.collective all_gather
// HOSTIR: hostir.sync %[[MAIN:.+]] after %[[S:.+]]
// HOSTIR: scf.for %{{.+}} = %c0 to %c4 step %c1
// HOSTIR: hostir.matmul {{.*}} on %[[MAIN]] : memref<16x4xf32
// HOSTIR: else
// HOSTIR: hostir.matmul {{.*}} on %[[MAIN]] {accumulate}
// HOSTIR: hostir.sync %[[S]] after %[[MAIN]]
func.func @gather_k_chunks(
    %x: tensor<16x48xf32, #columns> {fusion.name = "x"},
    %w: tensor<48x24xf32, #r> {fusion.name = "w"})
    -> (tensor<16x24xf32, #r> {fusion.name = "y"}) {
  %g = fusion.reshard %x : tensor<16x48xf32, #columns> -> tensor<16x48xf32, #chunks>
  %y = fusion.matmul %g, %w : tensor<16x48xf32, #chunks>, tensor<48x24xf32, #r> -> tensor<16x24xf32, #r>
  return %y : tensor<16x24xf32, #r>
}

#tokens = #fusion.axes<#tp, [stream("x") * stream(2), -]>
// Results that are split over the devices: the own slices are first. Two matmuls add up in one loop.
//
// HOSTIR-LABEL: hostir.program @weight_gradients(
// HOSTIR-SAME: %[[DQ:[^:]+]]: memref<48x6xf32> {{.*}} %[[DK:[^:]+]]: memref<48x6xf32> {{.*}} %[[DWQ:[^:]+]]: memref<16x6xf32> {{.*}} %[[DWK:[^:]+]]: memref<16x6xf32>
// HOSTIR: hostir.matmul {{.*}} to %[[DWQ]] on %[[MAIN:.+]] {transpose_a}
// HOSTIR: hostir.matmul {{.*}} to %[[DWQ]] on %[[MAIN]] {accumulate, transpose_a}
// HOSTIR: hostir.group {{.*}} on %[[S:.+]] {
// HOSTIR: hostir.sync %[[MAIN]] after %[[S]]
// HOSTIR-NOT: hostir.sync
// HOSTIR: hostir.matmul {{.*}} to %[[DWQ]] on %[[MAIN]] {accumulate, transpose_a}
// HOSTIR-NOT: hostir.sync
// HOSTIR: hostir.matmul {{.*}} to %[[DWK]] on %[[MAIN]] {accumulate, transpose_a}
// HOSTIR: hostir.sync %[[S]] after %[[MAIN]]
//
// Four slices of 6 x 16 in flight.
//
// PLANNED-LABEL: hostir.program @weight_gradients(
// PLANNED-SAME: arena_bytes = 1536
func.func @weight_gradients(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"},
    %dq: tensor<48x24xf32, #columns> {fusion.name = "dq"},
    %dk: tensor<48x24xf32, #columns> {fusion.name = "dk"})
    -> (tensor<16x24xf32, #columns> {fusion.name = "dwq"}, tensor<16x24xf32, #columns> {fusion.name = "dwk"}) {
  %g = fusion.reshard %x : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #tokens>
  %dwq = fusion.matmul %g, %dq {transpose_a}
      : tensor<48x16xf32, #tokens>, tensor<48x24xf32, #columns> -> tensor<16x24xf32, #columns>
  %dwk = fusion.matmul %g, %dk {transpose_a}
      : tensor<48x16xf32, #tokens>, tensor<48x24xf32, #columns> -> tensor<16x24xf32, #columns>
  return %dwq, %dwk : tensor<16x24xf32, #columns>, tensor<16x24xf32, #columns>
}

#both = #fusion.axes<#tp, [stream(2), stream("x")]>
#of_m = #fusion.axes<#tp, [stream(2), -]>
// Slices of M have a sum each.
//
// HOSTIR-LABEL: hostir.program @gather_m_and_k(
// HOSTIR-SAME: %[[Y:[^:]+]]: memref<16x24xf32>
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c8 step %c1
// HOSTIR-DAG: %[[KI:.+]] = arith.remui %[[I]], %c4
// HOSTIR-DAG: %[[MI:.+]] = arith.divui %[[I]], %c4
// HOSTIR-DAG: %[[FIRST:.+]] = arith.cmpi eq, %[[KI]], %c0
// HOSTIR-DAG: %[[ROW:.+]] = arith.muli %[[MI]], %c8
// HOSTIR: %[[OUT:.+]] = memref.subview %[[Y]][%[[ROW]], 0] [8, 24]
// HOSTIR: scf.if %[[FIRST]]
// HOSTIR-NEXT: hostir.matmul {{.*}} to %[[OUT]]
// HOSTIR: else
// HOSTIR-NEXT: hostir.matmul {{.*}} to %[[OUT]] {{.*}} {accumulate}
func.func @gather_m_and_k(
    %x: tensor<16x48xf32, #columns> {fusion.name = "x"},
    %w: tensor<48x24xf32, #r> {fusion.name = "w"})
    -> (tensor<16x24xf32, #of_m> {fusion.name = "y"}) {
  %g = fusion.reshard %x : tensor<16x48xf32, #columns> -> tensor<16x48xf32, #both>
  %y = fusion.matmul %g, %w : tensor<16x48xf32, #both>, tensor<48x24xf32, #r> -> tensor<16x24xf32, #of_m>
  return %y : tensor<16x24xf32, #of_m>
}

#five = #fusion.axes<#tp, [-, stream(5)]>
#m = #fusion.axes<#tp, [didx("x"), -]>
// Reductions over slices of 5, 5, 5, 5 and 1, of what an op in the loop makes of them.
//
// HOSTIR-LABEL: hostir.program @reductions(
// HOSTIR: scf.if
// HOSTIR: hostir.launch @reductions.negf {{.*}} memref<48x1xf32
// HOSTIR: %[[TERM:.+]] = hostir.alloc on %[[MAIN:.+]] : memref<48xf32>
// HOSTIR: hostir.reduce max %{{.+}} to %[[TERM]] dims [1] on %[[MAIN]]
// HOSTIR: hostir.accumulate max %[[TERM]] into
// HOSTIR: hostir.accumulate min
// HOSTIR: hostir.accumulate sum
// HOSTIR: hostir.launch @reductions.negf {{.*}} memref<48x5xf32
// HOSTIR: hostir.reduce max
// HOSTIR: hostir.accumulate max
func.func @reductions(
    %x: tensor<48x21xf32, #m> {fusion.name = "x"})
    -> (tensor<48xf32, #fusion.axes<#tp, [-]>> {fusion.name = "max"}, tensor<48xf32, #fusion.axes<#tp, [-]>> {fusion.name = "min"},
        tensor<48xf32, #fusion.axes<#tp, [-]>> {fusion.name = "sum"}) {
  %g = fusion.reshard %x : tensor<48x21xf32, #m> -> tensor<48x21xf32, #five>
  %n = arith.negf %g : tensor<48x21xf32, #five>
  %max = fusion.reduce max %n dims [1] : tensor<48x21xf32, #five> -> tensor<48xf32, #fusion.axes<#tp, [-]>>
  %min = fusion.reduce min %n dims [1] : tensor<48x21xf32, #five> -> tensor<48xf32, #fusion.axes<#tp, [-]>>
  %sum = fusion.reduce sum %n dims [1] : tensor<48x21xf32, #five> -> tensor<48xf32, #fusion.axes<#tp, [-]>>
  return %max, %min, %sum : tensor<48xf32, #fusion.axes<#tp, [-]>>, tensor<48xf32, #fusion.axes<#tp, [-]>>, tensor<48xf32, #fusion.axes<#tp, [-]>>
}
