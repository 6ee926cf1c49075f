// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-specialize="mesh=x=3"

#tp = #tandem.mesh<"tp", ["x" = ?]>
// expected-error @+1 {{expected a known extent in dimension 1 of argument 0, found '?' in}}
func.func @unknown_extent(%0: tensor<3x?xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?, "y" = ?]>
// expected-error @+1 {{expected a known size of axis "y" of mesh "tp", found '?' (name it with option 'mesh')}}
func.func @unknown_size(%0: tensor<3xf32, #fusion.axes<#tp, [didx("x")]>>) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?]>
// expected-error @+1 {{expected a mesh axis of known size in 'fusion.shape', found "z" (name its size with option 'mesh')}}
func.func @unknown_axis(%0: tensor<?xf32, #fusion.axes<#tp, [didx("x")]>> {fusion.shape = ["z"]}) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?]>
// expected-error @+1 {{argument 0 ("rows"): expected extent 6 in dimension 0 of 'tensor<6x?xf32>', found 9 from its given shape}}
func.func @contradicts_argument(%0: tensor<6x?xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "rows", fusion.shape = [9, 2]}) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?]>
// expected-note @+1 {{extent 9 is that of argument 0}}
func.func @contradicts_result(%0: tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.shape = [9, 4]}) {
  // expected-error @+1 {{expected extent 6 in dimension 1 of 'tensor<4x6xf32>', found 9 from its operands}}
  %1 = fusion.permute %0 [1, 0] : tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<4x6xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?]>
func.func @contradicts_contraction(%0: tensor<3x?xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.shape = [3, 5]}, %1: tensor<?x2xf32> {fusion.shape = [6, 2]}) {
  // The verifier of the op finds what shapes alone do not say.
  // expected-error @+1 {{expected equal contracted extents, found 5 and 6}}
  %2 = fusion.matmul %0, %1 : tensor<3x?xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<?x2xf32> -> tensor<3x2xf32>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?]>
func.func @contradicts_signature(%0: tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.shape = [9, 4]}) -> tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> {
  // expected-error @+1 {{expected a known extent in dimension 0 of result 0, found '?' in}}
  %1 = fusion.slice %0 offsets [3, 0] steps [1, 1] : tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %1 : tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

// -----

module {
  // expected-error @+1 {{expected size 4 of axis "x" of mesh "tp" as it is written, found 3 in option 'mesh'}}
  func.func @contradicts_mesh(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"tp", ["x" = 4]>, [didx("x")]>>) {
    return
  }
}

// -----

module {
  // expected-error @+1 {{expected an axis of a mesh of the module (pod.node, pod.gpu) in option 'mesh', found 'x'}}
  func.func @no_such_axis(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>, [-]>>) {
    return
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = ?]>
// expected-error @+1 {{expected argument 0 of less than 2^63 bytes, found 'tensor<3x4000000000x4000000000xf32>'}}
func.func @too_large(%0: tensor<3x4000000000x4000000000xf32, #fusion.axes<#tp, [didx("x"), -, -]>>) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 3]>
// expected-error @+1 {{expected elements of argument 1 of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'index'}}
func.func @index(%0: tensor<3xf32, #fusion.axes<#tp, [didx("x")]>>, %1: tensor<3xindex, #fusion.axes<#tp, [didx("x")]>>) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 3]>
// expected-error @+1 {{expected elements of argument 0 of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'complex<f32>'}}
func.func @complex(%0: tensor<3xcomplex<f32>, #fusion.axes<#tp, [didx("x")]>>) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 3]>
// expected-error @+1 {{expected elements of argument 0 of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'vector<2xf32>'}}
func.func @vector(%0: tensor<3xvector<2xf32>, #fusion.axes<#tp, [didx("x")]>>) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 3]>
func.func @computed(%0: tensor<3xi32, #fusion.axes<#tp, [didx("x")]>>) {
  // expected-error @+1 {{expected elements of result 0 of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'index'}}
  %1 = arith.index_cast %0 : tensor<3xi32, #fusion.axes<#tp, [didx("x")]>> to tensor<3xindex, #fusion.axes<#tp, [didx("x")]>>
  return
}
