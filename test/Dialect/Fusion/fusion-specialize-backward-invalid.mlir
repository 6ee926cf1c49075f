// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-specialize="shape=x=24x8"

// A peer that contradicts: both sources are named.
// expected-note @+1 {{extent 24 is that of argument 0 ("x")}}
func.func @contradicts_peer(%x: tensor<?x8xf32> {fusion.name = "x"}, %c: tensor<8xf32>) {
  %0 = fusion.broadcast %c dims [1] : tensor<8xf32> -> tensor<?x8xf32>
  // expected-note @+1 {{extent 12 is that of the result of 'fusion.broadcast'}}
  %1 = fusion.broadcast %c dims [1] : tensor<8xf32> -> tensor<12x8xf32>
  %2 = fusion.permute %1 [0, 1] : tensor<12x8xf32> -> tensor<?x8xf32>
  %3 = arith.addf %x, %0 : tensor<?x8xf32>
  // expected-error @+1 {{expected extent 24 in dimension 0 of 'tensor<24x8xf32>', found 12 from its operands}}
  %4 = arith.addf %0, %2 : tensor<?x8xf32>
  return
}

// -----

// An operand of extent `?` is not repeated, be it 1.
// expected-note @+2 {{extent 24 is that of argument 0 ("x")}}
// expected-note @+1 {{extent 1 is that of argument 1}}
func.func @contradicts_broadcast(%x: tensor<?x8xf32> {fusion.name = "x"}, %b: tensor<?x8xf32> {fusion.shape = [1, 8]}) {
  %0 = fusion.broadcast %b dims [0, 1] : tensor<?x8xf32> -> tensor<?x8xf32>
  // expected-error @+1 {{expected extent 24 in dimension 0 of 'tensor<24x8xf32>', found 1 from its operands}}
  %1 = arith.addf %x, %0 : tensor<?x8xf32>
  return
}

// -----

func.func @contradicts_reshape(%x: tensor<?x8xf32> {fusion.name = "x"}, %c: tensor<f32>) {
  %0 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x5x8xf32>
  // expected-error @+1 {{expected 24 elements in dimensions that hold a multiple of 5}}
  %1 = fusion.reshape %0 : tensor<?x5x8xf32> -> tensor<?x8xf32>
  %2 = arith.addf %x, %1 : tensor<?x8xf32>
  return
}

// -----

// A written extent beside `?` may be repeated: what the operand has is open.
func.func @open(%x: tensor<?x8xf32> {fusion.name = "x"}, %c: tensor<f32>) {
  // expected-error @+1 {{expected a known extent in dimension 0 of result 0, found '?' in 'tensor<?x8xf32>'}}
  %0 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x8xf32>
  %1 = fusion.broadcast %0 dims [0, 1] : tensor<?x8xf32> -> tensor<24x8xf32>
  return
}
