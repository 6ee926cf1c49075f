// Programs for any number of tokens (`?`) up to a bound: families.py runs them. docs/families.md explains.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#whole = #fusion.axes<#tp, [-, -]>
#all = #fusion.axes<#tp, [-]>
#tokens = #fusion.axes<#tp, [-, didx("x"), -]>

// A layer of tensor parallelism: tokens are gathered, and the sum of partial results is scattered.
func.func @mlp(%x: tensor<?x16xf32, #rows> {fusion.name = "x"}, %a: tensor<16x24xf32, #columns> {fusion.name = "a"},
    %b: tensor<24x12xf32, #rows> {fusion.name = "b"}) -> (tensor<?x12xf32, #rows> {fusion.name = "y"}) {
  %g = fusion.reshard %x : tensor<?x16xf32, #rows> -> tensor<?x16xf32, #whole>
  %h = fusion.matmul %g, %a : tensor<?x16xf32, #whole>, tensor<16x24xf32, #columns> -> tensor<?x24xf32, #columns>
  %e = math.exp %h : tensor<?x24xf32, #columns>
  %y = fusion.matmul %e, %b : tensor<?x24xf32, #columns>, tensor<24x12xf32, #rows> -> tensor<?x12xf32, #rows>
  return %y : tensor<?x12xf32, #rows>
}

// Weights by tokens: contracts over tokens what is not 0 behind the last one.
func.func @weight_gradient(%x: tensor<?x16xf32, #rows> {fusion.name = "x"}, %d: tensor<?x12xf32, #rows> {fusion.name = "d"})
    -> (tensor<16x12xf32, #rows> {fusion.name = "y"}) {
  %e = math.exp %x : tensor<?x16xf32, #rows>
  %f = math.exp %d : tensor<?x12xf32, #rows>
  %y = fusion.matmul %e, %f {transpose_a} : tensor<?x16xf32, #rows>, tensor<?x12xf32, #rows> -> tensor<16x12xf32, #rows>
  return %y : tensor<16x12xf32, #rows>
}

func.func @reductions(%x: tensor<?x16xf32, #rows> {fusion.name = "x"})
    -> (tensor<16xf32, #all> {fusion.name = "sum"}, tensor<16xf32, #all> {fusion.name = "max"}, tensor<16xf32, #all> {fusion.name = "min"}) {
  %e = math.exp %x : tensor<?x16xf32, #rows>
  %n = arith.negf %e : tensor<?x16xf32, #rows>
  %a = fusion.reduce sum %e dims [0] : tensor<?x16xf32, #rows> -> tensor<16xf32, #all>
  %b = fusion.reduce max %n dims [0] : tensor<?x16xf32, #rows> -> tensor<16xf32, #all>
  %c = fusion.reduce min %e dims [0] : tensor<?x16xf32, #rows> -> tensor<16xf32, #all>
  return %a, %b, %c : tensor<16xf32, #all>, tensor<16xf32, #all>, tensor<16xf32, #all>
}

func.func @attention(%q: tensor<2x?x8xf32, #tokens> {fusion.name = "q"}, %k: tensor<2x?x8xf32, #tokens> {fusion.name = "k"},
    %v: tensor<2x?x4xf32, #tokens> {fusion.name = "v"}) -> (tensor<2x?x4xf32, #tokens> {fusion.name = "y"}) {
  %e = math.exp %v : tensor<2x?x4xf32, #tokens>
  %y = fusion.attention %q, %k, %e : tensor<2x?x8xf32, #tokens>, tensor<2x?x8xf32, #tokens>, tensor<2x?x4xf32, #tokens>
    -> tensor<2x?x4xf32, #tokens>
  return %y : tensor<2x?x4xf32, #tokens>
}

func.func @causal(%q: tensor<2x?x8xf32, #tokens> {fusion.name = "q"}, %k: tensor<2x?x8xf32, #tokens> {fusion.name = "k"},
    %v: tensor<2x?x4xf32, #tokens> {fusion.name = "v"}) -> (tensor<2x?x4xf32, #tokens> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal} : tensor<2x?x8xf32, #tokens>, tensor<2x?x8xf32, #tokens>, tensor<2x?x4xf32, #tokens>
    -> tensor<2x?x4xf32, #tokens>
  return %y : tensor<2x?x4xf32, #tokens>
}

// Only the keys vary: without one the result is 0. All scores of `far` are so low that what hides a key must be lower.
func.func @keys(%q: tensor<2x4x8xf32, #tokens> {fusion.name = "q"}, %k: tensor<2x?x8xf32, #tokens> {fusion.name = "k"},
    %v: tensor<2x?x4xf32, #tokens> {fusion.name = "v"}) -> (tensor<2x4x4xf32, #tokens> {fusion.name = "y"}) {
  %e = math.exp %v : tensor<2x?x4xf32, #tokens>
  %y = fusion.attention %q, %k, %e : tensor<2x4x8xf32, #tokens>, tensor<2x?x8xf32, #tokens>, tensor<2x?x4xf32, #tokens>
    -> tensor<2x4x4xf32, #tokens>
  return %y : tensor<2x4x4xf32, #tokens>
}

func.func @keys_bf16(%q: tensor<2x4x8xbf16, #tokens> {fusion.name = "q"}, %k: tensor<2x?x8xbf16, #tokens> {fusion.name = "k"},
    %v: tensor<2x?x4xbf16, #tokens> {fusion.name = "v"}) -> (tensor<2x4x4xbf16, #tokens> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v : tensor<2x4x8xbf16, #tokens>, tensor<2x?x8xbf16, #tokens>, tensor<2x?x4xbf16, #tokens>
    -> tensor<2x4x4xbf16, #tokens>
  return %y : tensor<2x4x4xbf16, #tokens>
}

func.func @far(%q: tensor<2x4x8xf16, #tokens> {fusion.name = "q"}, %k: tensor<2x?x8xf16, #tokens> {fusion.name = "k"},
    %v: tensor<2x?x4xf16, #tokens> {fusion.name = "v"}) -> (tensor<2x4x4xf16, #tokens> {fusion.name = "y"}) {
  %c = arith.constant dense<-4.0e+04> : tensor<2x4x8xf16, #tokens>
  %a = arith.addf %q, %c : tensor<2x4x8xf16, #tokens>
  %d = math.exp %k : tensor<2x?x8xf16, #tokens>
  %b = math.exp %d : tensor<2x?x8xf16, #tokens>
  %e = math.exp %v : tensor<2x?x4xf16, #tokens>
  %y = fusion.attention %a, %b, %e {scale = 1.0e-06 : f64} : tensor<2x4x8xf16, #tokens>, tensor<2x?x8xf16, #tokens>, tensor<2x?x4xf16, #tokens>
    -> tensor<2x4x4xf16, #tokens>
  return %y : tensor<2x4x4xf16, #tokens>
}

// Two dimensions of one tensor vary.
func.func @pairs(%s: tensor<?x?xf32, #rows> {fusion.name = "s"}, %x: tensor<?x16xf32, #rows> {fusion.name = "x"})
    -> (tensor<?x16xf32, #rows> {fusion.name = "y"}, tensor<?x?xf32, #rows> {fusion.name = "e"}) {
  %e = math.exp %s : tensor<?x?xf32, #rows>
  %y = fusion.matmul %e, %x : tensor<?x?xf32, #rows>, tensor<?x16xf32, #rows> -> tensor<?x16xf32, #rows>
  return %y, %e : tensor<?x16xf32, #rows>, tensor<?x?xf32, #rows>
}

// Kernels of the embedder run on all rows up to the bound, in the slices of a gather; the last slice may be shorter.
func.func private @rms_norm(tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
func.func @norm(%x: tensor<?x16xf32, #rows> {fusion.name = "x"}, %g: tensor<16xf32, #fusion.axes<#tp, [-]>> {fusion.name = "g"},
    %w: tensor<16x24xf32, #columns> {fusion.name = "w"}) -> (tensor<?x24xf32, #columns> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<?x16xf32, #rows> -> tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %1 = fusion.call @rms_norm(%0, %g) dims "s_, _ -> s_" {config = "0.1"}
    : (tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<16xf32, #fusion.axes<#tp, [-]>>)
    -> tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %y = fusion.matmul %1, %w : tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<16x24xf32, #columns>
    -> tensor<?x24xf32, #columns>
  return %y : tensor<?x24xf32, #columns>
}

// A kernel that uses the extent sees that of the run, also in slices.
func.func private @from_end(tensor<?x16xf32>) -> tensor<?x16xf32>
func.func @from_end_slices(%x: tensor<?x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<?x24xf32, #columns> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<?x16xf32, #rows> -> tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %1 = fusion.call @from_end(%0) dims "s_ -> s_"
    : (tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>) -> tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %y = fusion.matmul %1, %w : tensor<?x16xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<16x24xf32, #columns>
    -> tensor<?x24xf32, #columns>
  return %y : tensor<?x24xf32, #columns>
}

// Only one device holds what varies, and one is given what the others compute with.
#one = #tandem.mesh<"one", [], devices = [1]>
#here = #fusion.axes<#one, [-, -]>
func.func @elsewhere(%x: tensor<?x16xf32, #here> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<?x16xf32, #here> {fusion.name = "e"}, tensor<16x24xf32, #columns> {fusion.name = "y"}) {
  %e = math.exp %x : tensor<?x16xf32, #here>
  %y = math.exp %w : tensor<16x24xf32, #columns>
  return %e, %y : tensor<?x16xf32, #here>, tensor<16x24xf32, #columns>
}

func.func @handed_out(%x: tensor<?x16xf32, #here> {fusion.name = "x"}, %w: tensor<16x24xf32, #columns> {fusion.name = "w"})
    -> (tensor<?x24xf32, #columns> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<?x16xf32, #here> -> tensor<?x16xf32, #whole>
  %y = fusion.matmul %0, %w : tensor<?x16xf32, #whole>, tensor<16x24xf32, #columns> -> tensor<?x24xf32, #columns>
  return %y : tensor<?x24xf32, #columns>
}

// What has the extent of the bound by chance, 1 or 2, does not vary.
func.func @reshaped(%x: tensor<1x?x2x4xf32, #fusion.axes<#tp, [-, -, -, didx("x")]>> {fusion.name = "x"}, %w: tensor<4x5xf32, #whole> {fusion.name = "w"})
    -> (tensor<?x1x2x5xf32, #fusion.axes<#tp, [-, -, -, -]>> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<1x?x2x4xf32, #fusion.axes<#tp, [-, -, -, didx("x")]>> -> tensor<1x?x2x4xf32, #fusion.axes<#tp, [-, -, -, -]>>
  %1 = fusion.reshape %0 : tensor<1x?x2x4xf32, #fusion.axes<#tp, [-, -, -, -]>> -> tensor<?x1x2x4xf32, #fusion.axes<#tp, [-, -, -, -]>>
  %2 = fusion.matmul %1, %w : tensor<?x1x2x4xf32, #fusion.axes<#tp, [-, -, -, -]>>, tensor<4x5xf32, #whole> -> tensor<?x1x2x5xf32, #fusion.axes<#tp, [-, -, -, -]>>
  return %2 : tensor<?x1x2x5xf32, #fusion.axes<#tp, [-, -, -, -]>>
}
