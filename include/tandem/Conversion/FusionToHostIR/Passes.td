//===- Passes.td - conversion passes -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_TD
#define TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFusionToHostIR : Pass<"convert-fusion-to-hostir", "::mlir::ModuleOp"> {
  let summary = "Turn each fusion into a host program, one stream loop per reshard group";
  let description = [{
    Ops that are streamed alike and depend on each other become one stream loop; each loop's schedule (named by
    `fusion-select-schedule` on the reshard) writes its body. Ops that are not streamed run whole on the main stream.
    A function's arguments and results become the program's buffers; it is erased.

    Before:
    ```mlir
    func.func @f(%x: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
        -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>> {
      %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : ...
      return %0 : ...
    }
    ```
    After (syncs left out):
    ```mlir
    hostir.program @f(%x: memref<1x8xf32>, %out: memref<4x8xf32> {hostir.result}) {
      %me = hostir.device_index #tp, "x"
      %ch = hostir.channel "tp.x.two_sided" over #tp ["x"] can [two_sided]
      hostir.copy %own to %slot on %s0 : ...
      scf.for %d = %c1 to %c4 step %c1 {
        %from = ... (%me + %d) mod 4
        %to = ... (%me - %d) mod 4
        hostir.group via %ch on %s {
          hostir.recv %slot from %from : ...
          hostir.send %own to %to : ...
        }
      }
    }
    ```
  }];
  let dependentDialects = ["::mlir::tandem::hostir::HostIRDialect", "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
  let options = [
    Option<"workers", "workers", "int64_t", /*default=*/"4", "size of the pool of worker streams">,
    Option<"ranks", "ranks", "int64_t", /*default=*/"0", "ranks of the world; 0: as many as the meshes need">,
    Option<"log", "log", "bool", /*default=*/"false", "say as remarks what became of each group">
  ];
  let statistics = [
    Statistic<"numLoops", "stream-loops", "Stream loops made">,
    Statistic<"numReshards", "reshards", "Reshards lowered">
  ];
}

#endif // TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_TD
