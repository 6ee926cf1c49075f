// RUN: tandem-compile %s --mesh x=512 --no-reference -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s
// RUN: not tandem-compile %s --mesh x=512 -o %t.tsp 2>&1 | FileCheck %s --check-prefix=CARRIED

// 128 TiB on all devices. A program that does not carry its unsharded reference is compared with it all the same: nothing
// allocates it. One that carries it is refused, since no device could run the reference.
//
// CHECK: results against the unsharded reference: sampled
// CARRIED: error: the stream program is invalid: memory: reference: field arena_bytes: 140737488355328 is over the limit of 1099511627776 bytes; leave the reference out (--no-reference)

#tp = #tandem.mesh<"tp", ["x" = ?]>
!x = tensor<16777216x2097152xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @layer(%x: !x {fusion.name = "x"}) -> (!x {fusion.name = "y"}, tensor<16777216xf32, #fusion.axes<#tp, [didx("x")]>> {fusion.name = "z"}) {
  %t = math.tanh %x : !x
  %e = math.exp %t : !x
  %z = fusion.reduce sum %t dims [1] : !x -> tensor<16777216xf32, #fusion.axes<#tp, [didx("x")]>>
  return %e, %z : !x, tensor<16777216xf32, #fusion.axes<#tp, [didx("x")]>>
}
