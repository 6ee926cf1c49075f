// RUN: tandem-compile %s --entry=matmul_allreduce_push --mesh x=2 --dump --rank=0 | FileCheck %s
// RUN: tandem-compile %s --entry=allreduce_then_matmul_push --mesh x=2 --dump --rank=0 | FileCheck %s --check-prefix=NEXT
// RUN: tandem-compile %s --entry=allreduce_then_matmul_push --mesh x=4 -o %t.tsp && tandem-check %t.tsp --queues=1
// RUN: tandem-compile %s --entry=allreduce_then_matmul_push --mesh x=2 -o %t.2.tsp && tandem-check %t.2.tsp --queues=1
// RUN: tandem-compile %s --entry=matmul_allreduce_push --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=FOUR
// RUN: tandem-compile %s --entry=matmul_allreduce_push --mesh x=3 --workers=1 -o %t.3.tsp && tandem-check %t.3.tsp --queues=1
// RUN: tandem-compile %s --entry=matmul_allreduce_push --mesh x=4 --workers=1 --dump --rank=0 | FileCheck %s --check-prefix=ONE

// An all-reduce by puts: in each round a device computes a slice of its peer and puts it there, then one of its own. It
// adds the two partial sums of its slice and puts the sum to its peer, behind the next round's partial sum and in the same
// stream. It waits for the sum of its peer after its own sum has been sent: before that, the waiting kernel would slow down
// the matmuls.
//
// CHECK: s0 matmul buf{{.*}}:f32[12,16] = arg0+
// CHECK: s1 put c0 sym[[TERMS:[0-9]+]]:f32[12,16] <- buf{{.*}} to 1
// CHECK-NEXT: s1 signal c0 slot 0 value 1 to 1
// CHECK-NEXT: s0 matmul sym[[TERMS]]:f32[12,16] = arg0:
// CHECK: s3 wait_signal c0 slot 1 value 1
// CHECK-NEXT: s3 reduce sum arg2:f32[12,16] <- sym[[TERMS]]:f32[2,12,16]
// CHECK-NEXT: s0 matmul
// CHECK: s1 put c0 sym[[TERMS]]+1536:f32[12,16] <- buf{{.*}} to 1
// CHECK-NEXT: s1 signal c0 slot 0 value 2 to 1
// CHECK-NEXT: s3 record [[SUM:e[0-9]+]]
// CHECK-NEXT: s1 wait [[SUM]]
// CHECK-NEXT: s1 put c0 sym[[SUMS:[0-9]+]]:f32[12,16] <- arg2:f32[12,16] to 1
// CHECK-NEXT: s1 signal c0 slot 2 value 1 to 1
// CHECK-NEXT: s1 record [[SENT:e[0-9]+]]
// CHECK-NEXT: s2 wait [[SENT]]
// CHECK-NEXT: s2 wait_signal c0 slot 3 value 1
// CHECK-NEXT: s2 copy arg2+1536:f32[12,16] <- sym[[SUMS]]+1536:f32[12,16]
// CHECK-NEXT: s0 matmul
// CHECK: s3 reduce sum arg2+768:f32[12,16]
//
// With more devices, the first sum of a round comes behind the second partial sum of the next one: it is reduced meanwhile.
// The wait for the n-th sum begins when the n-th copy of the own one has been sent.
//
// FOUR: s3 reduce sum arg2:f32[6,16]
// FOUR: s1 put c0 sym[[TERMS:[0-9]+]]+1536:f32[6,16] <- buf{{.*}} to 3
// FOUR: s1 put c0 sym[[TERMS]]+1536:f32[6,16] <- buf{{.*}} to 2
// FOUR-NEXT: s1 signal
// FOUR: s1 put c0 sym[[SUMS:[0-9]+]]:f32[6,16] <- arg2:f32[6,16] to 3
// FOUR-NEXT: s1 signal c0 slot 4 value 1 to 3
// FOUR-NEXT: s1 record [[SENT:e[0-9]+]]
// FOUR-NEXT: s2 wait [[SENT]]
// FOUR-NEXT: s2 wait_signal c0 slot 5 value 1
// FOUR-NEXT: s2 copy arg2+768:f32[6,16] <- sym[[SUMS]]+768:f32[6,16]
// FOUR: s1 put c0 sym[[TERMS]]+1536:f32[6,16] <- buf{{.*}} to 1
// FOUR: s1 put c0 sym[[SUMS]]:f32[6,16] <- arg2:f32[6,16] to 2
// FOUR: s1 put c0 sym[[SUMS]]:f32[6,16] <- arg2:f32[6,16] to 1
// FOUR: s3 reduce sum arg2+384:f32[6,16]
//
// With one worker the partial sums of a round are sent before the wait for those of the round before.
//
// ONE: s1 put c0 sym[[TERMS:[0-9]+]]+1536:f32[6,16] <- buf{{.*}} to 3
// ONE: s1 put c0 sym[[TERMS]]+1536:f32[6,16] <- buf{{.*}} to 2
// ONE: s1 put c0 sym[[TERMS]]+1536:f32[6,16] <- buf{{.*}} to 1
// ONE: s1 wait_signal
// ONE: s1 reduce sum arg2:f32[6,16]
// ONE: s1 put c0 sym[[SUMS:[0-9]+]]:f32[6,16] <- arg2:f32[6,16] to 3
// ONE-NOT: wait_signal
// ONE: s1 put c0 sym[[SUMS]]:f32[6,16] <- arg2:f32[6,16] to 1
//
// What follows works on the sums where they are, first on the own ones.
//
// NEXT: s3 reduce sum sym[[SUMS:[0-9]+]]:f32[12,16]
// NEXT: s2 launch
// NEXT-NEXT: s2 matmul arg4:f32[12,12]
// NEXT: s1 put c0 sym[[SUMS]]:f32[12,16] <- sym[[SUMS]]:f32[12,16] to 1
// NEXT-NEXT: s1 signal c0 slot 2 value 1 to 1
// NEXT-NEXT: s1 record [[SENT:e[0-9]+]]
// NEXT-NEXT: s2 wait [[SENT]]
// NEXT-NEXT: s2 wait_signal c0 slot 3 value 1
// NEXT: s2 launch
// NEXT-NEXT: s2 matmul arg4+1152:f32[12,12]

#mesh = #tandem.mesh<"m", ["x" = ?]>
!x = tensor<48x24xf32, #fusion.axes<#mesh, [-, didx("x")]>>
!w = tensor<24x16xf32, #fusion.axes<#mesh, [didx("x"), -]>>
!t = tensor<48x16xf32, #fusion.axes<#mesh, [stream("x") * stream(2), -], partial = ["x"]>>
!y = tensor<48x16xf32, #fusion.axes<#mesh, [stream("x") * stream(2), -]>>
func.func @matmul_allreduce_push(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !t -> !y
  return %1 : !y
}
!w2 = tensor<16x12xf32, #fusion.axes<#mesh, [-, -]>>
!z = tensor<48x12xf32, #fusion.axes<#mesh, [stream("x") * stream(2), -]>>
func.func @allreduce_then_matmul_push(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %v: !w2 {fusion.name = "v"}, %r: !y {fusion.name = "r"}) -> (!z {fusion.name = "z"}) {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !t -> !y
  %2 = arith.addf %1, %r : !y
  %3 = math.tanh %2 : !y
  %4 = fusion.matmul %3, %v : !y, !w2 -> !z
  return %4 : !z
}
