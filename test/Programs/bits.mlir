// RUN: tandem-compile %s --entry=signs --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s
// RUN: tandem-compile %s --entry=signs --mesh x=4 --target=cuda-nccl --dump --kernels --rank=1 | FileCheck %s --check-prefix=PTX

// The bits of half precision numbers as i16: gathered, and the sign bit cleared and set.
//
// CHECK: i16
// PTX: .visible .entry rows
// PTX: and.b

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>

func.func @signs(%x: tensor<48x16xf16, #rows> {fusion.name = "x"})
    -> (tensor<48x16xi16, #slices> {fusion.name = "bits"}, tensor<48x16xf16, #slices> {fusion.name = "y"}) {
  %0 = arith.bitcast %x : tensor<48x16xf16, #rows> to tensor<48x16xi16, #rows>
  %bits = fusion.reshard %0 : tensor<48x16xi16, #rows> -> tensor<48x16xi16, #slices>
  %mask = arith.constant dense<32767> : tensor<48x16xi16, #slices>
  %sign = arith.constant dense<-32768> : tensor<48x16xi16, #slices>
  %1 = arith.andi %bits, %mask : tensor<48x16xi16, #slices>
  %2 = arith.ori %1, %sign : tensor<48x16xi16, #slices>
  %y = arith.bitcast %2 : tensor<48x16xi16, #slices> to tensor<48x16xf16, #slices>
  return %bits, %y : tensor<48x16xi16, #slices>, tensor<48x16xf16, #slices>
}
