//===- Operations.cpp - messages and collectives by NCCL --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>
#include <tuple>

namespace tandem::ccl {

using gpu::GpuStream;
using gpu::Kernels;

namespace {

Status track(GpuStream &stream, Marker marker) {
  if (stream.capturing()) // NCCL tracks the graphs that contain its work
    stream.capturing()->updatable = false;
  return stream.track(marker);
}

/// An operand for NCCL: in place if dense, else a dense copy.
class Packed {
public:
  Packed() = default;
  Packed(Packed &&) = default;
  Packed &operator=(Packed &&) = default;

  static Expected<Packed> make(const Kernels &kernels, const std::shared_ptr<DeviceState> &state,
                               const Operand &operand, bool load) {
    Packed packed;
    packed.slot = operand.slot;
    packed.bytes = operand.layout.numBytes();
    const Layout &layout = operand.layout;
    if (!operand.present() || layout.isDense())
      return packed;
    Layout dense = Layout::dense(layout.dtype, layout.shape.data(), layout.rank);
    TANDEM_ASSIGN_OR_RETURN(packed.memory, gpu::Scratch::make(state, packed.bytes));
    if (load) {
      TANDEM_ASSIGN_OR_RETURN(packed.copy, gpu::CopyPlan::make(kernels, dense, layout));
    } else {
      TANDEM_ASSIGN_OR_RETURN(packed.copy, gpu::CopyPlan::make(kernels, layout, dense));
    }
    packed.copied = true;
    return packed;
  }

  char *data(const Frame &frame) const {
    if (slot == Operand::kNone)
      return nullptr;
    return static_cast<char *>(copied ? memory.data() : frame.pointers[slot]);
  }
  Status load(const Kernels &kernels, GpuStream &stream, const Frame &frame) const {
    return copied ? copy.run(kernels, stream.native(), memory.data(), frame.pointers[slot])
                  : Status();
  }
  Status store(const Kernels &kernels, GpuStream &stream, const Frame &frame) const {
    return copied ? copy.run(kernels, stream.native(), frame.pointers[slot], memory.data())
                  : Status();
  }

  uint64_t bytes = 0;

private:
  uint32_t slot = Operand::kNone;
  bool copied = false;
  gpu::Scratch memory;
  gpu::CopyPlan copy;
};

class MessagesOperation final : public gpu::GpuOperation {
public:
  MessagesOperation(CommunicatorRef communicator, const Kernels &kernels)
      : communicator(std::move(communicator)), kernels(kernels) {}

  Status prepare(std::vector<Message> messages) {
    sortByTag(messages);
    for (const Message &message : messages) {
      TANDEM_ASSIGN_OR_RETURN(Packed packed, Packed::make(kernels, communicator->state,
                                                          message.buffer, message.isSend));
      if (packed.bytes)
        parts.push_back({message.isSend, static_cast<int>(message.peer), std::move(packed)});
    }
    return Status();
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    if (parts.empty())
      return Status();
    for (const Part &part : parts)
      if (part.isSend)
        TANDEM_RETURN_IF_ERROR(part.packed.load(kernels, stream, frame));
    TANDEM_RETURN_IF_ERROR(communicator->call("send and receive", [&](const Api &api,
                                                                      ncclComm_t comm) {
      ncclResult_t result = api.ncclGroupStart();
      for (const Part &part : parts) {
        if (result != ncclSuccess && result != ncclInProgress)
          break;
        char *data = part.packed.data(frame);
        result =
            part.isSend
                ? api.ncclSend(data, part.packed.bytes, ncclInt8, part.peer, comm, native(stream))
                : api.ncclRecv(data, part.packed.bytes, ncclInt8, part.peer, comm, native(stream));
      }
      ncclResult_t ended = api.ncclGroupEnd();
      return result == ncclSuccess || result == ncclInProgress ? ended : result;
    }));
    TANDEM_RETURN_IF_ERROR(track(stream, marker));
    for (const Part &part : parts)
      if (!part.isSend)
        TANDEM_RETURN_IF_ERROR(part.packed.store(kernels, stream, frame));
    return Status();
  }

private:
  struct Part {
    bool isSend;
    int peer;
    Packed packed;
  };
  CommunicatorRef communicator;
  const Kernels &kernels;
  std::vector<Part> parts;
};

class CollectiveOperation final : public gpu::GpuOperation {
public:
  CollectiveOperation(CommunicatorRef communicator, const Kernels &kernels, const Collective &desc)
      : communicator(std::move(communicator)), kernels(kernels), collective(desc.kind),
        root(desc.root), op(opOf(desc.op)) {}

  Status prepare(const Collective &desc) {
    size = static_cast<uint32_t>(communicator->group.size());
    self = communicator->self;
    TANDEM_ASSIGN_OR_RETURN(in, Packed::make(kernels, communicator->state, desc.in, true));
    TANDEM_ASSIGN_OR_RETURN(out, Packed::make(kernels, communicator->state, desc.out, false));
    const Layout &seen = desc.in.present() ? desc.in.layout : desc.out.layout;
    type = typeOf(seen.dtype);
    bool stacked =
        desc.in.present() ? program::stacksIn(collective) : program::stacksOut(collective);
    slice = seen.numBytes() / (stacked ? size : 1);
    count = slice / sizeOf(seen.dtype);
    return Status();
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    if (count == 0)
      return Status();
    TANDEM_RETURN_IF_ERROR(in.load(kernels, stream, frame));
    char *from = in.data(frame), *to = out.data(frame);
    NativeStream on = native(stream);
    TANDEM_RETURN_IF_ERROR(moveOwn(stream, from, to));
    TANDEM_RETURN_IF_ERROR(communicator->call(
        std::string(toString(collective)).c_str(),
        [&](const Api &api, ncclComm_t comm) -> ncclResult_t {
          auto at = static_cast<int>(root);
          switch (collective) {
          case CollectiveKind::AllGather:
            return api.ncclAllGather(from, to, count, type, comm, on);
          case CollectiveKind::AllReduce:
            return api.ncclAllReduce(from, to, count, type, op, comm, on);
          case CollectiveKind::ReduceScatter:
            return api.ncclReduceScatter(from, to, count, type, op, comm, on);
          case CollectiveKind::Broadcast:
            return api.ncclBroadcast(from ? from : to, to, count, type, at, comm, on);
          case CollectiveKind::Reduce:
            return api.ncclReduce(from, to, count, type, op, at, comm, on);
          case CollectiveKind::AllToAll:
          case CollectiveKind::Gather:
          case CollectiveKind::Scatter:
            break;
          }
          return exchange(api, comm, from, to, on);
        }));
    TANDEM_RETURN_IF_ERROR(track(stream, marker));
    return out.store(kernels, stream, frame);
  }

private:
  /// The copy within this rank, for collectives by messages.
  Status moveOwn(GpuStream &stream, const char *from, char *to) const {
    bool isRoot = self == root;
    if (collective == CollectiveKind::AllToAll || (collective == CollectiveKind::Scatter && isRoot))
      from += self * slice;
    if (collective == CollectiveKind::AllToAll || (collective == CollectiveKind::Gather && isRoot))
      to += self * slice;
    bool moves =
        collective == CollectiveKind::AllToAll ||
        ((collective == CollectiveKind::Gather || collective == CollectiveKind::Scatter) && isRoot);
    if (!moves || from == to)
      return Status();
    return kernels.driver.copyAsync(to, from, slice, stream.native());
  }

  /// All-to-all, gather and scatter: one group of messages.
  ncclResult_t exchange(const Api &api, ncclComm_t comm, const char *from, char *to,
                        NativeStream on) const {
    bool all = collective == CollectiveKind::AllToAll,
         gather = collective == CollectiveKind::Gather;
    bool isRoot = self == root;
    ncclResult_t result = api.ncclGroupStart();
    auto fine = [&] { return result == ncclSuccess || result == ncclInProgress; };
    for (uint32_t d = 1; d < size && fine(); ++d) {
      uint32_t next = (self + d) % size, previous = (self + size - d) % size;
      bool sends = all || (gather ? next == root : isRoot);
      bool receives = all || (gather ? isRoot : previous == root);
      if (sends)
        result = api.ncclSend(from + (gather ? 0 : next * slice), count, type,
                              static_cast<int>(next), comm, on);
      if (receives && fine())
        result = api.ncclRecv(to + (all || gather ? previous * slice : 0), count, type,
                              static_cast<int>(previous), comm, on);
    }
    ncclResult_t ended = api.ncclGroupEnd();
    return fine() ? ended : result;
  }

  CommunicatorRef communicator;
  const Kernels &kernels;
  CollectiveKind collective;
  uint32_t root, self = 0, size = 1;
  ncclRedOp_t op;
  ncclDataType_t type = ncclFloat32;
  Packed in, out;
  uint64_t slice = 0, count = 0;
};

} // namespace

void sortByTag(std::vector<Message> &messages) {
  auto key = [](const Message &m) { return std::make_tuple(m.tag, m.isSend, m.peer); };
  std::sort(messages.begin(), messages.end(),
            [&](const Message &a, const Message &b) { return key(a) < key(b); });
}

Expected<std::unique_ptr<Operation>> prepareMessages(CommunicatorRef communicator,
                                                     const Kernels &kernels,
                                                     const std::vector<Message> &messages) {
  auto operation = std::make_unique<MessagesOperation>(std::move(communicator), kernels);
  TANDEM_RETURN_IF_ERROR(operation->prepare(messages));
  return std::unique_ptr<Operation>(std::move(operation));
}

Expected<std::unique_ptr<Operation>> prepareCollective(CommunicatorRef communicator,
                                                       const Kernels &kernels,
                                                       const Collective &collective) {
  auto operation =
      std::make_unique<CollectiveOperation>(std::move(communicator), kernels, collective);
  TANDEM_RETURN_IF_ERROR(operation->prepare(collective));
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace tandem::ccl
