//===- PrepareOperations.cpp - from commands to operations ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstanceImpl.h"

#include "tandem/Program/Commands.h"
#include "tandem/Program/Container.h"
#include "tandem/Program/Expand.h"
#include "tandem/Program/Gated.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::core {

Operand InstanceImpl::operand(uint32_t view) const {
  Operand operand;
  if (view == sp::kNoView)
    return operand;
  operand.slot = view;
  const sp::View &found = *data.views()->Get(view);
  operand.layout = programHandle->layout(found.layout());
  uint64_t lowestBits = found.offset() | operand.alignment;
  operand.alignment = static_cast<uint32_t>(lowestBits & (~lowestBits + 1));
  return operand;
}

Put InstanceImpl::describePut(const sp::Command &command) const {
  const sp::View &dst = *data.views()->Get(command.operands()->Get(0));
  Put put;
  put.peer = command.peer();
  put.offset = data.buffers()->Get(dst.buffer())->offset() + dst.offset();
  put.dst = operand(command.operands()->Get(0)).layout;
  put.src = operand(command.operands()->Get(1));
  return put;
}

Signal InstanceImpl::describeSignal(const sp::Command &command) const {
  bool exclusive = command.flags() & static_cast<uint8_t>(sp::CommandFlags::exclusive);
  return {command.peer(), command.aux(), command.value(), data.signal_slots()->Get(command.aux()),
          exclusive};
}

WaitSignal InstanceImpl::describeWait(const sp::Command &command) const {
  return {command.aux(), command.value(), data.signal_slots()->Get(command.aux()),
          command.stream()};
}

MatmulDesc InstanceImpl::describeMatmul(const sp::Command &command) const {
  auto flag = [&](sp::CommandFlags f) { return (command.flags() & static_cast<uint8_t>(f)) != 0; };
  auto view = [&](unsigned k) { return operand(command.operands()->Get(k)); };
  MatmulDesc desc{view(0), view(1), view(2), view(3)};
  desc.transposeA = flag(sp::CommandFlags::transpose_a);
  desc.transposeB = flag(sp::CommandFlags::transpose_b);
  desc.accumulate = flag(sp::CommandFlags::accumulate);
  desc.ordered = isOrdered();
  return desc;
}

LaunchDesc InstanceImpl::describeLaunch(const sp::Command &command) const {
  const sp::Kernel &kernel = *data.kernels()->Get(command.aux());
  LaunchDesc desc;
  desc.name = kernel.name()->string_view();
  desc.format = static_cast<uint8_t>(kernel.format());
  if (kernel.target())
    desc.target = kernel.target()->string_view();
  if (kernel.code()) {
    desc.code = kernel.code()->data();
    desc.codeSize = kernel.code()->size();
  }
  for (uint32_t k = 0; k < count(kernel.native()); ++k) {
    const sp::NativeCode &code = *kernel.native()->Get(k);
    desc.native.push_back({static_cast<uint8_t>(code.format()),
                           code.target() ? code.target()->string_view() : std::string_view(),
                           code.code()->data(), code.code()->size()});
  }
  for (uint32_t k = 0; k < command.operands()->Get(1); ++k)
    desc.operands.push_back(operand(data.launch_operands()->Get(command.operands()->Get(0) + k)));
  return desc;
}

std::vector<Message> InstanceImpl::describeGroup(uint32_t group) const {
  std::vector<Message> messages;
  for (uint32_t k = 1; k <= data.commands()->Get(group)->aux(); ++k) {
    const sp::Command &in = *data.commands()->Get(group + k);
    Message message;
    message.isSend = in.kind() == sp::CommandKind::send;
    message.peer = in.peer();
    message.tag = in.aux();
    message.buffer = operand(in.operands()->Get(0));
    messages.push_back(message);
  }
  return messages;
}

Expected<std::unique_ptr<Operation>> InstanceImpl::prepareOperation(const sp::Command &command,
                                                                    uint32_t i) {
  Device &device = context.device();
  auto view = [&](unsigned k) { return operand(command.operands()->Get(k)); };
  auto op = static_cast<ReduceOp>(command.reduce_op());
  Channel *channel = nullptr;
  if (program::infoOf(command.kind()).needs != program::ChannelNeed::None) {
    channel = channels[command.channel()].get();
    if (!channel)
      return Status(Code::Internal, "the transport made no channel for a member of its group");
  }
  switch (command.kind()) {
  case sp::CommandKind::copy:
    return device.prepareCopy(view(0), view(1));
  case sp::CommandKind::matmul:
    return device.prepareMatmul(describeMatmul(command));
  case sp::CommandKind::accumulate:
    return device.prepareAccumulate(view(0), view(1), op);
  case sp::CommandKind::reduce:
    return device.prepareReduce(view(0), view(1), command.value(), op, isOrdered());
  case sp::CommandKind::launch:
    return device.prepareLaunch(describeLaunch(command));
  case sp::CommandKind::call:
    return prepareCall(command);
  case sp::CommandKind::group:
    return channel->prepareGroup(describeGroup(i));
  case sp::CommandKind::put: {
    Put put = describePut(command);
    TANDEM_RETURN_IF_ERROR(
        checkPut(put, data.channels()->Get(command.channel())->group()->Get(put.peer)));
    return channel->preparePut(put);
  }
  case sp::CommandKind::signal:
    return channel->prepareSignal(describeSignal(command));
  case sp::CommandKind::wait_signal:
    return channel->prepareWaitSignal(describeWait(command));
  case sp::CommandKind::collective: {
    Collective collective;
    collective.kind = static_cast<CollectiveKind>(command.op());
    collective.op = op;
    collective.root = command.peer();
    collective.out = view(0);
    collective.in = view(1);
    collective.sequence = collectivesSeen[command.channel()]++;
    return channel->prepareCollective(collective);
  }
  case sp::CommandKind::record:
  case sp::CommandKind::wait:
  case sp::CommandKind::send:
  case sp::CommandKind::recv:
  case sp::CommandKind::gated_matmul:
  case sp::CommandKind::fused_exchange:
    break; // prepared by prepareCommand(), or with their group or head
  }
  return Status(Code::Internal, "a command that is no operation of its own");
}

Expected<std::unique_ptr<Operation>> InstanceImpl::prepareGated(uint32_t i, uint32_t &commands) {
  const sp::Command &command = *data.commands()->Get(i);
  TANDEM_ASSIGN_OR_RETURN(program::GatedProduct product,
                          program::describeGated(program::gatedParts(*programHandle, i)));
  auto whole = [&](uint32_t part, unsigned k, const Layout &layout) {
    Operand found = operand(data.commands()->Get(i + 1 + part)->operands()->Get(k));
    found.layout = layout;
    return found;
  };
  std::string why = product.whyNoTargets;
  // A kernel waits for what its blocks need.
  if (why.empty() && (product.blocks.empty() || product.blocks.back().gates != product.numGates))
    why = "a wait follows its last matmul";
  if (!why.empty())
    return runParts(i, why);
  GatedMatmulDesc desc;
  desc.whole.out = whole(product.firstOut, 0, product.out);
  desc.whole.a = whole(product.firstA, 1, product.a);
  desc.whole.b = whole(product.firstB, 2, product.b);
  desc.rowOfA = product.rowOfFirstA;
  if (product.own) {
    Layout rows = product.a;
    rows.shape[0] = product.own.rows;
    rows.strides[0] = product.own.stride;
    desc.own = {whole(product.own.part, 1, rows), product.own.firstRow};
  }
  desc.whole.transposeB = product.transposeB;
  desc.whole.ordered = isOrdered();
  desc.blocks = product.blocks;
  desc.leaves = static_cast<uint32_t>(command.value());
  desc.instance = number;
  desc.stream = command.stream();
  desc.runsFollow = context.sharesMemory();
  for (const program::GatedTarget &target : product.targets) {
    TANDEM_RETURN_IF_ERROR(addTarget(desc, i + 1, target, why));
    if (!why.empty())
      return runParts(i, why);
  }
  TANDEM_RETURN_IF_ERROR(addGates(desc, i, why));
  if (why.empty()) {
    auto epilogue = fusesEpilogues ? program::findEpilogue(*programHandle, i) : std::nullopt;
    if (epilogue) {
      desc.epilogue = describeEpilogue(*epilogue, desc.whole);
      ++commands;
    }
    auto operation = context.device().prepareGatedMatmul(desc);
    if (epilogue && operation.status().code() == Code::Unsupported) {
      logAlone(i, operation.status().message());
      desc.epilogue.reset();
      desc.whole.bias = Operand();
      --commands;
      operation = context.device().prepareGatedMatmul(desc);
    }
    // A peer's gated matmul may wait for a signal of this rank, which may be a kernel.
    if (operation && desc.leaves == 0 && !desc.gates.empty() &&
        std::any_of(data.commands()->begin(), data.commands()->end(), [](const sp::Command *other) {
          return other->kind() == sp::CommandKind::signal;
        }))
      return Status(Code::InvalidProgram,
                    "leaves no SMs, and the program's signals may need one: they could never run");
    if (operation.status().code() != Code::Unsupported)
      return operation;
    why = operation.status().message();
  }
  return runParts(i, why);
}

Status InstanceImpl::addGates(GatedMatmulDesc &desc, uint32_t i, std::string &why) {
  for (uint32_t part = i + 1; part <= i + data.commands()->Get(i)->aux(); ++part) {
    const sp::Command &wait = *data.commands()->Get(part);
    if (wait.kind() != sp::CommandKind::wait_signal)
      continue;
    Channel *channel = channels[wait.channel()].get();
    Gate gate;
    gate.words = channel ? channel->signalWords() : nullptr;
    gate.slot = wait.aux();
    gate.value = wait.value();
    gate.perRun = data.signal_slots()->Get(wait.aux());
    desc.gates.push_back(gate);
    if (!gate.words) {
      why = fmt::format("kernels cannot read the signals of channel c{}", wait.channel());
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(auto alone,
                            channel->prepareWaitSignal({gate.slot, gate.value, gate.perRun}));
    if (desc.whyNoGraph.empty())
      desc.whyNoGraph = alone->whyNoGraph();
  }
  return Status();
}

Expected<std::unique_ptr<Operation>> InstanceImpl::prepareEpilogue(uint32_t i) {
  std::unique_ptr<Operation> none;
  auto found = program::findEpilogue(*programHandle, i);
  if (!found)
    return none;
  MatmulDesc desc = describeMatmul(*data.commands()->Get(i));
  EpilogueDesc epilogue = describeEpilogue(*found, desc);
  auto operation = context.device().prepareEpilogue(desc, epilogue);
  if (operation.status().code() != Code::Unsupported)
    return operation;
  logAlone(i, operation.status().message());
  return none;
}

EpilogueDesc InstanceImpl::describeEpilogue(const program::MatmulEpilogue &epilogue,
                                            MatmulDesc &matmul) const {
  if (epilogue.bias != sp::kNoView) { // the launch repeats it in every dimension but the last
    matmul.bias = operand(epilogue.bias);
    Layout &layout = matmul.bias.layout;
    layout = layout.select(uint64_t(1) << (layout.rank - 1u), true);
  }
  return {epilogue.activation,
          epilogue.alpha,
          epilogue.beta,
          operand(epilogue.residual),
          operand(epilogue.rowScale),
          operand(epilogue.columnScale)};
}

void InstanceImpl::logAlone(uint32_t i, const std::string &why) const {
  context.device().log(LogLevel::Info, fmt::format("@{}: {}: the launch behind it runs alone: {}",
                                                   programHandle->name(), describe(i), why));
}

std::unique_ptr<Operation> InstanceImpl::runParts(uint32_t i, const std::string &why) {
  context.device().log(LogLevel::Info, fmt::format("@{}: {}: its {} parts run one by one: {}",
                                                   programHandle->name(), describe(i),
                                                   data.commands()->Get(i)->aux(), why));
  return nullptr;
}

Status InstanceImpl::addTarget(GatedMatmulDesc &desc, uint32_t firstPart,
                               const program::GatedTarget &in, std::string &why) {
  auto part = [&](uint32_t number) -> const sp::Command & {
    return *data.commands()->Get(firstPart + number);
  };
  GatedTarget &target = desc.targets.emplace_back();
  target.isLocal = in.put == program::GatedTarget::kNone;
  if (target.isLocal) {
    target.local = operand(part(in.matmul).operands()->Get(0));
    return Status();
  }
  const sp::Command &command = part(in.put);
  Channel &channel = *channels[command.channel()];
  if (!desc.peers)
    desc.peers = channel.peerStores();
  if (!desc.peers) {
    why = fmt::format("kernels cannot store to the peers of channel c{}", command.channel());
    return Status();
  }
  if (describePut(command).offset % 16 != 0) {
    why = "kernels store to places at multiples of 16 bytes";
    return Status();
  }
  // The commands alone are prepared for their checks. Not where the parts will be: a channel may
  // count what it prepares.
  Put put = describePut(command);
  TANDEM_RETURN_IF_ERROR(
      checkPut(put, data.channels()->Get(command.channel())->group()->Get(put.peer)));
  TANDEM_RETURN_IF_ERROR(channel.preparePut(put).status());
  target.peer = put.peer;
  target.offset = put.offset;
  if (in.signal == program::GatedTarget::kNone)
    return Status();
  Signal signal = describeSignal(part(in.signal));
  TANDEM_RETURN_IF_ERROR(channel.prepareSignal(signal).status());
  target.signals = true;
  target.slot = signal.slot;
  target.value = signal.value;
  target.perRun = signal.perRun;
  return Status();
}

Expected<std::unique_ptr<Operation>> InstanceImpl::prepareExchange(uint32_t i) {
  const sp::Command &command = *data.commands()->Get(i);
  std::vector<program::ExchangeStep> steps = program::stepsOf(*programHandle, i);
  Channel *channel = channels[program::exchangeOf(data, command)->channel()].get();
  std::string why = program::whyNoKernel(steps);
  FusedExchange exchange;
  exchange.blocks = static_cast<uint32_t>(command.value());
  auto part = [&](uint32_t number) -> const sp::Command & {
    return *data.commands()->Get(i + 1 + number);
  };
  auto view = [&](uint32_t number, unsigned k) { return operand(part(number).operands()->Get(k)); };
  for (const program::ExchangeStep &in : steps) {
    FusedExchange::Step &step = exchange.steps.emplace_back();
    step.move = in.move;
    for (uint32_t wait : in.waits)
      step.waits.push_back(describeWait(part(wait)));
    for (uint32_t signal : in.signals)
      step.signals.push_back(describeSignal(part(signal)));
    for (const program::ExchangeMove::Store &store : in.move.stores) {
      step.sources.push_back(view(store.source, 1));
      FusedExchange::Target &target = step.targets.emplace_back();
      if (part(store.target).kind() != sp::CommandKind::put) {
        target.local = view(store.target, 0);
        continue;
      }
      target.put = describePut(part(store.target));
      const sp::Channel &of = *data.channels()->Get(part(store.target).channel());
      TANDEM_RETURN_IF_ERROR(checkPut(*target.put, of.group()->Get(target.put->peer)));
    }
  }
  // A kernel that waits for this rank, and whose rank this one's kernel waits for, must leave SMs.
  for (uint32_t c = 0; c < data.commands()->size(); ++c) {
    const sp::Command &head = *data.commands()->Get(c);
    if (!program::isGatedMatmul(head.kind()))
      continue;
    bool waits = false;
    for (uint32_t k = 1; k <= head.aux(); ++k)
      waits |= data.commands()->Get(c + k)->kind() == sp::CommandKind::wait_signal;
    if (waits && head.value() < command.value())
      why = fmt::format("a gated matmul of the program leaves {} SMs", head.value());
  }
  addProtocol(exchange, i);
  if (why.empty()) {
    auto operation = channel->prepareExchange(exchange);
    if (operation.status().code() != Code::Unsupported)
      return operation;
    why = operation.status().message();
  }
  return runParts(i, why);
}

} // namespace tandem::core
