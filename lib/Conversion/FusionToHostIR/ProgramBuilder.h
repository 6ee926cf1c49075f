//===- ProgramBuilder.h - builds the body of one host program -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PROGRAMBUILDER_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PROGRAMBUILDER_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tandem {

/// Builds one `hostir.program`: streams, channels, buffers, kernels, loops and conditions. Knows
/// the buffer of every value, but no particular ops or schedules.
class ProgramBuilder {
public:
  /// Inserts at the end of the program's body. `workers`: size of the pool of worker streams;
  /// `worldSize`: number of ranks.
  ProgramBuilder(hostir::ProgramOp program, int64_t workers, int64_t worldSize);

  OpBuilder &getBuilder() { return builder; }
  /// Whether the order in which floats are added is a property of the program.
  bool isDeterministic() { return program.getDeterministic().has_value(); }
  /// Whether sums of matmuls round each product, as the text says: in these programs and in the
  /// reference.
  bool roundsAsWritten() { return isDeterministic() || program.getReferenceOf(); }

  //===--------------------------------------------------------------------===//
  // Buffers
  //===--------------------------------------------------------------------===//

  /// The buffer of a value of the fusion, or null.
  Value getBuffer(Value value) const { return buffers.lookup(value); }
  void setBuffer(Value value, Value buffer) { buffers[value] = buffer; }
  /// The buffer of an op's result; allocates it on the main stream if needed.
  Value getOrAllocBuffer(Value value);
  /// Marks an op whose result is put together in place: nothing is emitted for it.
  void setInPlace(Operation *op) { inPlace.insert(op); }
  bool isInPlace(Operation *op) const { return inPlace.contains(op); }
  /// Allocates a buffer on the main stream, in the program's outermost block.
  Value alloc(Location loc, MemRefType type);
  /// The same in symmetric memory, which peers may write.
  Value allocSymmetric(Location loc, ArrayRef<int64_t> shape, Type element);
  /// Reserves `count` consecutive signal slots; returns the first.
  int64_t takeSignals(int64_t count);

  //===--------------------------------------------------------------------===//
  // Ranks and channels
  //===--------------------------------------------------------------------===//

  /// Arithmetic at the builder's insertion point.
  hostir::IndexBuilder math(Location loc) { return {builder, loc}; }
  /// A constant of type `index`.
  Value getIndex(int64_t value);
  /// This device's coordinate on a mesh axis.
  Value getDeviceIndex(MeshAttr mesh, StringAttr axis);
  /// This device's position in its group along mesh axes, row-major in their order; 0 without axes.
  Value getGroupPosition(Location loc, MeshAttr mesh, ArrayRef<StringAttr> axes);
  /// The channel along mesh axes with this capability; created at first use. Concurrent directions
  /// need channels of their own, with different numbers.
  Value getChannel(MeshAttr mesh, ArrayRef<StringAttr> axes, hostir::Capability capability,
                   unsigned number = 0);
  /// Emits `body` for the devices of `mesh`, under a condition if there are other ranks.
  /// Returns what it returns: nothing, or a LogicalResult.
  template <typename BodyFn> auto onMesh(Location loc, MeshAttr mesh, BodyFn &&body) {
    if constexpr (std::is_void_v<decltype(body())>) {
      emitOnMesh(loc, mesh, body);
    } else {
      LogicalResult done = success();
      emitOnMesh(loc, mesh, [&] { done = body(); });
      return done;
    }
  }

  //===--------------------------------------------------------------------===//
  // Streams, loops and conditions
  //===--------------------------------------------------------------------===//

  Value getMainStream() { return mainStream; }
  int64_t getWorkers() const { return workers; }
  /// Number of workers for a loop of `iterations`: at most `most`; 0: all.
  int64_t getNumStreams(int64_t most, int64_t iterations);
  /// The worker stream of an iteration, among the first `streams`.
  Value getStream(Location loc, Value iteration, int64_t streams);
  Value getWorker(Location loc, Value number);
  Value getWorker(Location loc, int64_t number) { return getWorker(loc, getIndex(number)); }
  /// `hostir.sync` of the first `count` workers after the main stream (fork), or of the main stream
  /// after them (join).
  void fork(Location loc, int64_t count);
  void join(Location loc, int64_t count);
  /// The same as `onMesh`, between a fork and a join of the first `streams` workers.
  LogicalResult overlap(Location loc, int64_t streams, MeshAttr mesh,
                        function_ref<LogicalResult()> body);
  /// A loop over [lower, upper); only the body for one iteration, nothing for none.
  LogicalResult loop(Location loc, int64_t lower, int64_t upper,
                     function_ref<LogicalResult(Value iteration)> body);
  /// Steps 0 ... `count` - 1: a loop, without the first and the last step.
  LogicalResult steps(Location loc, int64_t count,
                      function_ref<LogicalResult(Value step, bool isFirst, bool isLast)> body);
  /// Emits `body` under `condition`; null: unconditionally.
  void onlyIf(Location loc, Value condition, function_ref<void()> body);

  //===--------------------------------------------------------------------===//
  // Kernels
  //===--------------------------------------------------------------------===//

  /// The private kernel with key `key`; equal keys share a kernel. A new kernel is named after the
  /// program and `name`; `compute` emits its body from the arguments and returns the yielded value.
  hostir::KernelOp getKernel(Location loc, StringRef key, StringRef name, TypeRange inputs,
                             Type result, function_ref<Value(ValueRange)> compute);
  /// A kernel that converts between floating point types.
  hostir::KernelOp getCastKernel(Location loc, Type from, Type to);
  void launch(Location loc, hostir::KernelOp kernel, ValueRange inputs, Value output, Value stream);

private:
  void emitOnMesh(Location loc, MeshAttr mesh, function_ref<void()> body);
  template <typename MakeFn> Value atEntry(MakeFn make);

  hostir::ProgramOp program;
  OpBuilder builder;
  int64_t workers, worldSize;
  Value mainStream;
  MeshAttr activeMesh; // only its devices run the code being emitted
  // Streams, channels and device indices are defined at the entry, in order of first use.
  Operation *lastOfEntry = nullptr;
  DenseMap<Value, Value> buffers;
  DenseSet<Operation *> inPlace;
  int64_t numSignals = 0;                    // reserved slots
  llvm::StringMap<hostir::KernelOp> kernels; // by key
  std::optional<SymbolTable> symbols;        // of the module, once there are kernels
  DenseMap<std::pair<Attribute, Attribute>, Value> deviceIndices;
  DenseMap<std::pair<Attribute, std::pair<Attribute, std::pair<unsigned, unsigned>>>, Value>
      channels; // mesh, axes, capability, number
  llvm::StringSet<> channelNames;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PROGRAMBUILDER_H
