// RUN: tandem-compile %s --entry=compared -o %t.tsp && tandem-check %t.tsp | FileCheck %s
// RUN: tandem-compile %s --entry=chosen -o %t.tsp && tandem-check %t.tsp | FileCheck %s
// RUN: tandem-compile %s --entry=subtracted -o %t.tsp && tandem-check %t.tsp | FileCheck %s

// Fused kernels fold what the reference's single ones compute of the same constants: that is no wrong result.
// CHECK: data: checked
// CHECK: no error

#m = #tandem.mesh<"m", ["x" = 2]>
#whole = #fusion.axes<#m, [-]>
#rows = #fusion.axes<#m, [didx("x")]>

func.func @compared(%x: tensor<4xi32, #whole>) -> tensor<4xf32, #whole> {
  %no = arith.cmpi ne, %x, %x : tensor<4xi32, #whole>
  %zero = arith.uitofp %no : tensor<4xi1, #whole> to tensor<4xf32, #whole>
  %one = math.exp %zero : tensor<4xf32, #whole>
  return %one : tensor<4xf32, #whole>
}

func.func @chosen(%x: tensor<4xf16, #rows>) -> tensor<4xf16, #rows> {
  %half = arith.constant dense<0.5> : tensor<4xf16, #rows>
  %c = arith.cmpf ogt, %x, %half : tensor<4xf16, #rows>
  %same = arith.select %c, %half, %half : tensor<4xi1, #rows>, tensor<4xf16, #rows>
  %less = arith.constant dense<-1.5> : tensor<4xf16, #rows>
  %y = arith.maximumf %less, %same : tensor<4xf16, #rows>
  return %y : tensor<4xf16, #rows>
}

func.func @subtracted(%x: tensor<4xi32, #rows>) -> tensor<4xi32, #rows> {
  %zero = arith.subi %x, %x : tensor<4xi32, #rows>
  %three = arith.constant dense<3> : tensor<4xi32, #rows>
  %y = arith.maxsi %zero, %three : tensor<4xi32, #rows>
  return %y : tensor<4xi32, #rows>
}
