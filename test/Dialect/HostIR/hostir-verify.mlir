// RUN: tandem-opt %s --hostir-verify

#tp = #tandem.mesh<"tp", ["x" = 4]>

// All that the stage promises.
hostir.program @good(%x: memref<16xf32> {hostir.name = "x"}, %y: memref<4x16xf32> {hostir.result})
    attributes {arena_bytes = 256 : i64, symmetric_bytes = 0 : i64, workers = 3 : i64} {
  %main = hostir.main_stream
  %a = hostir.channel "a" over #tp ["x"] can [two_sided]
  %again = hostir.channel "a" over #tp ["x"] can [two_sided]
  %b = hostir.channel "b" over #tp ["x"] can [collectives]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  hostir.collective all_gather %x to %y via %b on %main : memref<16xf32> to memref<4x16xf32>
  %m = hostir.alloc on %main {offset = 0 : i64} : memref<16xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    %t = hostir.alloc on %s {offset = 64 : i64, pitch = 64 : i64} : memref<16xf32>
    %v = memref.expand_shape %t [[0, 1]] output_shape [4, 4] : memref<16xf32> into memref<4x4xf32>
    hostir.group via %a on %s {
      hostir.send %x to %i : memref<16xf32>
      hostir.recv %t from %i : memref<16xf32>
    }
    hostir.matmul %v, %v to %v on %s : memref<4x4xf32>, memref<4x4xf32> to memref<4x4xf32>
    hostir.dealloc %t on %s : memref<16xf32>
    hostir.copy %x to %m on %s : memref<16xf32> to memref<16xf32>
  }
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %main after %s
  }
  hostir.dealloc %m on %main : memref<16xf32>
}
