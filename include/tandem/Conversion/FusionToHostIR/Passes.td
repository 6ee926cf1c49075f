//===- Passes.td - conversion passes -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_TD
#define TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_TD

include "mlir/Pass/PassBase.td"

def FusionSelectSchedule : Pass<"fusion-select-schedule", "::mlir::func::FuncOp"> {
  let summary = "Give every reshard a schedule, and slices where they are worth it";
  let description = [{
    The user's word holds. One that no schedule keeps is an error at the reshard: `ring` and `hierarchical`, which are
    reserved; 2 directions, a channel; and `push` where the target's channels have no one-sided messages (`one-sided`).
    Whether the loop around it lets it keep the word shows in `convert-fusion-to-hostir`. Otherwise, without a `machine`, an all-gather along one mesh axis whose
    stream slices have one owner each moves point to point (`exchange`), and all else goes through `pipeline`.

    With a `machine` (a machine file, as `tandem-sim` takes it) the cost model decides:

    1. A gather or reduction without a schedule, in a loop without stream digits, gets those that make the function
       quickest: a slice per owner of a gather, or per device of a reduce-scatter (also 2 and 4, where messages are
       one-sided); 2, 4 or 8 slices along a dimension. They are written into the types of the reshard, of what is
       computed beside it slice by slice and, since they move nothing, of the function's arguments and results.
    2. Each loop whose schedule nobody has named gets the quickest of those that can run it.

    A gain of less than 6 % of what the loop and its neighbours take is none; of slices that take SMs, less than the
    machine says. `log` says what each choice would take.

    Before:
    ```mlir
    %1 = fusion.reshard %0 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x4xf32, #fusion.axes<#tp, [stream, -]>>
    ```
    After:
    ```mlir
    %1 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>}
        : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x4xf32, #fusion.axes<#tp, [stream, -]>>
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [
    Option<"machine", "machine", "std::string", /*default=*/"",
           "machine file (a name of machines/, or a path) by which to choose; empty: fixed rules">,
    Option<"workers", "workers", "int64_t", /*default=*/"4", "size of the pool of worker streams">,
    Option<"collectives", "collectives", "bool", /*default=*/"true",
           "the target's channels have collectives; else they become messages">,
    Option<"oneSided", "one-sided", "bool", /*default=*/"true", "the target's channels have one-sided messages">,
    Option<"log", "log", "bool", /*default=*/"false", "say what was done, as remarks at the ops">
  ];
  let statistics = [
    Statistic<"numExchange", "exchange", "number of reshards that the pass gave to exchange">,
    Statistic<"numPipeline", "pipeline", "number of reshards that the pass gave to pipeline">,
    Statistic<"numUser", "user", "number of reshards whose schedule the user has named">,
    Statistic<"numSliced", "sliced", "number of reshards that the pass cut into slices">
  ];
}

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
  let dependentDialects = ["::tandem::hostir::HostIRDialect", "::mlir::arith::ArithDialect",
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
