// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// program_c1
// expected-error @+1 {{'hostir.program' op expected argument 0 to be a memref of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1 with static shape and strides in default or symmetric memory, found 'index'}}
hostir.program @p(%a: index) {
}

// -----

// program_c1
// expected-error @+1 {{expected argument 0 to be a memref of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1 with static shape and strides in default or symmetric memory, found 'memref<?xf32>'}}
hostir.program @p(%a: memref<?xf32>) {
}

// -----

// program_c1
// expected-error @+1 {{found 'memref<4xf80>'}}
hostir.program @p(%a: memref<4xf80>) {
}

// -----

// program_c1
// expected-error @+1 {{found 'memref<4xf32, 3>'}}
hostir.program @p(%a: memref<4xf32, 3>) {
}

// -----

// program_c1
// expected-error @+1 {{expected no results (they are arguments marked 'hostir.result'), found 1}}
hostir.program @p() -> index {
}

// -----

// program_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
// expected-error @+1 {{expected argument 0 of local shape 2x3 and element type 'f32', as 'hostir.type' says, found 'memref<8x3xf32>'}}
hostir.program @p(%a: memref<8x3xf32> {hostir.type = tensor<8x3xf32, #fusion.axes<#tp, [didx("x"), -]>>}) {
}

// -----

// program_c2
// expected-error @+1 {{expected argument 0 of local shape 4 and element type 'f16', as 'hostir.type' says, found 'memref<4xf32>'}}
hostir.program @p(%a: memref<4xf32> {hostir.type = tensor<4xf16>}) {
}

// -----

// program_c2
// expected-error @+1 {{expected a type of known extents and mesh in 'hostir.type' of argument 0}}
hostir.program @p(%a: memref<4xf32> {hostir.type = tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = ?]>, [didx("x")]>>}) {
}

// -----

// program_c3
// expected-error @+1 {{expected results after inputs, found input argument 1 after a result}}
hostir.program @p(%a: memref<4xf32> {hostir.result}, %b: memref<4xf32>) {
}

// -----

// program_c4
// expected-error @+1 {{expected 1 to 1024 workers, found 0}}
hostir.program @p() attributes {workers = 0 : i64} {
}

// -----

// program_c4
// expected-error @+1 {{expected 1 to 1024 workers, found 1025}}
hostir.program @p() attributes {workers = 1025 : i64} {
}

// -----

// program_c5
// expected-error @+1 {{expected 'arena_bytes' that is not negative, found -64}}
hostir.program @p() attributes {arena_bytes = -64 : i64} {
}

// -----

// program_c7
// expected-error @+1 {{expected 'hostir.parts' on a result without 'hostir.type', found it on argument 0}}
hostir.program @p(%a: memref<4xf32> {hostir.parts = [{hostir.type = tensor<2xf32>}, {hostir.type = tensor<2xf32>}]}) {
}

// -----

// program_c7
// expected-error @+1 {{expected two or more parts of argument 0, found 1}}
hostir.program @p(%a: memref<4xf32> {hostir.result, hostir.parts = [{hostir.type = tensor<4xf32>}]}) {
}

// -----

// program_c7
// expected-error @+1 {{expected a tensor type in 'hostir.type' of each part of argument 0, found {hostir.name = "y"}}}
hostir.program @p(%a: memref<4xf32> {hostir.result, hostir.parts = [{hostir.type = tensor<2xf32>}, {hostir.name = "y"}]}) {
}

// -----

// program_c7
// expected-error @+1 {{expected 2 equal parts of 'memref<4xf32>' as argument 0, found one of 'tensor<3xf32>'}}
hostir.program @p(%a: memref<4xf32> {hostir.result, hostir.parts = [{hostir.type = tensor<3xf32>}, {hostir.type = tensor<1xf32>}]}) {
}

// -----

// argument attributes
// expected-error @+1 {{expected a list in 'hostir.parts', found unit}}
hostir.program @p(%a: memref<4xf32> {hostir.result, hostir.parts}) {
}

// -----

// argument attributes
// expected-error @+1 {{expected a nonempty string in 'hostir.name', found ""}}
hostir.program @p(%a: memref<4xf32> {hostir.name = ""}) {
}

// -----

// argument attributes
// expected-error @+1 {{expected a ranked tensor type in 'hostir.type', found f32}}
hostir.program @p(%a: memref<4xf32> {hostir.type = f32}) {
}

// -----

// argument attributes
// expected-error @+1 {{expected 'hostir.result' without a value, found 1 : i64}}
hostir.program @p(%a: memref<4xf32> {hostir.result = 1}) {
}

// -----

// argument attributes
// expected-error @+1 {{expected 'hostir.name', 'hostir.type', 'hostir.extents', 'hostir.parts', 'hostir.varying', 'hostir.mask' or 'hostir.result' on an argument, found 'hostir.axes'}}
hostir.program @p(%a: memref<4xf32> {hostir.axes}) {
}

// -----

// argument attributes
// expected-error @+1 {{expected 'hostir.name' on an argument of 'hostir.program'}}
func.func private @f(%a: memref<4xf32> {hostir.name = "a"})

// -----

// operation attributes
hostir.program @p() {
  // expected-error @+1 {{expected no attribute of dialect 'hostir' on an operation, found 'hostir.name'}}
  %main = hostir.main_stream {hostir.name = "main"}
}

// -----

// a program has a body
// expected-error @+1 {{expected '{' to begin a region}}
hostir.program @p()

// -----

// kernel_c1
// expected-error @+1 {{expected scalars of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'memref<4xf32>'}}
hostir.kernel @k(%a: memref<4xf32>) -> f32 {
  %0 = arith.constant 0.0 : f32
  hostir.yield %0 : f32
}

// -----

// kernel_c1
// expected-error @+1 {{expected scalars of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1, found 'f80'}}
hostir.kernel @k(%a: f32) -> f80 {
  %0 = arith.extf %a : f32 to f80
  hostir.yield %0 : f80
}

// -----

// kernel_c2
hostir.kernel @k(%a: f32) -> f32 {
  // expected-error @+1 {{expected only 'arith' and 'math' operations in a kernel}}
  %0 = hostir.main_stream
  hostir.yield %a : f32
}

// -----

// kernel_c2
hostir.kernel @k(%a: f32) -> f32 {
  // expected-error @+1 {{block with no terminator}}
  %0 = arith.addf %a, %a : f32
}

// -----

// yield_c1
hostir.kernel @k(%a: f32, %b: i32) -> f32 {
  // expected-error @+1 {{expected operands of types ('f32'), as the kernel's results, found ('i32')}}
  hostir.yield %b : i32
}

// -----

// a yield stands in a kernel
hostir.program @p(%a: memref<4xf32>) {
  // expected-error @+1 {{expects parent op 'hostir.kernel'}}
  hostir.yield %a : memref<4xf32>
}

// -----

// device_index_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  // expected-error @+1 {{expected one of the mesh's axes ("x"), found "y"}}
  %0 = hostir.device_index #tp, "y"
}

// -----

// device_index_c1
hostir.program @p() {
  // expected-error @+1 {{expected a known size of mesh axis "x", found ?}}
  %0 = hostir.device_index #tandem.mesh<"m", ["x" = ?]>, "x"
}

// -----

// translate_position_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected a mesh of known sizes, found #tandem.mesh<"m", ["x" = ?]>}}
  %0 = hostir.translate_position %c0 from #tp to #tandem.mesh<"m", ["x" = ?]>
}

// -----

// translate_position_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %c4 = arith.constant 4 : index
  // expected-error @+1 {{expected a position below 4, found 4}}
  %0 = hostir.translate_position %c4 from #tp to #tp
}

// -----

// channel_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  // expected-error @+1 {{expected one of the mesh's axes ("x"), found "z"}}
  %0 = hostir.channel "c" over #tp ["x", "z"] can [two_sided]
}

// -----

// channel_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  // expected-error @+1 {{expected each axis once, found "x" twice}}
  %0 = hostir.channel "c" over #tp ["x", "x"] can [two_sided]
}

// -----

// channel_c1
hostir.program @p() {
  // expected-error @+1 {{expected a known size of mesh axis "x", found ?}}
  %0 = hostir.channel "c" over #tandem.mesh<"m", ["x" = ?]> ["x"] can [two_sided]
}

// -----

// channel_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  // expected-error @+1 {{expected at least one capability, found none}}
  %0 = hostir.channel "c" over #tp ["x"] can []
}

// -----

// channel_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  // expected-error @+1 {{expected each capability once, found 'two_sided' twice}}
  %0 = hostir.channel "c" over #tp ["x"] can [two_sided, two_sided]
}

// -----

// channel_c3
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  // expected-error @+1 {{expected link "node" or "network", found "nvlink"}}
  %0 = hostir.channel "c" over #tp ["x"] can [two_sided] link "nvlink"
}

// -----

// syntax
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  // expected-error @+1 {{expected two_sided, one_sided or collectives, found 'sided'}}
  %0 = hostir.channel "c" over #tp ["x"] can [sided]
}

// -----

// alloc_c1
hostir.program @p() {
  %main = hostir.main_stream
  // expected-error @+1 {{expected the identity layout, found 'memref<4xf32, strided<[2]>>'}}
  %0 = hostir.alloc on %main : memref<4xf32, strided<[2]>>
}

// -----

// alloc_c1
hostir.program @p() {
  %main = hostir.main_stream
  // expected-error @+1 {{'hostir.alloc' op result #0 must be memref of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1 with static shape and strides in default or symmetric memory, but got 'memref<?xf32>'}}
  %0 = hostir.alloc on %main : memref<?xf32>
}

// -----

// alloc_c1
hostir.program @p() {
  %main = hostir.main_stream
  // expected-error @+1 {{but got 'memref<4xf32, 1>'}}
  %0 = hostir.alloc on %main : memref<4xf32, 1>
}

// -----

// alloc_c2
hostir.program @p() {
  %main = hostir.main_stream
  // expected-error @+1 {{expected 'offset' that is a multiple of 64 and not negative, found 32}}
  %0 = hostir.alloc on %main {offset = 32 : i64} : memref<4xf32>
}

// -----

// alloc_c2
hostir.program @p() {
  %main = hostir.main_stream
  // expected-error @+1 {{expected 'pitch' that is a multiple of 64 and not negative, found -64}}
  %0 = hostir.alloc on %main {offset = 0 : i64, pitch = -64 : i64} : memref<4xf32>
}

// -----

// dealloc_c1
hostir.program @p(%a: memref<4xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected the result of 'hostir.alloc', found another value}}
  hostir.dealloc %a on %main : memref<4xf32>
}

// -----

// copy_c1
hostir.program @p(%a: memref<4xf32>, %b: memref<2x2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal shapes, found 4 and 2x2}}
  hostir.copy %a to %b on %main : memref<4xf32> to memref<2x2xf32>
}

// -----

// copy_c1
hostir.program @p(%a: memref<4xf32>, %b: memref<4xi32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal element types, found 'f32' and 'i32'}}
  hostir.copy %a to %b on %main : memref<4xf32> to memref<4xi32>
}
