//===- ProgramBuilder.h - builds the body of one host program -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PROGRAMBUILDER_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PROGRAMBUILDER_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tandem {

/// Builds one `hostir.program`: its streams, channels, buffers, kernels, loops and conditions. It
/// knows the buffer of every value, and nothing of particular ops or schedules.
class ProgramBuilder {
public:
  /// Inserts at the end of the program's body. `workers` is the size of the pool of worker streams,
  /// `worldSize` the number of ranks that run the program.
  ProgramBuilder(hostir::ProgramOp program, int64_t workers, int64_t worldSize);

  OpBuilder &getBuilder() { return builder; }

  //===--------------------------------------------------------------------===//
  // Buffers
  //===--------------------------------------------------------------------===//

  /// The buffer of a value of the fusion; null if it has none yet.
  Value getBuffer(Value value) const { return buffers.lookup(value); }
  void setBuffer(Value value, Value buffer) { buffers[value] = buffer; }
  /// The buffer of an op's result; allocated on the main stream if it has none yet.
  Value getOrAllocBuffer(Value value);
  /// A buffer allocated on the main stream, in the program's own block.
  Value alloc(Location loc, MemRefType type);
  /// The same in symmetric memory, which peers may write.
  Value allocSymmetric(Location loc, ArrayRef<int64_t> shape, Type element);
  /// The first of `count` signal slots that nothing else in the program uses.
  int64_t takeSignals(int64_t count);

  //===--------------------------------------------------------------------===//
  // Ranks and channels
  //===--------------------------------------------------------------------===//

  /// A constant of type `index`.
  Value getIndex(int64_t value);
  /// This device's coordinate on a mesh axis.
  Value getDeviceIndex(MeshAttr mesh, StringAttr axis);
  /// This device's number in its group along mesh axes, which number the group in their order.
  Value getGroupPosition(Location loc, MeshAttr mesh, ArrayRef<StringAttr> axes);
  /// The channel along mesh axes for messages of one kind; made once.
  Value getChannel(MeshAttr mesh, ArrayRef<StringAttr> axes, hostir::Capability capability);
  /// Emits `body` for the devices of `mesh` alone: under a condition, if the program has others.
  void onMesh(Location loc, MeshAttr mesh, function_ref<void()> body);

  //===--------------------------------------------------------------------===//
  // Streams, loops and conditions
  //===--------------------------------------------------------------------===//

  Value getMainStream() { return mainStream; }
  int64_t getWorkers() const { return workers; }
  /// How many workers a loop of `iterations` under `schedule` uses.
  int64_t getNumStreams(fusion::ScheduleAttr schedule, int64_t iterations);
  /// The worker stream of an iteration, of the first `streams`.
  Value getStream(Location loc, Value iteration, int64_t streams);
  /// `hostir.sync` of the first `count` workers after the main stream, or of the main stream after
  /// them.
  void fork(Location loc, int64_t count);
  void join(Location loc, int64_t count);
  /// A loop over [lower, upper); nothing for an empty range, no loop for `upper` = `lower` + 1.
  LogicalResult loop(Location loc, int64_t lower, int64_t upper,
                     function_ref<LogicalResult(Value iteration)> body);
  /// Emits `body` under `condition`; null: always.
  void onlyIf(Location loc, Value condition, function_ref<void()> body);

  //===--------------------------------------------------------------------===//
  // Kernels
  //===--------------------------------------------------------------------===//

  /// The private kernel that computes `key`; two requests with one key share the kernel. If it is
  /// new it is named after the program and `name`, and `compute` emits its body from the arguments
  /// and returns the value that it yields.
  hostir::KernelOp getKernel(Location loc, StringRef key, StringRef name, TypeRange inputs,
                             Type result, function_ref<Value(ValueRange)> compute);
  /// A kernel that converts between floating point types.
  hostir::KernelOp getCastKernel(Location loc, Type from, Type to);
  void launch(Location loc, hostir::KernelOp kernel, ValueRange inputs, Value output, Value stream);

private:
  template <typename MakeFn> Value atEntry(MakeFn make);

  hostir::ProgramOp program;
  OpBuilder builder;
  int64_t workers, worldSize;
  Value mainStream;
  MeshAttr activeMesh; // whose devices alone run what is emitted now
  // Streams, channels and device indices are defined at the entry, in order of their first use.
  Operation *lastOfEntry = nullptr;
  DenseMap<Value, Value> buffers;
  int64_t numSignals = 0;                    // slots taken
  llvm::StringMap<hostir::KernelOp> kernels; // by what they compute
  std::optional<SymbolTable> symbols;        // of the module, once kernels are made
  DenseMap<std::pair<Attribute, Attribute>, Value> deviceIndices;
  DenseMap<std::pair<Attribute, std::pair<Attribute, unsigned>>, Value>
      channels; // mesh, axes, capability
  llvm::StringSet<> channelNames;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PROGRAMBUILDER_H
