// RUN: rm -rf %t && tandem-opt %s --tandem-lower="snapshots=%t" -o %t.mlir && cat %t/*-convert-fusion-to-hostir.mlir | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=FIRST
// RUN: tandem-compile --dump %t.tsp --rank=3 | FileCheck %s --check-prefix=SECOND

// Two stages of a pipeline, each on devices of its own, two rows of a batch at a time: the second stage works on a slice
// while the first makes the next one.

// HOSTIR: hostir.in_mesh
// HOSTIR: scf.if
// HOSTIR: hostir.matmul
// HOSTIR: hostir.send
// HOSTIR: hostir.matmul
//
// FIRST: matmul
// FIRST: send
// FIRST-NOT: recv c
// SECOND: recv
// SECOND: matmul
// SECOND-NOT: send c

#first = #tandem.mesh<"first", ["x" = 2], devices = [0, 2]>
#second = #tandem.mesh<"second", ["y" = 2], devices = [3, 1]>

func.func @two_meshes(
    %x: tensor<8x6xf32, #fusion.axes<#first, [stream(4), -]>> {fusion.name = "x"},
    %a: tensor<6x?xf32, #fusion.axes<#first, [-, didx("x")]>> {fusion.name = "a", fusion.shape = [6, 8]},
    %b: tensor<?x5xf32, #fusion.axes<#second, [didx("y"), -]>> {fusion.name = "b", fusion.shape = [8, 5]})
    -> (tensor<8x5xf32, #fusion.axes<#second, [stream(4), -]>> {fusion.name = "out"}) {
  %0 = fusion.matmul %x, %a
      : tensor<8x6xf32, #fusion.axes<#first, [stream(4), -]>>, tensor<6x?xf32, #fusion.axes<#first, [-, didx("x")]>>
     -> tensor<8x?xf32, #fusion.axes<#first, [stream(4), didx("x")]>>
  %1 = fusion.reshard %0
      : tensor<8x?xf32, #fusion.axes<#first, [stream(4), didx("x")]>> -> tensor<8x?xf32, #fusion.axes<#second, [stream(4), didx("y")]>>
  %2 = fusion.matmul %1, %b
      : tensor<8x?xf32, #fusion.axes<#second, [stream(4), didx("y")]>>, tensor<?x5xf32, #fusion.axes<#second, [didx("y"), -]>>
     -> tensor<8x5xf32, #fusion.axes<#second, [stream(4), -], partial = ["y"]>>
  %3 = fusion.reshard %2
      : tensor<8x5xf32, #fusion.axes<#second, [stream(4), -], partial = ["y"]>> -> tensor<8x5xf32, #fusion.axes<#second, [stream(4), -]>>
  return %3 : tensor<8x5xf32, #fusion.axes<#second, [stream(4), -]>>
}
