// All-gather and matmul, slice by slice (stream-lowering document, `AG_matmul`). The user writes only the matmul; the
// gather follows from the axes.
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @allgather_matmul(
    %t0: tensor<8x?x4x32xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>
        {fusion.name = "t0", fusion.shape = [8, "x", 4, 32]},
    %t1: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "t1"})
    -> (tensor<8x?x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>> {fusion.name = "t2"}) {
  %t2 = fusion.matmul %t0, %t1
      : tensor<8x?x4x32xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<8x?x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>>
  return %t2 : tensor<8x?x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>>
}
