// Each rank sends its piece to the next, then receives one: not in a group, and on a worker that does not wait for the
// main stream.
#tp = #tandem.mesh<"tp", ["x" = 2]>

hostir.program @unsynced(
    %in: memref<1x4xf32> {hostir.name = "shard", hostir.type = tensor<2x4xf32, #fusion.axes<#tp, [didx("x"), -]>>},
    %out: memref<1x4xf32> {hostir.name = "other", hostir.result,
                           hostir.type = tensor<2x4xf32, #fusion.axes<#tp, [didx("x"), -]>>})
    attributes {workers = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  %s = hostir.worker_stream %c0
  %peer = arith.subi %c1, %me : index
  hostir.group via %ch on %s {
    hostir.send %in to %peer : memref<1x4xf32>
  }
  hostir.group via %ch on %s {
    hostir.recv %out from %peer : memref<1x4xf32>
  }
  hostir.sync %main after %s
}
