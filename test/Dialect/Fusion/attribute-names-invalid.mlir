// RUN: tandem-opt %s -fusion-specialize -split-input-file -verify-diagnostics -o /dev/null

func.func @typo(%0: tensor<8x16xf32>, %1: tensor<16x16xf32>) -> tensor<8x16xf32> {
  // expected-error @+1 {{expected an attribute of this op, found 'tranpose_b'; did you mean 'transpose_b'?}}
  %2 = fusion.matmul %0, %1 {tranpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

func.func @without_dialect(%0: tensor<8x16xf32>, %1: tensor<16x16xf32>) -> tensor<8x16xf32> {
  // expected-error @+1 {{found 'schedule'; did you mean 'fusion.schedule'?}}
  %2 = fusion.matmul %0, %1 {schedule = #fusion.schedule<exchange>}
      : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

func.func @gather(%0: tensor<8x16xf32>) -> tensor<16x8xf32> {
  // expected-error @+1 {{found 'gather'; did you mean 'fusion.gather'?}}
  %1 = fusion.permute %0 [1, 0] {gather = "after"} : tensor<8x16xf32> -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @reshard(%0: tensor<8xf32>) -> tensor<8xf32, #fusion.axes<#tp, [-]>> {
  // expected-error @+1 {{found 'schedul'; did you mean 'schedule'?}}
  %1 = fusion.reshard %0 {schedul = #fusion.schedule<exchange>} : tensor<8xf32> -> tensor<8xf32, #fusion.axes<#tp, [-]>>
  return %1 : tensor<8xf32, #fusion.axes<#tp, [-]>>
}

// -----

func.func @far(%0: tensor<8x16xf32>) -> tensor<16x8xf32> {
  // expected-error @+1 {{found 'unroll'; known are 'permutation', 'fusion.schedule', 'fusion.gather'}}
  %1 = fusion.permute %0 [1, 0] {unroll = 4} : tensor<8x16xf32> -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}

// -----

func.func @elementwise(%0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'arith.addf' op expected an attribute of this op, found 'gather'; did you mean 'fusion.gather'?}}
  %1 = arith.addf %0, %0 {gather = "before"} : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

func.func @in_dialect(%0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected an attribute of dialect 'fusion' on an operation, found 'fusion.schedul'; did you mean 'fusion.schedule'?}}
  %1 = arith.addf %0, %0 {fusion.schedul = "before"} : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// expected-error @+1 {{expected an attribute of dialect 'fusion' on an argument, found 'fusion.nam'; did you mean 'fusion.name'?}}
func.func @argument(%0: tensor<8xf32> {fusion.nam = "x"}) {
  return
}

// -----

// expected-error @+1 {{expected arguments with different names, found "x" for 0 and 2}}
func.func @same_arguments(%0: tensor<8xf32> {fusion.name = "x"}, %1: tensor<8xf32>, %2: tensor<8xf32> {fusion.name = "x"}) {
  return
}

// -----

// expected-error @+1 {{expected results with different names, found "y" for 0 and 1}}
func.func @same_results(%0: tensor<8xf32>) -> (tensor<8xf32> {fusion.name = "y"}, tensor<8xf32> {fusion.name = "y"}) {
  return %0, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Words of other dialects pass.
func.func @others(%0: tensor<8x16xf32>) -> tensor<16x8xf32> {
  %1 = fusion.permute %0 [1, 0] {llvm.note = 1} : tensor<8x16xf32> -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}

// -----

// The second argument is "arg1" if it has no name.
// expected-error @+1 {{expected arguments with different names, found "arg1" for 1 and 0}}
func.func @default_name(%a: tensor<4xf32> {fusion.name = "arg1"}, %b: tensor<4xf32>) {
  return
}
