//===- Passes.td - conversion passes -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_TD
#define TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_TD

include "mlir/Pass/PassBase.td"

def FusionFormLoops : Pass<"fusion-form-loops", "::mlir::func::FuncOp"> {
  let summary = "Make one op of what runs together: fusion.stream_loop";
  let description = [{
    Puts reshards that communicate, and the compute that can overlap them, into `fusion.stream_loop` ops. Which ops run
    together follows from the data flow and from stream digits, not from a schedule; no later pass regroups.

    - Ops that are streamed alike and depend on each other are one loop. An op that combines over the loop's dimension
      (a matmul over slices of K, a reduction) accumulates in it. A reduction whose operand is sliced by receiver is in
      the loop that computes the operand.
    - Gathers that feed one op share a loop if the same devices own their slices, or if no slice has an owner.
    - A reshard without stream digits and without an annotation is in a loop with the compute that could be sliced with
      it: the consumers of a gather, the producers of a reduction. `fusion-select-schedule` may choose slices there.
    - Two reshards with different annotations are never in one loop.

    The schedule that a reshard is annotated with moves to its loop. Ops that are not streamed and do not communicate
    stay outside. Constants that ops of a loop use are copied into it.

    Before:
    ```mlir
    %g = fusion.reshard %x {schedule = #fusion.schedule<NAME>} : tensor<8x4xf32, #rows> -> tensor<8x4xf32, #slices>
    %y = fusion.matmul %g, %w : tensor<8x4xf32, #slices>, tensor<4x2xf32, #whole> -> tensor<8x2xf32, #slices>
    ```
    After:
    ```mlir
    %y = fusion.stream_loop schedule <NAME> from annotation (%x, %w)
        : (tensor<8x4xf32, #rows>, tensor<4x2xf32, #whole>) -> tensor<8x2xf32, #slices> {
    ^bb0(%x0: tensor<8x4xf32, #rows>, %w0: tensor<4x2xf32, #whole>):
      %g = fusion.reshard %x0 : tensor<8x4xf32, #rows> -> tensor<8x4xf32, #slices>
      %p = fusion.matmul %g, %w0 : tensor<8x4xf32, #slices>, tensor<4x2xf32, #whole> -> tensor<8x2xf32, #slices>
      fusion.yield %p : tensor<8x2xf32, #slices>
    }
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [
    Option<"log", "log", "bool", /*default=*/"false", "say what was done, as remarks at the loops">
  ];
  let statistics = [
    Statistic<"numLoops", "loops", "number of loops formed">
  ];
}

def FusionSelectSchedule : Pass<"fusion-select-schedule", "::mlir::ModuleOp"> {
  let summary = "Give every stream loop a schedule, and slices where they are worth it";
  let description = [{
    An annotated schedule is kept. It is an error if it cannot run the loop, and if it needs one-sided messages that the
    target's channels do not have (`one-sided`). Any other loop gets, without a `machine`, the fallback: of the schedules
    that can run the loop, the one that ranks itself highest; one of them, `pipeline`, runs all loops.

    With a `machine` (a machine file, as `tandem-sim` takes it) the loop gets the candidate of the least price, of all
    schedules with the options that they propose. A reshard without stream digits may get slices: one per owner of a
    gather, or per receiver of a reduce-scatter (also 2 and 4, where messages are one-sided); 2, 4 or 8 along a
    dimension. They are written into the types of the loop's body: the types outside stay.

    A gain is ignored if it is under 6 % of the time of the loop. The machine file states the limit for slices on SMs.
    `log` says what each choice would take.

    Before:
    ```mlir
    %y = fusion.stream_loop (%x, %w) : ... {
    ```
    After:
    ```mlir
    %y = fusion.stream_loop schedule <NAME> from fallback (%x, %w) : ... {
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
    ListOption<"tuned", "tuned", "std::string",
               "measured choices: `LOOP=CANDIDATE`, a loop's signature and the text of a candidate; in braces if it has commas">,
    ListOption<"among", "among", "std::string",
               "`I/N=CANDIDATE`: of N loops with reshards, loop I (from 0) chooses by cost among these candidates and the "
               "plainest; in braces if it has commas; ignored if there are not N loops, or if none of the loop's is a "
               "candidate of it">,
    Option<"baseline", "baseline", "bool", /*default=*/"false",
           "all loops get the unoverlapped baseline, in place of their annotations too">,
    Option<"log", "log", "bool", /*default=*/"false", "say what was done, as remarks at the ops">
  ];
  let statistics = [
    Statistic<"numByCost", "by-cost", "number of loops whose schedule has the least price">,
    Statistic<"numTuned", "tuned", "number of loops with a measured choice">,
    Statistic<"numFallback", "fallback", "number of loops with the fallback schedule">,
    Statistic<"numUser", "user", "number of loops with an annotated schedule">,
    Statistic<"numSliced", "sliced", "number of loops that the pass cut into slices">
  ];
}

def ConvertFusionToHostIR : Pass<"convert-fusion-to-hostir", "::mlir::ModuleOp"> {
  let summary = "Convert each fusion to a host program, one loop per fusion.stream_loop";
  let description = [{
    Each `fusion.stream_loop` is written by its schedule. Ops outside of loops run whole on the main stream.
    A function's arguments and results become the program's buffers; it is erased.

    Before:
    ```mlir
    func.func @f(%x: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
        -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>> {
      %0 = fusion.stream_loop schedule <NAME> from fallback (%x) : ... {
      ^bb0(%x0: ...):
        %g = fusion.reshard %x0 : ...
        fusion.yield %g : ...
      }
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
