// One fusion, three schedules: what `tools/dev demo` runs side by side. The rows of x are spread over the devices; every
// device wants x * w. Only the axes of the result, and with them the stream loop, differ.
#tp = #tandem.mesh<"tp", ["x" = ?]>

// The plain sequence: gather all of x, then multiply.
func.func @sequence(
    %x: tensor<?x512x1024xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "x", fusion.shape = ["x", 512, 1024]},
    %w: tensor<1024x1024xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"})
    -> (tensor<?x512x1024xf32, #fusion.axes<#tp, [-, -, -]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w
      : tensor<?x512x1024xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<1024x1024xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<?x512x1024xf32, #fusion.axes<#tp, [-, -, -]>>
  return %y : tensor<?x512x1024xf32, #fusion.axes<#tp, [-, -, -]>>
}

// A quarter of every device's rows per iteration: a collective, then a matmul, on streams in turn.
func.func @pipeline(
    %x: tensor<?x512x1024xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "x", fusion.shape = ["x", 512, 1024]},
    %w: tensor<1024x1024xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"})
    -> (tensor<?x512x1024xf32, #fusion.axes<#tp, [-, stream(4), -]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w
      : tensor<?x512x1024xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<1024x1024xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<?x512x1024xf32, #fusion.axes<#tp, [-, stream(4), -]>>
  return %y : tensor<?x512x1024xf32, #fusion.axes<#tp, [-, stream(4), -]>>
}

// One device's rows per iteration: the own ones first, then those of one peer after another, point to point.
func.func @exchange(
    %x: tensor<?x512x1024xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "x", fusion.shape = ["x", 512, 1024]},
    %w: tensor<1024x1024xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"})
    -> (tensor<?x512x1024xf32, #fusion.axes<#tp, [stream, -, -]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w
      : tensor<?x512x1024xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<1024x1024xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<?x512x1024xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %y : tensor<?x512x1024xf32, #fusion.axes<#tp, [stream, -, -]>>
}
