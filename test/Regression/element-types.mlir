// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s -o %t.tsp
// RUN: tandem-check %t.tsp

// CHECK: verified

// Elements of 1, 8 and 64 bits are arguments and results, are computed, gathered and reduced; a scalar is a tensor without
// dimensions.
#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#all = #fusion.axes<#tp, [-, -]>
#one = #fusion.axes<#tp, []>
#rows1 = #fusion.axes<#tp, [didx("x")]>
#all1 = #fusion.axes<#tp, [-]>
#partial = #fusion.axes<#tp, [-], partial = ["x"]>
func.func @types(
    %mask: tensor<8x6xi1, #rows>, %x: tensor<8x6xf64, #rows>, %w: tensor<6x4xf64, #all>, %b: tensor<8x6xi8, #rows>,
    %i: tensor<8x6xi64, #rows>, %scale: tensor<f64, #one>, %on: tensor<i1, #one>)
    -> (tensor<8x6xi1, #all>, tensor<8x4xf64, #all>, tensor<8x6xi8, #all>, tensor<8x6xi64, #all>,
        tensor<8xi1, #all1>, tensor<6xi64, #all1>) {
  %s = fusion.broadcast %scale dims [] : tensor<f64, #one> -> tensor<8x6xf64, #rows>
  %o = fusion.broadcast %on dims [] : tensor<i1, #one> -> tensor<8x6xi1, #rows>
  %scaled = arith.mulf %x, %s : tensor<8x6xf64, #rows>
  %more = arith.cmpf ogt, %x, %s : tensor<8x6xf64, #rows>
  %m = arith.xori %mask, %more : tensor<8x6xi1, #rows>
  %n = arith.andi %m, %o : tensor<8x6xi1, #rows>
  %chosen = arith.select %n, %scaled, %x : tensor<8x6xi1, #rows>, tensor<8x6xf64, #rows>
  %y = fusion.matmul %chosen, %w : tensor<8x6xf64, #rows>, tensor<6x4xf64, #all> -> tensor<8x4xf64, #rows>
  %zero = arith.constant dense<0> : tensor<8x6xi8, #rows>
  %quotient = arith.divsi %b, %zero : tensor<8x6xi8, #rows>
  %bytes = arith.subi %quotient, %b : tensor<8x6xi8, #rows>
  %wide = arith.extsi %bytes : tensor<8x6xi8, #rows> to tensor<8x6xi64, #rows>
  %rest = arith.remsi %i, %wide : tensor<8x6xi64, #rows>
  %long = arith.muli %rest, %i : tensor<8x6xi64, #rows>
  %any = fusion.reduce max %n dims [1] : tensor<8x6xi1, #rows> -> tensor<8xi1, #rows1>
  %sum = fusion.reduce sum %long dims [0] : tensor<8x6xi64, #rows> -> tensor<6xi64, #partial>
  %r0 = fusion.reshard %n : tensor<8x6xi1, #rows> -> tensor<8x6xi1, #all>
  %r1 = fusion.reshard %y : tensor<8x4xf64, #rows> -> tensor<8x4xf64, #all>
  %r2 = fusion.reshard %bytes : tensor<8x6xi8, #rows> -> tensor<8x6xi8, #all>
  %r3 = fusion.reshard %long : tensor<8x6xi64, #rows> -> tensor<8x6xi64, #all>
  %r4 = fusion.reshard %any : tensor<8xi1, #rows1> -> tensor<8xi1, #all1>
  %r5 = fusion.reshard %sum : tensor<6xi64, #partial> -> tensor<6xi64, #all1>
  return %r0, %r1, %r2, %r3, %r4, %r5 : tensor<8x6xi1, #all>, tensor<8x4xf64, #all>, tensor<8x6xi8, #all>,
      tensor<8x6xi64, #all>, tensor<8xi1, #all1>, tensor<6xi64, #all1>
}
