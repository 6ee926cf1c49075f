// RUN: tandem-opt %s --pass-pipeline='builtin.module(hostir.program(hostir-localize-buffers{log},hostir-insert-deallocs,hostir-plan-buffers,hostir-verify))' --verify-diagnostics | FileCheck %s
// RUN: tandem-opt %s --pass-pipeline='builtin.module(hostir.program(hostir-insert-deallocs,hostir-plan-buffers))' -o %t.mlir
// RUN: tandem-compile %t.mlir --entry=buffers --dump | FileCheck %s --check-prefix=COMMANDS
// RUN: tandem-compile %t.mlir --entry=views --dump | FileCheck %s --check-prefix=COMMANDS

// Extents of 0: there is nothing to slice, and nothing takes memory.

// COMMANDS: arena {{0|64}},
// COMMANDS-COUNT-4: copy

// CHECK-LABEL: hostir.program @buffers
// CHECK-SAME: arena_bytes = 0
hostir.program @buffers(%x: memref<4x0x16xf32>, %y: memref<4x0x16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<4x0x16xf32>
  // expected-remark @+1 {{hostir-localize-buffers: kept whole: a view of it has no elements}}
  %g = hostir.alloc on %main : memref<4x0x16xf32>
  scf.for %i = %c0 to %c2 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    hostir.copy %x to %g on %s : memref<4x0x16xf32> to memref<4x0x16xf32>
    hostir.copy %g to %y on %s : memref<4x0x16xf32> to memref<4x0x16xf32>
    hostir.sync %main after %s
  }
}

// CHECK-LABEL: hostir.program @views
// CHECK-SAME: arena_bytes = 64
hostir.program @views(%x: memref<0x8xf32>, %y: memref<0x8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  // expected-remark @+1 {{hostir-localize-buffers: kept whole: a view of it has no elements}}
  %g = hostir.alloc on %main : memref<2x8xf32>
  scf.for %i = %c0 to %c2 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    %none = memref.subview %g[%i, 0] [0, 8] [1, 1] : memref<2x8xf32> to memref<0x8xf32, strided<[8, 1], offset: ?>>
    hostir.copy %x to %none on %s : memref<0x8xf32> to memref<0x8xf32, strided<[8, 1], offset: ?>>
    hostir.copy %none to %y on %s : memref<0x8xf32, strided<[8, 1], offset: ?>> to memref<0x8xf32>
    hostir.sync %main after %s
  }
}
