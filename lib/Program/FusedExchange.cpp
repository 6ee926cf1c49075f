//===- FusedExchange.cpp - the parts of a fused exchange --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/FusedExchange.h"

#include "ExchangeAccess.h"
#include "ProgramImpl.h"

#include <optional>

namespace tandem::program {

namespace {

/// Puts parts together to steps, and checks that no thread needs what another one has written.
class StepBuilder {
public:
  explicit StepBuilder(const std::vector<ExchangePart> &parts) : parts(parts) {}

  Expected<std::vector<ExchangeStep>> run() {
    std::optional<uint32_t> channel;
    for (uint32_t i = 0; i < parts.size(); ++i) {
      const ExchangePart &part = parts[i];
      if (part.kind != ExchangePart::Kind::Copy && part.kind != ExchangePart::Kind::Reduce) {
        if (channel && *channel != part.channel)
          return invalid("part {}: expected channel {}, as before, found {}", i, *channel,
                         part.channel);
        channel = part.channel;
      }
      if (Status status = add(i); !status.ok())
        return status.withPrefix(fmt::format("part {}: ", i));
    }
    return std::move(steps);
  }

private:
  Status add(uint32_t i) {
    const ExchangePart &part = parts[i];
    ExchangeStep *last = steps.empty() ? nullptr : &steps.back();
    if (part.kind == CommandKind::WaitSignal) {
      if (!last || !last->move.stores.empty() || !last->signals.empty())
        last = &steps.emplace_back();
      last->waits.push_back(i);
      return Status();
    }
    if (part.kind == CommandKind::Signal) {
      if (!last)
        last = &steps.emplace_back();
      last->signals.push_back(i);
      return Status();
    }
    if (part.out.layout.numElements() == 0)
      return Status();
    if (!last || !last->signals.empty())
      steps.emplace_back();
    return addMove(i);
  }

  Status addMove(uint32_t i) {
    const ExchangePart &part = parts[i];
    ExchangeMove &move = steps.back().move;
    // A put or copy of a sum that this step has computed: the thread has it.
    for (const ExchangeMove::Store &store : move.stores)
      if (move.reduces && part.kind != ExchangePart::Kind::Reduce &&
          parts[store.target].kind != ExchangePart::Kind::Put &&
          parts[store.target].out == part.in) {
        if (part.out.layout != move.out)
          return invalid("out: expected {}, as the sum that it stores, found {}", move.out.str(),
                         part.out.layout.str());
        return addStore(i, store.source, move);
      }
    TANDEM_ASSIGN_OR_RETURN(ExchangeReads reads, readsOf(part));
    bool reduces = part.kind == ExchangePart::Kind::Reduce;
    if (move.stores.empty()) {
      begin(move, part, reads);
    } else if (!reduces && !move.reduces &&
               (move.out != part.out.layout || move.in != reads.element)) {
      // Copies of another value.
      begin(steps.emplace_back().move, part, reads);
    } else if (move.out != part.out.layout || move.in != reads.element ||
               move.terms != reads.terms || move.termStride != reads.termStride ||
               move.reduces != reduces || move.reduceOp != part.reduceOp) {
      return invalid("expected shape, strides and kind of part {}, as no wait or signal is between "
                     "them",
                     move.stores.front().target);
    }
    for (uint32_t writer : writers)
      if (mayOverlap(parts[writer].out, part.in) && !termOf(parts[writer].out, reads))
        return invalid("reads what part {} has written, as other elements", writer);
    readers.push_back(i);
    return addStore(i, i, steps.back().move);
  }

  static void begin(ExchangeMove &move, const ExchangePart &part, const ExchangeReads &reads) {
    move.out = part.out.layout;
    move.in = reads.element;
    move.terms = reads.terms;
    move.termStride = reads.termStride;
    move.reduces = part.kind == ExchangePart::Kind::Reduce;
    move.reduceOp = part.reduceOp;
  }

  Status addStore(uint32_t target, uint32_t source, ExchangeMove &move) {
    const ExchangePart &part = parts[target];
    move.stores.push_back({source, target});
    if (part.toSelf)
      return invalid("peer: is this rank, which a put of a fused exchange cannot store to");
    if (part.kind == ExchangePart::Kind::Put) {
      // The peer sees both in any order, unless one thread stores both.
      for (uint32_t other : puts)
        if (parts[other].peer == part.peer && mayOverlap(parts[other].out, part.out) &&
            parts[other].out != part.out)
          return invalid("writes what part {} has written", other);
      puts.push_back(target);
      return Status();
    }
    for (uint32_t writer : writers)
      if (mayOverlap(parts[writer].out, part.out))
        return invalid("writes what part {} has written", writer);
    for (uint32_t reader : readers)
      if (mayOverlap(parts[reader].in, part.out))
        return invalid("writes what part {} reads", reader);
    writers.push_back(target);
    return Status();
  }

  const std::vector<ExchangePart> &parts;
  std::vector<ExchangeStep> steps;
  std::vector<uint32_t> readers, writers; ///< parts that read, and that write this rank's memory
  std::vector<uint32_t> puts;             ///< parts that write memory of others
};

} // namespace

std::vector<ExchangePart> exchangeParts(const Program &program, uint32_t head) {
  const sp::RankProgram &data = program.data();
  auto view = [&](const sp::Command &command, uint32_t operand) {
    PlacedView view = placedView(program, command.operands()->Get(operand));
    view.layout = view.layout.normalized();
    return view;
  };
  std::vector<ExchangePart> parts(data.commands()->Get(head)->aux());
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const sp::Command &command = *data.commands()->Get(head + 1 + i);
    ExchangePart &part = parts[i];
    part.channel = command.channel();
    part.kind = static_cast<CommandKind>(command.kind());
    if (part.kind == ExchangePart::Kind::Put) {
      part.peer = command.peer();
      part.toSelf = command.peer() == data.channels()->Get(command.channel())->self();
    }
    if (!part.moves())
      continue;
    part.reduceOp = static_cast<uint8_t>(command.reduce_op());
    part.dims = part.kind == ExchangePart::Kind::Reduce ? command.value() : 0;
    part.out = view(command, 0);
    part.in = view(command, 1);
  }
  return parts;
}

Expected<std::vector<ExchangeStep>> describeExchange(const std::vector<ExchangePart> &parts) {
  return StepBuilder(parts).run();
}

} // namespace tandem::program
