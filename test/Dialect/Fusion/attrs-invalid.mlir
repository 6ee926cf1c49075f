// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// mesh_c1
// expected-error @+1 {{expected mesh axes with distinct names, found "x" twice in mesh "m"}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = 2, "x" = 3]>}

// -----

// mesh_c1
// expected-error @+1 {{expected mesh axes with names, found an empty name in mesh "m"}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["" = 2]>}

// -----

// mesh_c2
// expected-error @+1 {{expected a positive size or '?' for mesh axis "x", found 0}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = 0]>}

// -----

// mesh_c3
// expected-error @+1 {{expected 4 devices in mesh "m", found 3}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = 2, "y" = 2], devices = [0, 1, 2]>}

// -----

// mesh_c3
// expected-error @+1 {{expected known sizes in mesh "m" that lists its devices, found '?'}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = ?], devices = [0, 1]>}

// -----

// mesh_c3
// expected-error @+1 {{expected at least one device in 'devices', found none}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = 2], devices = []>}

// -----

// mesh_c4
// expected-error @+1 {{expected distinct devices in mesh "m", found 1 twice}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = 2], devices = [1, 1]>}

// -----

// mesh_c4
// expected-error @+1 {{expected device ranks between 0 and 2147483647 in mesh "m", found -1}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = 2], devices = [0, -1]>}

// -----

// mesh_c5
// expected-error @+1 {{expected at most 2147483647 devices in mesh "m", found more at axis "y"}}
func.func private @f() attributes {m = #tandem.mesh<"m", ["x" = 65536, "y" = 65536]>}

// -----

// axes_c1
#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
// expected-error @+1 {{expected an axis of mesh "tp" ("x", "y"), found "z"}}
func.func private @f(tensor<8xf32, #fusion.axes<#tp, [didx("z")]>>)

// -----

// axes_c1
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected an axis of mesh "tp" ("x"), found "z"}}
func.func private @f(tensor<8xf32, #fusion.axes<#tp, [-], partial = ["z"]>>)

// -----

// axes_c1
#any = #tandem.mesh<"any", ["x" = ?]>
// expected-error @+1 {{expected an axis of mesh "any" ("x"), found "z"}}
func.func private @f(tensor<8xf32, #fusion.axes<#any, [stream("z")]>>)

// -----

// axes_c2
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected mesh axis "x" at most once, found it twice}}
func.func private @f(tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), didx("x")]>>)

// -----

// axes_c2
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected mesh axis "x" at most once, found it twice}}
func.func private @f(tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -], partial = ["x"]>>)

// -----

// axes_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected a positive size of 'stream', found 0}}
func.func private @f(tensor<8xf32, #fusion.axes<#tp, [stream(0)]>>)

// -----

// axes_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected a positive size of 'serial', found -9223372036854775808}}
func.func private @f(tensor<8xf32, #fusion.axes<#tp, [serial(-9223372036854775808)]>>)

// -----

// axes_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected bare 'stream' to be the last digit of dimension 1, found a digit after it}}
func.func private @f(tensor<8x8xf32, #fusion.axes<#tp, [-, stream * didx("x")]>>)

// -----

// axes_c3
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected digits of dimension 0 whose product fits 63 bits, found a larger one}}
func.func private @f(tensor<?xf32, #fusion.axes<#tp, [stream(4294967296) * serial(4294967296)]>>)

// -----

// axes_c4
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected axes for 2 dimensions, found 1}}
func.func private @f(tensor<8x8xf32, #fusion.axes<#tp, [didx("x")]>>)

// -----

// axes_c6
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected a list of partial mesh axes with 'max', found none}}
func.func private @f(tensor<8xf32, #fusion.axes<#tp, [-], partial = max []>>)

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected 'didx("axis")', 'stream', 'stream(n)', 'serial(n)' or '-' (n: a number or the name of a mesh axis)}}
func.func private @f(tensor<8xf32, #fusion.axes<#tp, [thread]>>)

// -----

// schedule_c1
// expected-error @+1 {{expected a schedule (direct, exchange, gated, hierarchical, pipeline, push, ring), found 'star'}}
func.func private @f() attributes {s = #fusion.schedule<star>}

// -----

// schedule_c2
// expected-error @+1 {{schedule push has no option 'merged'; did you mean 'merge'?}}
func.func private @f() attributes {s = #fusion.schedule<push, merged = [1, 3]>}

// -----

// schedule_c2
// expected-error @+1 {{schedule exchange has no option 'blocks'; known are 'order', 'by', 'compute', 'sum', 'streams'}}
func.func private @f() attributes {s = #fusion.schedule<exchange, blocks = 4>}

// -----

// schedule_c3
// expected-error @+1 {{expected 'order' to be one of rotated, found "xor"}}
func.func private @f() attributes {s = #fusion.schedule<exchange, order = xor>}

// -----

// schedule_c1
// expected-error @+1 {{expected the name of a schedule, or choices that one has (order, by, compute, sum), found {compute = "gated", order = "ring"}}}
func.func private @f() attributes {s = #fusion.schedule<order = ring, compute = gated>}

// -----

// schedule_c1
// expected-error @+1 {{expected the name of a schedule, or choices that one has (order, by, compute, sum), found {streams = 2 : i64}}}
func.func private @f() attributes {s = #fusion.schedule<streams = 2>}

// -----

// schedule_c3
// expected-error @+1 {{expected 'compute' to be one of sliced, found 3}}
func.func private @f() attributes {s = #fusion.schedule<push, compute = 3>}

// -----

// schedule_c2
// expected-error @+1 {{expected 'streams' at most once, found it twice}}
func.func private @f() attributes {s = #fusion.schedule<exchange, streams = 4, streams = 5>}

// -----

// schedule_c3
// expected-error @+1 {{expected a number of at least 0 in 'streams', found -1}}
func.func private @f() attributes {s = #fusion.schedule<exchange, streams = -1>}

// -----

// schedule_c3
// expected-error @+1 {{expected a list of numbers of at least 1 in 'merge', found}}
func.func private @f() attributes {s = #fusion.schedule<push, merge = [1, 0, 3]>}

// -----

// schedule_c3
// expected-error @+1 {{expected 'order' to be one of rotated, xor, found "sorted"}}
func.func private @f() attributes {s = #fusion.schedule<push, order = sorted>}

// -----

// expected-error @+1 {{expected valid keyword or string}}
func.func private @f() attributes {s = #fusion.schedule<push, order = {}>}

// -----

// expected-error @+1 {{expected an attribute of dialect 'fusion' on an operation, found 'fusion.speed'; known are 'fusion.schedule', 'fusion.gather', 'fusion.reference_of'}}
func.func private @f() attributes {fusion.speed = 1 : i64}

// -----

func.func @f(%0: tensor<8xf32>) {
  // expected-error @+1 {{expected a '#fusion.schedule' in 'fusion.schedule', found "ring"}}
  %1 = math.exp %0 {fusion.schedule = "ring"} : tensor<8xf32>
  return
}

// -----

func.func @f(%0: tensor<8xf32>) {
  // expected-error @+1 {{expected "before" or "after" in 'fusion.gather', found "between"}}
  %1 = math.exp %0 {fusion.gather = "between"} : tensor<8xf32>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @f(%0: tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>) {
  // expected-error @+1 {{expected 'fusion.schedule' on an operation that computes locally}}
  %1 = fusion.reshard %0 {fusion.schedule = #fusion.schedule<exchange>} : tensor<8xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<8xf32, #fusion.axes<#tp, [-]>>
  return
}

// -----

// expected-error @+1 {{expected a symbol in 'fusion.reference_of', found 1}}
func.func private @f() attributes {fusion.reference_of = 1 : i64}

// -----

// expected-error @+1 {{expected 'fusion.reference_of' on a function}}
module attributes {fusion.reference_of = @f} {}

// -----

// expected-error @+1 {{expected a nonempty string in 'fusion.name', found ""}}
func.func private @f(tensor<8xf32> {fusion.name = ""})

// -----

// expected-error @+1 {{expected an attribute of dialect 'fusion' on an argument, found 'fusion.size'; known are 'fusion.name', 'fusion.shape'}}
func.func private @f(tensor<8xf32> {fusion.size = 8 : i64})

// -----

// expected-error @+1 {{expected an attribute of dialect 'fusion' on a result, found 'fusion.shape'}}
func.func private @f() -> (tensor<8xf32> {fusion.shape = [8]})

// -----

// expected-error @+1 {{expected 'fusion.shape' on a ranked tensor, found 'i32'}}
func.func private @f(i32 {fusion.shape = [8]})

// -----

// expected-error @+1 {{expected an array of 2 entries in 'fusion.shape', found [8]}}
func.func private @f(tensor<8x8xf32> {fusion.shape = [8]})

// -----

// expected-error @+1 {{expected an extent or the name of a mesh axis in 'fusion.shape', found -1}}
func.func private @f(tensor<?xf32> {fusion.shape = [-1]})
