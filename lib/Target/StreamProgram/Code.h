//===- Code.h - a host program, numbered for evaluation ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program is numbered once and evaluated once per rank: values become slots, operations become
// instructions in one list, structured control flow becomes jumps.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_CODE_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_CODE_H

#include "Layouts.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "tandem/Dialect/HostIR/Evaluate/Groups.h"
#include "tandem/Dialect/HostIR/Evaluate/NumberedProgram.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Target/StreamProgram/Targets.h"

#include <string>
#include <vector>

namespace tandem::target {

using hostir::Instr;
using hostir::kNone;

/// The translation's instructions; those of all clients are in hostir::opcode.
enum class Opcode : uint8_t {
  // Views: views[dst].
  SelectView = hostir::opcode::FirstOfClient, // ints[a] ? views[b] : views[c]
  MoveView,                                   // views[a]
  Map,                                        // views[a] by view operation b
  Alloc,                                      // a = allocation; e = stream
  Dim,                                        // ints[dst] = extent ints[b] of views[a]
  // Rank-dependent numbers: ints[dst].
  DeviceIndex, // a = mesh, b = axis
  InMesh,      // a = mesh
  Translate,   // a = position in mesh b: in mesh c
  // Streams.
  Worker, // ints[dst] = 1 + a mod pool
  Sync,   // a after b
  // Commands; operands are view slots, `e` is a stream slot, `d` a channel slot.
  // A command that only reads and writes memory: width = its kind; a to d = its operands in the
  // order of Commands.def; aux = flags, or a reduction; target = value.
  Local,
  Collective, // a = in, b = out, c = root slot or kNone; aux = kind, width = reduction
  GroupBegin,
  GroupEnd,
  GatedBegin, // a = SMs that it leaves
  GatedEnd,
  Send,       // a, c = peer
  Recv,       // a, c = peer
  Put,        // a = source, b = target, c = peer
  Signal,     // a = slot, b = value, c = peer
  WaitSignal, // a = slot, b = value
  Launch,     // a = launch
  Call,       // a = launch
  Exchange,   // a = exchange, d = channel
  End
};

/// A channel: its groups, and how it is bound.
struct ChannelInfo : hostir::RankGroups {
  ChannelInfo(const hostir::MeshRanks &mesh, ArrayAttr axes)
      : RankGroups(mesh, axes), mesh(mesh.mesh), axes(axes) {}

  std::string name, linkClass;
  MeshAttr mesh;
  ArrayAttr axes;
  uint32_t declared = 0, required = 0; ///< sp::Capability bits
  uint32_t firstPeer = 0;              ///< sum of the group sizes of earlier channels
};

/// A constant, or a number slot.
struct Operand {
  bool isSlot;
  int64_t value;
};

/// The effect of a view operation on a layout, with the last result cached.
struct ViewMap {
  enum Transform { Subview, Reinterpret, Permute, Expand, Collapse, Cast } transform;
  Operation *op;
  MemRefType resultType;
  SmallVector<Operand, 4> offsets, sizes, strides;
  SmallVector<unsigned, 4> permutation;
  SmallVector<mlir::ReassociationIndices, 4> groups;
  llvm::SmallBitVector dropped;
  bool layoutIsStatic = false; ///< the result's layout depends only on the source's

  /// A term of the result's offset: ints[slot] * bytes, 0 <= ints[slot] <= limit.
  struct Term {
    uint32_t slot;
    unsigned dim;
    int64_t bytes, limit;
  };
  uint32_t memoSource = kNone, memoResult = kNone;
  int64_t memoOffset = 0; ///< bytes
  SmallVector<Term, 2> memoTerms;
};

/// A `hostir.alloc`.
struct Allocation {
  Operation *op;
  uint32_t layout;
  bool perWorker;       ///< one slot per worker
  uint32_t firstWorker; ///< the first worker with a slot
  uint32_t places;      ///< number of slots
  uint32_t firstBuffer; ///< number of the first slot's buffer
};

/// A launch or call of kernels[kernel].
struct KernelLaunch {
  uint32_t kernel;
  SmallVector<uint32_t, 4> operands; ///< view slots, outputs first
  /// Of a call, per parallel dimension: number slots, and logical extents.
  SmallVector<uint32_t, 2> offsets = {};
  SmallVector<int64_t, 2> extents = {};
};

/// A `hostir.peer_exchange`.
struct ExchangeCode {
  hostir::PeerExchangeOp op;
  SmallVector<uint32_t, 4> inputs, outputs, copies; ///< view slots
  uint32_t scratch = kNone;                         ///< likewise
  uint32_t value = kNone;                           ///< number slot
};

/// What is known of a kernel of the embedder.
struct ExternalKernel {
  std::vector<int8_t> dims;
  std::string config;
  double flops, bytes;
  bool isStrided;
  sp::KernelEffects effects;
  std::vector<uint8_t> varying;
};

/// A kernel for one kind of GPU.
struct NativeKernel {
  sp::KernelFormat format;
  std::string target, code;
};

struct KernelCode {
  std::string name;
  std::vector<uint8_t> expression;
  std::vector<sp::DType> operandTypes;      ///< outputs, then inputs
  SmallVector<NativeKernel, 1> native = {}; ///< for GPUs
  uint32_t outputs = 0;
  std::optional<ExternalKernel> external = std::nullopt; ///< instead of code
};

struct Name {
  std::string text, location;
};

/// A possible location of a buffer: the arguments, then the slots of each allocation.
struct BufferInfo {
  sp::Space space;
  uint32_t argument; ///< of the stream program
  int64_t offset, bytes;
  uint32_t name;
  uint32_t firstPart = kNone; ///< an argument in parts: the buffer of the first one
};

/// A numbered program. Its view maps cache results, so it is for one thread.
struct Code : hostir::NumberedProgram {
  hostir::ProgramOp program;
  uint32_t numRanks = 1;
  uint32_t workers = 1;
  std::vector<uint32_t> argumentLayouts;
  std::vector<ViewMap> maps;
  std::vector<Allocation> allocations;
  std::vector<BufferInfo> buffers;
  std::vector<KernelLaunch> launches;
  std::vector<ExchangeCode> exchanges;
  std::vector<KernelCode> kernels;
  std::vector<hostir::MeshRanks> meshes;
  std::vector<ChannelInfo> channels;
  uint32_t numPeers = 0; ///< sum of the channels' group sizes
  std::vector<Name> names;
  LayoutTable layouts;
  bool usesSignals = false;
  /// Received f16 or bf16 partial sums are added (a ring), so they are rounded on the wire.
  bool receives = false, accumulatesRounded = false;
};

/// Numbers a program for a world of `numRanks` (0: as many as its meshes need). Reports operations
/// that cannot be evaluated at compile time. `architectures`: the GPUs that kernels are also
/// compiled for.
FailureOr<std::unique_ptr<Code>> buildCode(hostir::ProgramOp program, uint32_t numRanks,
                                           ArrayRef<GpuArchitecture> architectures = {});

/// Translates an elementwise kernel into an `Expression` buffer.
FailureOr<std::vector<uint8_t>> buildExpression(hostir::KernelOp kernel);

/// Translates an elementwise kernel for a GPU: into PTX for NVIDIA's, into a code object for AMD's.
/// docs/kernels.md describes its calls. A kernel that this process has translated before is looked
/// up. Thread-safe.
FailureOr<std::string> buildNative(hostir::KernelOp kernel, const GpuArchitecture &architecture);
/// The same without looking it up.
FailureOr<std::string> compileNative(hostir::KernelOp kernel, const GpuArchitecture &architecture);

/// The code of a gpu.module of llvm ops, and of nvvm or rocdl ops.
FailureOr<std::string> translateToNative(Operation *gpuModule, const GpuArchitecture &architecture);

/// The code object of an object file for AMD GPUs. Runs the linker ld.lld; `error` reports what is
/// wrong.
FailureOr<std::string> linkCodeObject(StringRef object,
                                      llvm::function_ref<InFlightDiagnostic(const Twine &)> error);

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_CODE_H
