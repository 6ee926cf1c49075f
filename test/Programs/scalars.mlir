// RUN: tandem-compile %s --entry=residual --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s

// Scalar arguments: a factor, its square, and a condition. The program describes them as tensors without dimensions.
//
// CHECK: argument {{.*}}"s"{{.*}}f32

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>
#all = #fusion.axes<#tp, [-, -]>

// y = s AG(x) W + s^2 r, slice by slice; the squared factor is a result, too.
func.func @residual(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x24xf32, #all> {fusion.name = "w"},
    %r: tensor<48x24xf32, #all> {fusion.name = "r"}, %s: f32 {fusion.name = "s"})
    -> (tensor<48x24xf32, #slices> {fusion.name = "y"}, f32 {fusion.name = "squared"}) {
  %0 = fusion.matmul %x, %w : tensor<48x16xf32, #rows>, tensor<16x24xf32, #all> -> tensor<48x24xf32, #slices>
  %1 = tensor.splat %s : tensor<48x24xf32, #slices>
  %2 = arith.mulf %0, %1 : tensor<48x24xf32, #slices>
  %squared = arith.mulf %s, %s : f32
  %3 = tensor.splat %squared : tensor<48x24xf32, #slices>
  %4 = fusion.reshard %r : tensor<48x24xf32, #all> -> tensor<48x24xf32, #slices>
  %5 = arith.mulf %4, %3 : tensor<48x24xf32, #slices>
  %y = arith.addf %2, %5 : tensor<48x24xf32, #slices>
  return %y, %squared : tensor<48x24xf32, #slices>, f32
}

// A comparison of scalars chooses one of two tensors.
func.func @larger(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %y: tensor<48x16xf32, #rows> {fusion.name = "y"},
    %a: f32 {fusion.name = "a"}, %b: f32 {fusion.name = "b"}) -> (tensor<48x16xf32, #all> {fusion.name = "z"}) {
  %more = arith.cmpf ogt, %a, %b : f32
  %z = arith.select %more, %x, %y : tensor<48x16xf32, #rows>
  %all = fusion.reshard %z : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #all>
  return %all : tensor<48x16xf32, #all>
}
