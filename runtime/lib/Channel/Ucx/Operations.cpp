//===- Operations.cpp - messages, puts and signals over UCX -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UcxChannel.h"
#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

using namespace tandem;
using namespace tandem::ucx;

namespace {

ucp_request_param_t operandParam(const Worker &worker) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = worker.memoryType();
  return param;
}

/// The bytes that an operand sends or receives: in place, or a packed copy if strided. The stream's
/// otherwise idle thread makes the copy.
struct Staging {
  uint64_t bytes;
  bool isPacked;
  CopyPlan plan; ///< into the copy, if it is sent, or out of it
  std::vector<std::byte> copy;
  void *memory = nullptr; ///< of this run

  Staging(const Layout &layout, bool isSend)
      : bytes(layout.numBytes()), isPacked(!layout.isDense()) {
    if (!isPacked)
      return;
    Layout dense = Layout::dense(layout.dtype, layout.shape.data(), layout.rank);
    plan = isSend ? CopyPlan(dense, layout) : CopyPlan(layout, dense);
    copy.resize(bytes);
  }
  void *data() { return isPacked ? copy.data() : memory; }
  void pack() {
    if (isPacked)
      plan.run(copy.data(), memory);
  }
  void unpack() const {
    if (isPacked)
      plan.run(memory, copy.data());
  }
};

/// How a message to another host is cut: the watchdog sees a large one proceed, however slow the
/// link. The first piece is shorter, and depends on the number of the others, so that it
/// distinguishes messages of different lengths.
struct Pieces {
  static constexpr uint64_t kBytes = 4 << 20, kMost = 1 << 14;
  uint64_t number = 1, first = 0, rest = 0;

  Pieces(uint64_t bytes, bool isCut) : first(bytes) {
    if (bytes <= kBytes || !isCut)
      return;
    number = std::min((bytes + kBytes - 1) / kBytes, kMost);
    rest = bytes / number / 64 * 64 + 64;
    first = bytes - (number - 1) * rest;
  }
  uint64_t offset(uint64_t i) const { return i == 0 ? 0 : first + (i - 1) * rest; }
  uint64_t bytes(uint64_t i) const { return i == 0 ? first : rest; }
};

class GroupWork : public Work {
public:
  struct Part;

  /// A piece under way.
  struct Piece {
    Part *part = nullptr; ///< null: none
    uint64_t bytes = 0;
    void *request = nullptr; ///< of an open receive
    bool *ended = nullptr;   ///< of a receive while it is being posted
  };

  struct Part {
    GroupWork *owner;
    bool isSend;
    uint32_t peer; ///< world rank
    uint32_t tag;
    Operand operand;
    Staging staging;
    Pieces pieces;
    Piece open[2] = {};
    uint64_t next = 0;      ///< piece to post
    bool isPosting = false; ///< in post()
    Status result = {};
  };

  explicit GroupWork(std::shared_ptr<ChannelState> state, const std::vector<Message> &messages)
      : state(std::move(state)) {
    parts.reserve(messages.size());
    // Receives first, so arriving messages find a buffer.
    for (bool sends : {false, true})
      for (const Message &message : messages)
        if (message.isSend == sends) {
          uint32_t peer = this->state->members[message.peer].rank;
          parts.push_back(
              {this, sends, peer, message.tag, message.buffer,
               Staging(message.buffer.layout, sends),
               Pieces(message.buffer.layout.numBytes(), !this->state->worker->isNear(peer))});
        }
  }

  Status run(const Frame &frame) {
    if (parts.empty())
      return Status::success();
    epoch = frame.epoch;
    for (Part &part : parts) {
      part.staging.memory = part.operand.resolve(frame).data;
      part.next = 0;
      part.result = Status();
      if (part.isSend)
        part.staging.pack();
    }
    arm(static_cast<uint32_t>(parts.size()));
    state->worker->submit(shared_from_this());
    TANDEM_RETURN_IF_ERROR(wait(state->worker->spin()));
    for (Part &part : parts)
      if (!part.isSend)
        part.staging.unpack();
    return Status::success();
  }

  void start(Worker &worker) override {
    // The last part may end within the loop; `keep` keeps the list of parts alive.
    std::shared_ptr<Work> keep = shared_from_this();
    for (Part &part : parts)
      post(worker, part);
  }

  void cancel(Worker &worker) override {
    for (Part &part : parts)
      for (Piece &piece : part.open)
        if (piece.request)
          worker.api.ucp_request_cancel(worker.worker, piece.request);
  }

private:
  /// Posts what may be under way. The part may be in use for the next run when this returns.
  void post(Worker &worker, Part &part) {
    part.isPosting = true;
    auto isFree = [](const Piece &piece) { return !piece.part; };
    for (;;) {
      Piece *piece = std::find_if(std::begin(part.open), std::end(part.open), isFree);
      if (part.next == part.pieces.number || !part.result.ok() || piece == std::end(part.open))
        break;
      uint64_t i = part.next++;
      piece->part = &part;
      piece->bytes = part.pieces.bytes(i);
      std::byte *data = static_cast<std::byte *>(part.staging.data()) + part.pieces.offset(i);
      if (part.isSend)
        send(worker, *piece, data);
      else
        receive(worker, *piece, data);
    }
    part.isPosting = false;
    if (std::all_of(std::begin(part.open), std::end(part.open), isFree))
      finishPart(worker, part.result);
  }

  static void pieceEnded(Worker &worker, Piece &piece, const Status &status) {
    Part &part = *piece.part;
    piece.part = nullptr;
    part.owner->state->noteProgress();
    if (part.result.ok())
      part.result = status;
    if (!part.isPosting)
      part.owner->post(worker, part);
  }

  void send(Worker &worker, Piece &piece, const std::byte *data) {
    Part &part = *piece.part;
    auto endpoint = worker.endpoint(part.peer);
    if (!endpoint)
      return pieceEnded(worker, piece, endpoint.status());
    ucp_request_param_t param = operandParam(worker);
    param.cb.send = [](void *request, ucs_status_t status, void *data) {
      auto &piece = *static_cast<Piece *>(data);
      Worker &worker = *piece.part->owner->state->worker;
      worker.api.ucp_request_free(request);
      pieceEnded(worker, piece, worker.peerError(status, "send", piece.part->peer));
    };
    param.user_data = &piece;
    uint64_t tag = makeTag(state->number, worker.rank(), epoch, part.tag);
    ucs_status_ptr_t request =
        worker.api.ucp_tag_send_nbx(*endpoint, data, piece.bytes, tag, &param);
    if (!UCS_PTR_IS_PTR(request))
      pieceEnded(worker, piece, worker.peerError(UCS_PTR_STATUS(request), "send", part.peer));
  }

  void receive(Worker &worker, Piece &piece, std::byte *data) {
    // UCX 1.13 reports the length of a message that had already arrived only to the callback, which
    // may run before the call returns.
    Part &part = *piece.part;
    bool ended = false;
    piece.ended = &ended;
    ucp_request_param_t param = operandParam(worker);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = [](void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                       void *data) {
      auto &piece = *static_cast<Piece *>(data);
      piece.request = nullptr;
      if (piece.ended)
        *piece.ended = true;
      piece.ended = nullptr;
      Worker &worker = *piece.part->owner->state->worker;
      worker.api.ucp_request_free(request);
      received(worker, piece, status, status == UCS_OK ? info->length : 0);
    };
    param.user_data = &piece;
    uint64_t tag = makeTag(state->number, part.peer, epoch, part.tag);
    ucs_status_ptr_t request =
        worker.api.ucp_tag_recv_nbx(worker.worker, data, piece.bytes, tag, ~uint64_t(0), &param);
    if (ended)
      return;
    piece.ended = nullptr;
    if (UCS_PTR_IS_PTR(request))
      piece.request = request;
    else
      received(worker, piece, UCS_PTR_STATUS(request), 0);
  }

  static void received(Worker &worker, Piece &piece, ucs_status_t status, uint64_t length) {
    const Part &part = *piece.part;
    Status result = worker.peerError(status, "receive", part.peer);
    // UCS_OK means the message was not longer. A shorter message is an error too.
    if (status == UCS_ERR_MESSAGE_TRUNCATED || (result.ok() && length != piece.bytes))
      result = Status(
          Code::InvalidProgram,
          fmt::format("{}: expected {} bytes{} from rank {} (tag {}), found {}",
                      part.owner->state->where(), piece.bytes,
                      part.pieces.number > 1 ? fmt::format(" (of {})", part.staging.bytes) : "",
                      part.peer, part.tag,
                      status == UCS_OK ? std::to_string(length) : std::string("more")));
    pieceEnded(worker, piece, result);
  }

  std::shared_ptr<ChannelState> state;
  std::vector<Part> parts;
  uint64_t epoch = 0;
};

/// A large put to another host is made in batches, of which a few are under way at once. Behind
/// each, a message without effect lets the peer's watchdog see that it proceeds.
class PutWork : public Work {
public:
  PutWork(std::shared_ptr<ChannelState> state, const Put &put)
      : state(std::move(state)), put(put), staging(put.src.layout, true),
        member(this->state->members[put.peer]) {
    // The contiguous pieces of the target, in the order of the packed bytes.
    LoopNest target({put.dst, Layout::dense(put.dst.dtype, put.dst.shape.data(), put.dst.rank)},
                    /*inOrder=*/true);
    bool isRow = target.rowStride(0) == 1;
    auto element = static_cast<int64_t>(sizeOf(put.dst.dtype));
    int64_t pieces = isRow ? 1 : target.rowLength();
    auto bytes = static_cast<uint64_t>(element * (isRow ? target.rowLength() : 1));
    uint64_t left = 0; // of this batch
    target.run({int64_t(0), int64_t(0)}, [&](const int64_t *row) {
      for (int64_t piece = 0; piece < pieces; ++piece)
        addSpans(static_cast<uint64_t>(row[0] + piece * target.rowStride(0) * element),
                 static_cast<uint64_t>(row[1] + piece * element), bytes, left);
    });
  }

  Status run(const Frame &frame) {
    if (staging.bytes == 0)
      return Status::success();
    staging.memory = put.src.resolve(frame).data;
    staging.pack();
    base = member.base + frame.parity * member.bufferBytes + put.offset;
    arm(static_cast<uint32_t>(batches.size()));
    state->worker->submit(shared_from_this());
    return wait(state->worker->spin());
  }

  void start(Worker &worker) override {
    std::shared_ptr<Work> keep = shared_from_this();
    next = ended = 0;
    good = Status();
    post(worker);
  }

private:
  /// The batches under way have Pieces::kBytes together.
  static constexpr uint64_t kMostBatches = 4, kBatchBytes = Pieces::kBytes / kMostBatches;

  struct Span {
    uint64_t remote, local, bytes;
  };

  /// Cuts a contiguous piece into spans of batches. `left`: bytes that the last batch still takes.
  void addSpans(uint64_t remote, uint64_t local, uint64_t bytes, uint64_t &left) {
    for (uint64_t at = 0; at < bytes;) {
      if (left == 0) {
        batches.push_back({this, spans.size(), 0, 0});
        left = state->worker->isNear(member.rank) ? ~uint64_t(0) : kBatchBytes;
      }
      uint64_t length = std::min(bytes - at, left);
      spans.push_back({remote + at, local + at, length});
      batches.back().to = spans.size();
      at += length;
      left -= length;
    }
  }

  struct Batch {
    PutWork *owner;
    size_t from, to; ///< spans
    uint32_t open;   ///< spans under way, and one while it is being posted
  };

  /// Posts batches until as many are under way as may be. The work may be in use for the next run
  /// when this returns.
  void post(Worker &worker) {
    while (next < batches.size() && next - ended < kMostBatches) {
      Batch &batch = batches[next++];
      batch.open = 1;
      postSpans(worker, batch);
      if (--batch.open == 0)
        endBatch(worker);
    }
  }

  void postSpans(Worker &worker, Batch &batch) {
    if (worker.hasLeft(member.rank) || !good.ok())
      return;
    auto endpoint = worker.endpoint(member.rank);
    if (!endpoint) {
      good = endpoint.status();
      return;
    }
    ucp_request_param_t param = operandParam(worker);
    param.cb.send = [](void *request, ucs_status_t status, void *data) {
      auto &batch = *static_cast<Batch *>(data);
      std::shared_ptr<Work> keep = batch.owner->shared_from_this();
      Worker &worker = *batch.owner->state->worker;
      worker.api.ucp_request_free(request);
      if (batch.owner->spanEnded(worker, batch, status))
        batch.owner->post(worker);
    };
    param.user_data = &batch;
    auto *packed = static_cast<const std::byte *>(staging.data());
    batch.open += static_cast<uint32_t>(batch.to - batch.from);
    for (size_t i = batch.from; i < batch.to; ++i) {
      const Span &span = spans[i];
      ucs_status_ptr_t request = worker.api.ucp_put_nbx(*endpoint, packed + span.local, span.bytes,
                                                        base + span.remote, member.key, &param);
      if (!UCS_PTR_IS_PTR(request))
        spanEnded(worker, batch, UCS_PTR_STATUS(request));
    }
  }

  /// True if the batch has ended, and another may begin.
  bool spanEnded(Worker &worker, Batch &batch, ucs_status_t status) {
    if (good.ok() && !worker.hasLeft(member.rank))
      good = worker.peerError(status, "put", member.rank);
    if (--batch.open > 0)
      return false;
    bool isLast = ended + 1 == batches.size();
    endBatch(worker);
    return !isLast;
  }

  void endBatch(Worker &worker) {
    state->noteProgress();
    if (++ended < batches.size() && good.ok()) {
      Control control;
      control.channel = state->number;
      worker.sendControl(*this, member.rank, control);
    } else
      finishPart(worker, good);
  }

  std::shared_ptr<ChannelState> state;
  Put put;
  Staging staging;
  std::vector<Span> spans;
  std::vector<Batch> batches;
  const Member &member;
  uint64_t base = 0;
  size_t next = 0, ended = 0; ///< batches that were posted; that have ended
  Status good;
};

class SignalWork : public Work {
public:
  SignalWork(std::shared_ptr<ChannelState> state, const tandem::Signal &signal)
      : state(std::move(state)), signal(signal) {}

  Status run(const Frame &frame) {
    value = frame.epoch * signal.perRun + signal.value;
    arm(1);
    state->worker->submit(shared_from_this());
    return wait(state->worker->spin());
  }

  void start(Worker &worker) override {
    Control control;
    control.type = Control::Signal;
    control.channel = state->number;
    control.slot = signal.slot;
    control.value = value;
    worker.sendControl(*this, state->members[signal.peer].rank, control);
  }

private:
  std::shared_ptr<ChannelState> state;
  tandem::Signal signal;
  uint64_t value = 0;
};

/// An operation whose work runs on the progress thread.
template <typename W> std::unique_ptr<Operation> wrap(std::shared_ptr<W> work) {
  return makeHostOperation(
      [work = std::move(work)](const Frame &frame) { return work->run(frame); });
}

} // namespace

Expected<std::unique_ptr<Operation>>
UcxChannel::prepareGroup(const std::vector<Message> &messages) {
  return wrap(std::make_shared<GroupWork>(state, messages));
}

Expected<std::unique_ptr<Operation>> UcxChannel::preparePut(const Put &put) {
  const Member &member = state->members[put.peer];
  TANDEM_RETURN_IF_ERROR(checkTarget(put, member.base ? member.bufferBytes : 0, member.rank));
  // To a rank of this host the stream's thread stores into the peer's memory. UCX would send
  // messages of a few KiB, which the peer's progress thread has to take while it computes. The
  // signal follows as a message of UCX, so it arrives after the data.
  if (member.mapped)
    return makeHostOperation([state = state, &member, put,
                              plan = CopyPlan(put.dst, put.src.layout)](const Frame &frame) {
      TANDEM_RETURN_IF_ERROR(state->worker->health());
      plan.run(static_cast<std::byte *>(member.mapped->base()) + frame.parity * member.bufferBytes +
                   put.offset,
               put.src.resolve(frame).data);
      state->noteProgress();
      return Status();
    });
  return wrap(std::make_shared<PutWork>(state, put));
}

Expected<std::unique_ptr<Operation>> UcxChannel::prepareSignal(const tandem::Signal &signal) {
  const Member &member = state->members[signal.peer];
  TANDEM_RETURN_IF_ERROR(checkSlot(signal.slot, member.numSignals, member.rank));
  return wrap(std::make_shared<SignalWork>(state, signal));
}

Expected<std::unique_ptr<Operation>> UcxChannel::prepareWaitSignal(const WaitSignal &wait) {
  TANDEM_RETURN_IF_ERROR(checkSlot(wait.slot, state->symmetric.numSignals, state->worker->rank()));
  return makeHostOperation([state = state, wait](const Frame &frame) {
    return state->waitForSignal(wait.slot, frame.epoch * wait.perRun + wait.value);
  });
}
