// All-gather whose slices have one owner each: point-to-point (stream-lowering document, `AllgatherP2p`).
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @allgather_p2p(
    %t0: tensor<?x24xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "t0", fusion.shape = ["x", 24]})
    -> (tensor<?x24xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0 : tensor<?x24xf32, #fusion.axes<#tp, [didx("x"), -]>>
                          -> tensor<?x24xf32, #fusion.axes<#tp, [stream, -]>>
  return %t1 : tensor<?x24xf32, #fusion.axes<#tp, [stream, -]>>
}
