// RUN: split-file %s %t
// RUN: not tandem-compile %t/peer.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=PEER
// RUN: not tandem-compile %t/unmatched.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// RUN: not tandem-compile %t/order.mlir --target=cpu-local -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not tandem-compile %t/endless.mlir --max-commands=100 -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=ENDLESS
// RUN: not tandem-compile %t/unplanned.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=UNPLANNED
// RUN: not tandem-compile %t/input.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not tandem-compile %t/many.mlir --target=cpu-local -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not tandem-compile %t/many-signals.mlir --target=cpu-local -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not ls %t/out.tsp

// Errors name the file, the line and the rank, and leave no file behind. (All of them: test/Unit/Target.)

// PEER: peer.mlir:7:35: error: 'hostir.send' op rank 0: peer 4 is outside the group of 4 of channel "c"
//--- peer.mlir
hostir.program @p(%in: memref<8xf32>) {
  %main = hostir.main_stream
  %me = hostir.device_index #tandem.mesh<"tp", ["x" = 4]>, "x"
  %c4 = arith.constant 4 : index
  %right = arith.addi %me, %c4 : index
  %ch = hostir.channel "c" over #tandem.mesh<"tp", ["x" = 4]> ["x"] can [two_sided]
  hostir.group via %ch on %main { hostir.send %in to %right : memref<8xf32> }
}

// UNMATCHED: unmatched.mlir:9:7: error: 'hostir.send' op rank 0: sends message 0 from rank 0 to rank 1 over channel "c", which rank 1 never receives
//--- unmatched.mlir
hostir.program @p(%in: memref<8xf32>) {
  %main = hostir.main_stream
  %me = hostir.device_index #tandem.mesh<"tp", ["x" = 2]>, "x"
  %c1 = arith.constant 1 : index
  %first = arith.cmpi ult, %me, %c1 : index
  %ch = hostir.channel "c" over #tandem.mesh<"tp", ["x" = 2]> ["x"] can [two_sided]
  scf.if %first {
    hostir.group via %ch on %main {
      hostir.send %in to %c1 : memref<8xf32>
    }
  }
}

// ORDER: order.mlir:11:5: error: 'hostir.collective' op rank 1 calls all_reduce of 32 bytes of f32 by max as collective 0 of channel "c", rank 0 calls all_reduce of 32 bytes of f32
// ORDER: order.mlir:9:5: note: see the operation of rank 0
//--- order.mlir
hostir.program @p(%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tandem.mesh<"tp", ["x" = 2]>, "x"
  %c1 = arith.constant 1 : index
  %first = arith.cmpi ult, %me, %c1 : index
  %ch = hostir.channel "c" over #tandem.mesh<"tp", ["x" = 2]> ["x"] can [collectives]
  // Both wait for the other's.
  scf.if %first {
    hostir.collective all_reduce %in to %out via %ch on %main : memref<8xf32> to memref<8xf32>
  } else {
    hostir.collective all_reduce %in to %out via %ch on %main {reduction = #tandem<reduce_kind max>} : memref<8xf32> to memref<8xf32>
  }
}

// ENDLESS: endless.mlir:6:3: error: 'scf.for' op rank 0: the program has more than 100 commands
//--- endless.mlir
hostir.program @p(%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %many = arith.constant 1000000000000 : index
  scf.for %i = %c0 to %many step %c1 {
    hostir.copy %in to %out on %main : memref<8xf32> to memref<8xf32>
  }
}

// UNPLANNED: unplanned.mlir:3:8: error: 'hostir.alloc' op has no offset in the arena (run hostir-plan-buffers first)
//--- unplanned.mlir
hostir.program @p(%in: memref<8xf32>) {
  %main = hostir.main_stream
  %b = hostir.alloc on %main : memref<8xf32>
}

// INPUT: error: the stream program is invalid: memory: rank 0: command 0 (copy "copy #0"): dst: writes to the input argument "arg0"
//--- input.mlir
hostir.program @p(%in: memref<8xf32>) {
  %main = hostir.main_stream
  hostir.copy %in to %in on %main : memref<8xf32> to memref<8xf32>
}

// Each of 64,000 devices receives a slice from each.
// MANY: many{{.*}}.mlir:3:1: error: 'hostir.program' op needs more than 4294967296 bytes for the commands of 64000 ranks, which is the limit of a file
//--- many.mlir
#m = #tandem.mesh<"m", ["x" = 64000]>
!x = tensor<64000x8xf32, #fusion.axes<#m, [didx("x"), -]>>
func.func @f(%x: !x) -> tensor<64000x8xf32, #fusion.axes<#m, [stream("x"), -]>> {
  %y = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !x -> tensor<64000x8xf32, #fusion.axes<#m, [stream("x"), -]>>
  return %y : tensor<64000x8xf32, #fusion.axes<#m, [stream("x"), -]>>
}

//--- many-signals.mlir
#m = #tandem.mesh<"m", ["x" = 64000]>
!x = tensor<64000x8xf32, #fusion.axes<#m, [didx("x"), -]>>
func.func @f(%x: !x) -> tensor<64000x8xf32, #fusion.axes<#m, [stream("x"), -]>> {
  %y = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> tensor<64000x8xf32, #fusion.axes<#m, [stream("x"), -]>>
  return %y : tensor<64000x8xf32, #fusion.axes<#m, [stream("x"), -]>>
}
