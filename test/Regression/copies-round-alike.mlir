// RUN: tandem-compile %s --entry=attention --target=cpu-local -o %t.tsp && tandem-check %t.tsp
// RUN: tandem-compile %s --entry=grouped --target=cpu-local -o %t.tsp && tandem-check %t.tsp
// RUN: tandem-compile %s --entry=sum --target=cpu-local -o %t.tsp && tandem-check %t.tsp

// Every device holds a copy of each result, which must be equal to the last bit. So all devices compute a slice in the
// same shape, whether it is an own one or a received one: a library adds in another order in another shape.
#m = #tandem.mesh<"m", ["y" = 2]>
#rows = #fusion.axes<#m, [didx("y"), -]>
#slices = #fusion.axes<#m, [stream("y") * stream(2), -]>
#all = #fusion.axes<#m, [-, -]>
!q = tensor<16x5xf16, #slices>
!k = tensor<16x5xf16, #all>
!v = tensor<16x16xf16, #all>
func.func @attention(%x: tensor<16x5xf16, #rows>, %k: !k, %v: !v) -> tensor<16x16xf16> {
  %q = fusion.reshard %x : tensor<16x5xf16, #rows> -> !q
  %y = fusion.attention %q, %k, %v {causal, zigzag = 4 : i64} : !q, !k, !v -> tensor<16x16xf16>
  return %y : tensor<16x16xf16>
}

#batches = #fusion.axes<#m, [didx("y"), -, -]>
#someBatches = #fusion.axes<#m, [stream("y") * stream(2), -, -]>
!x = tensor<4x6x3xf32, #someBatches>
!w = tensor<2x3x8xf32, #fusion.axes<#m, [-, -, -]>>
!ends = tensor<4x2xi32, #all>
func.func @grouped(%x: tensor<4x6x3xf32, #batches>, %w: !w, %ends: !ends) -> tensor<4x6x8xf32> {
  %s = fusion.reshard %x : tensor<4x6x3xf32, #batches> -> !x
  %y = fusion.grouped_matmul %s, %w, %ends : !x, !w, !ends -> tensor<4x6x8xf32>
  return %y : tensor<4x6x8xf32>
}

!s = tensor<16x5xf32, #slices>
func.func @sum(%x: tensor<16x5xf32, #rows>) -> tensor<16xf32> {
  %s = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : tensor<16x5xf32, #rows> -> !s
  %y = fusion.reduce sum %s dims [1] : !s -> tensor<16xf32>
  return %y : tensor<16xf32>
}
