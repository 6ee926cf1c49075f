// RUN: tandem-compile %s --entry=block -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=BLOCK
// RUN: tandem-compile %s --entry=broadcast -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=BROADCAST
// RUN: tandem-compile %s --entry=counts -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=COUNTS

// Of tensors that are too large, data is checked at some indices. A rank that keeps none of those that one of its terms is a
// sum over still has the other term; a broadcast that is moved has all its indices, which cannot be sampled.
// BLOCK: data: sampled
// BLOCK: no error
// BROADCAST: data: not checked
// BROADCAST: no error
// COUNTS: data: checked
// COUNTS: no error

#tp = #tandem.mesh<"tp", ["x" = 8]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#vector = #fusion.axes<#tp, [-]>
#part = #fusion.axes<#tp, [-], partial = sum ["x"]>

func.func @block(
    %x: tensor<4096x2048xf32, #rows>, %wa: tensor<2048x2048xf32, #columns>, %wo: tensor<2048x2048xf32, #rows>,
    %w1: tensor<2048x8192xf32, #columns>, %w2: tensor<8192x2048xf32, #rows>) -> tensor<4096x2048xf32, #rows> {
  %a = fusion.matmul %x, %wa : tensor<4096x2048xf32, #rows>, tensor<2048x2048xf32, #columns> -> tensor<4096x2048xf32>
  %o = fusion.matmul %a, %wo : tensor<4096x2048xf32>, tensor<2048x2048xf32, #rows> -> tensor<4096x2048xf32>
  %h = fusion.matmul %x, %w1 : tensor<4096x2048xf32, #rows>, tensor<2048x8192xf32, #columns> -> tensor<4096x8192xf32>
  %g = math.tanh %h : tensor<4096x8192xf32>
  %m = fusion.matmul %g, %w2 : tensor<4096x8192xf32>, tensor<8192x2048xf32, #rows> -> tensor<4096x2048xf32>
  %s = arith.addf %o, %m : tensor<4096x2048xf32>
  %sr = fusion.reshard %s : tensor<4096x2048xf32> -> tensor<4096x2048xf32, #rows>
  %y = arith.addf %sr, %x : tensor<4096x2048xf32, #rows>
  return %y : tensor<4096x2048xf32, #rows>
}

func.func @broadcast(%b: tensor<4096xf32, #vector>, %x: tensor<4096x4096xf32, #columns>) -> tensor<4096xf32, #vector> {
  %bb = fusion.broadcast %b dims [1] : tensor<4096xf32, #vector> -> tensor<4096x4096xf32, #rows>
  %bc = fusion.reshard %bb : tensor<4096x4096xf32, #rows> -> tensor<4096x4096xf32, #columns>
  %s = arith.addf %bc, %x : tensor<4096x4096xf32, #columns>
  %r = fusion.reduce sum %s dims [0] : tensor<4096x4096xf32, #columns> -> tensor<4096xf32, #vector>
  return %r : tensor<4096xf32, #vector>
}

// Sums of constants are numbers on each rank, but not together: they are not rounded.
func.func @counts(%x: tensor<4x64xf32, #columns>) -> tensor<4xf32, #vector> {
  %zero = arith.constant dense<0.0> : tensor<4x64xf32, #columns>
  %a = arith.constant dense<0.1> : tensor<4x64xf32, #columns>
  %b = arith.constant dense<0.3> : tensor<4x64xf32, #columns>
  %c = arith.cmpf ogt, %x, %zero : tensor<4x64xf32, #columns>
  %p = arith.select %c, %a, %zero : tensor<4x64xi1, #columns>, tensor<4x64xf32, #columns>
  %q = arith.select %c, %zero, %b : tensor<4x64xi1, #columns>, tensor<4x64xf32, #columns>
  %sp = fusion.reduce sum %p dims [1] : tensor<4x64xf32, #columns> -> tensor<4xf32, #part>
  %sq = fusion.reduce sum %q dims [1] : tensor<4x64xf32, #columns> -> tensor<4xf32, #part>
  %s = arith.addf %sp, %sq : tensor<4xf32, #part>
  %r = fusion.reshard %s : tensor<4xf32, #part> -> tensor<4xf32, #vector>
  return %r : tensor<4xf32, #vector>
}
