// RUN: tandem-compile %s --entry=gather_copies --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=GATHER
// RUN: tandem-compile %s --entry=reduce_copies --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=REDUCE

// The schedule `push` with several copy streams: peers are pushed to at once.
//
// Slice 0 to ranks 3, 2 and 1, then slice 1. Streams are forked before, so that 1 to 2 copy.
//
// GATHER: s2 put {{.*}} to 3
// GATHER-NEXT: s2 signal c0
// GATHER-NEXT: s1 put {{.*}} to 2
// GATHER-NEXT: s1 signal c0
// GATHER-NEXT: s2 put {{.*}} to 1
// GATHER-NEXT: s2 signal c0
// GATHER-NEXT: s2 put {{.*}} to 3
// GATHER: s0 matmul
// GATHER: s0 wait_signal c0 slot 1 value 1
// GATHER: s0 wait_signal c0 slot 2 value 1
// GATHER: s0 wait_signal c0 slot 3 value 1
// GATHER: s0 wait_signal c0 slot 1 value 2
//
// Slices are computed in this order, too.
//
// REDUCE: s0 matmul
// REDUCE: s2 put {{.*}} to 1
// REDUCE: s0 matmul
// REDUCE: s1 put {{.*}} to 2
// REDUCE: s0 matmul
// REDUCE: s2 put {{.*}} to 3
// REDUCE: s0 matmul
// REDUCE: s2 put {{.*}} to 1

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @gather_copies(
    %x: tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x", fusion.shape = [48, 16]},
    %w: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<?x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>> {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push, copies = 2>}
      : tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>
  %y = fusion.matmul %g, %w
      : tensor<?x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<?x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
  return %y : tensor<?x24xf32, #fusion.axes<#tp, [stream("x") * stream(2), didx("x")]>>
}

func.func @reduce_copies(
    %x: tensor<?x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x", fusion.shape = [48, 24]},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<?x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<?x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, copies = 2>}
      : tensor<?x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
     -> tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

// More copy streams than workers or peers; a second compute stream if a worker is left.
func.func @many_copies(
    %x: tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x", fusion.shape = [48, 16]},
    %w: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "w"})
    -> (tensor<?x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>> {fusion.name = "y"}) {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push, copies = 9, streams = 2>}
      : tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %y = fusion.matmul %g, %w
      : tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<?x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  return %y : tensor<?x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
}
