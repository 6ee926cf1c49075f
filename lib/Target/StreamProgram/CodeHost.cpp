//===- CodeHost.cpp - numbering hostir --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeBuilder.h"

#include "tandem/Support/VaryingAttrs.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tandem::target {

static FailureOr<bool> done(LogicalResult numbered) {
  if (failed(numbered))
    return failure();
  return true;
}

FailureOr<bool> CodeBuilder::hostOp(Operation *op) {
  FailureOr<bool> isNumbered = false;
  for (auto part : {&CodeBuilder::value, &CodeBuilder::localCommand, &CodeBuilder::communication})
    if (succeeded(isNumbered) && !*isNumbered)
      isNumbered = (this->*part)(op);
  return isNumbered;
}

/// Numbers, streams, channels and buffers.
FailureOr<bool> CodeBuilder::value(Operation *op) {
  using namespace hostir;
  return llvm::TypeSwitch<Operation *, FailureOr<bool>>(op)
      .Case([&](MainStreamOp o) {
        bind(o, constant(0));
        return true;
      })
      .Case([&](WorkerStreamOp o) {
        Instr &instr = emitResult(op, Opcode::Worker);
        instr.a = slot(o.getIndex());
        return true;
      })
      .Case([&](SyncOp o) {
        Instr &instr = command(op, Opcode::Sync, "sync");
        instr.a = slot(o.getWaiter());
        instr.b = slot(o.getSignaler());
        return true;
      })
      .Case([&](DeviceIndexOp o) -> FailureOr<bool> {
        int64_t axis = o.getMesh().axisIndex(o.getAxis());
        if (axis < 0)
          return o.emitOpError("expected an axis of ")
                 << o.getMesh() << ", found \"" << o.getAxis() << "\"";
        Instr &instr = emitResult(op, Opcode::DeviceIndex);
        instr.a = meshNumber(o.getMesh());
        instr.b = axis;
        return true;
      })
      .Case([&](InMeshOp o) {
        Instr &instr = emitResult(op, Opcode::InMesh);
        instr.a = meshNumber(o.getMesh());
        return true;
      })
      .Case([&](TranslatePositionOp o) {
        Instr &instr = emitResult(op, Opcode::Translate);
        instr.a = slot(o.getPosition());
        instr.b = meshNumber(o.getFrom());
        instr.c = meshNumber(o.getTo());
        return true;
      })
      .Case([&](ChannelOp o) { return done(channel(o)); })
      .Case([&](AllocOp o) { return done(allocation(o)); })
      .Case([&](DeallocOp) { return true; })
      .Default([](Operation *) -> FailureOr<bool> { return false; });
}

/// Commands that only read and write memory of this rank.
FailureOr<bool> CodeBuilder::localCommand(Operation *op) {
  using namespace hostir;
  // Operands in the order of Commands.def.
  auto local = [&](sp::CommandKind kind, std::initializer_list<Value> operands,
                   Value stream) -> Instr & {
    Instr &instr = command(op, Opcode::Local, sp::EnumNameCommandKind(kind));
    instr.width = static_cast<uint8_t>(kind);
    uint32_t *const slots[] = {&instr.a, &instr.b, &instr.c, &instr.d};
    for (auto [to, from] : llvm::zip(slots, operands))
      *to = from ? slot(from) : kNone;
    instr.e = slot(stream);
    return instr;
  };
  return llvm::TypeSwitch<Operation *, FailureOr<bool>>(op)
      .Case([&](CopyOp o) {
        local(sp::CommandKind::copy, {o.getTarget(), o.getSource()}, o.getStream());
        return true;
      })
      .Case([&](AccumulateOp o) {
        Type type = cast<MemRefType>(o.getTarget().getType()).getElementType();
        code->accumulatesRounded |= type.isF16() || type.isBF16();
        local(sp::CommandKind::accumulate, {o.getTarget(), o.getSource()}, o.getStream()).aux =
            static_cast<uint8_t>(o.getKind());
        return true;
      })
      .Case([&](hostir::ReduceOp o) {
        Instr &instr =
            local(sp::CommandKind::reduce, {o.getTarget(), o.getSource()}, o.getStream());
        instr.aux = static_cast<uint8_t>(o.getKind());
        for (int64_t dim : o.getDims())
          instr.target |= 1u << (dim & 31);
        return true;
      })
      .Case([&](MatmulOp o) {
        Instr &instr = local(sp::CommandKind::matmul,
                             {o.getOutput(), o.getLhs(), o.getRhs(), o.getBias()}, o.getStream());
        instr.aux = (o.getTransposeA() ? uint8_t(sp::CommandFlags::transpose_a) : 0) |
                    (o.getTransposeB() ? uint8_t(sp::CommandFlags::transpose_b) : 0) |
                    (o.getAccumulate() ? uint8_t(sp::CommandFlags::accumulate) : 0);
        return true;
      })
      .Case([&](CallOp o) {
        call(o);
        return true;
      })
      .Case([&](LaunchOp o) { return done(launch(o)); })
      .Default([](Operation *) -> FailureOr<bool> { return false; });
}

/// Commands that communicate, and those of several parts.
FailureOr<bool> CodeBuilder::communication(Operation *op) {
  using namespace hostir;
  // View slots in a and b; the stream last.
  auto two = [&](Opcode opcode, StringRef kind, Value a, Value b, Value stream) -> Instr & {
    Instr &instr = command(op, opcode, kind);
    instr.a = slot(a);
    instr.b = slot(b);
    instr.e = slot(stream);
    return instr;
  };
  return llvm::TypeSwitch<Operation *, FailureOr<bool>>(op)
      .Case([&](CollectiveOp o) {
        Instr &instr = two(Opcode::Collective, stringifyCollectiveKind(o.getKind()), o.getInput(),
                           o.getOutput(), o.getStream());
        instr.aux = static_cast<uint8_t>(o.getKind());
        instr.width = o.getReduction() ? static_cast<uint8_t>(*o.getReduction()) : 0;
        if (o.getRoot())
          instr.c = slot(o.getRoot());
        instr.d = slot(o.getChannel());
        return true;
      })
      .Case([&](GroupOp o) { return done(group(o)); })
      .Case([&](GatedMatmulOp o) { return done(gatedMatmul(o)); })
      .Case([&](SendOp o) {
        Instr &instr = command(op, Opcode::Send, "send");
        instr.a = slot(o.getBuffer());
        instr.c = slot(o.getPeer());
        return true;
      })
      .Case([&](RecvOp o) {
        code->receives = true;
        Instr &instr = command(op, Opcode::Recv, "recv");
        instr.a = slot(o.getBuffer());
        instr.c = slot(o.getPeer());
        return true;
      })
      .Case([&](PutOp o) {
        Instr &instr = two(Opcode::Put, "put", o.getSource(), o.getTarget(), o.getStream());
        instr.c = slot(o.getPeer());
        instr.d = slot(o.getChannel());
        return true;
      })
      .Case([&](SignalOp o) {
        Instr &instr = two(Opcode::Signal, "signal", o.getSlot(), o.getValue(), o.getStream());
        instr.c = slot(o.getPeer());
        instr.d = slot(o.getChannel());
        code->usesSignals = true;
        return true;
      })
      .Case([&](WaitSignalOp o) {
        two(Opcode::WaitSignal, "wait_signal", o.getSlot(), o.getValue(), o.getStream()).d =
            slot(o.getChannel());
        code->usesSignals = true;
        return true;
      })
      .Case([&](PeerExchangeOp o) {
        exchange(o);
        return true;
      })
      .Default([](Operation *) -> FailureOr<bool> { return false; });
}

LogicalResult CodeBuilder::group(hostir::GroupOp op) {
  Instr &begin = command(op, Opcode::GroupBegin, "group");
  begin.d = slot(op.getChannel());
  begin.e = slot(op.getStream());
  if (failed(block(op.getBody().front())))
    return failure();
  emit(op, Opcode::GroupEnd);
  return success();
}

LogicalResult CodeBuilder::gatedMatmul(hostir::GatedMatmulOp op) {
  Instr &begin = command(op, Opcode::GatedBegin, op->getName().stripDialect());
  begin.a = static_cast<uint32_t>(op.getReserved());
  begin.e = slot(op.getStream());
  if (failed(block(op.getBody().front())))
    return failure();
  emit(op, Opcode::GatedEnd);
  return success();
}

void CodeBuilder::exchange(hostir::PeerExchangeOp op) {
  ExchangeCode code{op, {}, {}, {}};
  auto slots = [&](ValueRange values, SmallVectorImpl<uint32_t> &into) {
    for (Value value : values)
      into.push_back(slot(value));
  };
  slots(op.getInputs(), code.inputs);
  slots(op.getOutputs(), code.outputs);
  slots(op.getCopies(), code.copies);
  if (op.getScratch())
    code.scratch = slot(op.getScratch());
  if (op.getValue())
    code.value = slot(op.getValue());
  Instr &instr = command(op, Opcode::Exchange, "peer_exchange");
  instr.a = this->code->exchanges.size();
  instr.d = slot(op.getChannel());
  instr.e = slot(op.getStream());
  this->code->exchanges.push_back(std::move(code));
  this->code->usesSignals = true;
}

LogicalResult CodeBuilder::kernel(hostir::KernelOp op) {
  FailureOr<std::vector<uint8_t>> expression = buildExpression(op);
  if (failed(expression))
    return failure();
  KernelCode kernel{op.getSymName().str(), std::move(*expression), {}};
  kernel.outputs = op.getResultTypes().size();
  for (Type type : llvm::concat<const Type>(op.getResultTypes(), op.getArgumentTypes()))
    kernel.operandTypes.push_back(static_cast<sp::DType>(*dtypeOf(type)));
  for (const GpuArchitecture &architecture : architectures) {
    FailureOr<std::string> native = buildNative(op, architecture);
    if (failed(native))
      return failure();
    kernel.native.push_back(
        {architecture.isAmd() ? sp::KernelFormat::amdgcn : sp::KernelFormat::ptx,
         architecture.name.str(), std::move(*native)});
  }
  code->kernels.push_back(std::move(kernel));
  return success();
}

LogicalResult CodeBuilder::launch(hostir::LaunchOp op) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<hostir::KernelOp>(op, op.getKernelAttr());
  if (!kernel)
    return op.emitOpError("no kernel called ") << op.getKernelAttr();
  auto [known, isNew] = kernelNumbers.try_emplace(op.getKernel(), code->kernels.size());
  if (isNew && failed(this->kernel(kernel)))
    return failure();
  KernelLaunch launch{known->second, {}};
  for (ValueRange values : {ValueRange(op.getOutputs()), ValueRange(op.getInputs())})
    for (Value value : values)
      launch.operands.push_back(slot(value));
  Instr &instr = command(op, Opcode::Launch, ("launch @" + op.getKernel()).str());
  instr.a = code->launches.size();
  instr.e = slot(op.getStream());
  code->launches.push_back(std::move(launch));
  return success();
}

static sp::KernelEffects effectsOf(hostir::CallOp op) {
  return llvm::StringSwitch<sp::KernelEffects>(op.getEffects().value_or(""))
      .Case("reads", sp::KernelEffects::reads)
      .Case("writes", sp::KernelEffects::writes)
      .Default(sp::KernelEffects::none);
}

void CodeBuilder::call(hostir::CallOp op) {
  // The kernel's entry in the program, for all calls with equal attributes and types.
  KernelCode kernel{op.getKernel().str(), {}, {}, {}, {}};
  kernel.outputs = op.getOutputs().size();
  auto number = [](std::optional<APFloat> cost, double otherwise) {
    return cost ? cost->convertToDouble() : otherwise;
  };
  ExternalKernel external{{},
                          op.getConfig().value_or("").str(),
                          number(op.getFlops(), 0),
                          number(op.getBytes(), -1),
                          op.getStrided(),
                          effectsOf(op),
                          {}};
  ArrayRef<int64_t> varying;
  if (auto dims = op->getAttrOfType<DenseI64ArrayAttr>(hostir::kVaryingAttrName))
    varying = dims;
  for (int64_t number : varying)
    external.varying.push_back(static_cast<uint8_t>(number));
  for (int64_t dim : op.getDims())
    external.dims.push_back(static_cast<int8_t>(dim));
  KernelLaunch launch{0, {}};
  std::string key;
  llvm::raw_string_ostream os(key);
  // A hostir.kernel has no such name.
  os << "call " << op.getKernelAttr() << op.getDims().size();
  llvm::interleaveComma(op.getDims(), os);
  os << ';';
  llvm::interleaveComma(varying, os);
  os << ';';
  os << external.config.size() << external.config << ' ' << external.flops << ' ' << external.bytes
     << external.isStrided << static_cast<int>(external.effects) << kernel.outputs;
  SmallVector<Value> buffers(op.getOutputs());
  llvm::append_range(buffers, op.getInputs());
  for (Value buffer : buffers) {
    auto type = cast<MemRefType>(buffer.getType());
    os << type.getElementType() << type.getRank();
    kernel.operandTypes.push_back(static_cast<sp::DType>(*dtypeOf(type.getElementType())));
    launch.operands.push_back(slot(buffer));
  }
  kernel.external = std::move(external);
  auto [known, isNew] = kernelNumbers.try_emplace(key, code->kernels.size());
  if (isNew)
    code->kernels.push_back(std::move(kernel));
  launch.kernel = known->second;
  for (Value offset : op.getOffsets())
    launch.offsets.push_back(slot(offset));
  launch.extents.assign(op.getExtents().begin(), op.getExtents().end());
  Instr &instr = command(op, Opcode::Call, ("call @" + op.getKernel()).str());
  instr.a = code->launches.size();
  instr.e = slot(op.getStream());
  code->launches.push_back(std::move(launch));
}

uint32_t CodeBuilder::meshNumber(MeshAttr mesh) {
  auto [it, isNew] = meshNumbers.try_emplace(mesh, code->meshes.size());
  if (!isNew)
    return it->second;
  code->meshes.emplace_back(mesh, code->numRanks);
  return it->second;
}

/// The capabilities that a channel's uses require; all declared ones if its value has other uses.
static uint32_t requiredCapabilities(hostir::ChannelOp op, uint32_t declared) {
  uint32_t required = 0;
  for (Operation *user : op.getChannel().getUsers()) {
    if (isa<hostir::CollectiveOp>(user))
      required |= static_cast<uint32_t>(sp::Capability::collectives);
    else if (isa<hostir::GroupOp>(user))
      required |= static_cast<uint32_t>(sp::Capability::two_sided);
    else if (isa<hostir::PutOp, hostir::SignalOp, hostir::WaitSignalOp, hostir::PeerExchangeOp>(
                 user))
      required |= static_cast<uint32_t>(sp::Capability::one_sided);
    else
      required |= declared;
  }
  return required;
}

LogicalResult CodeBuilder::channel(hostir::ChannelOp op) {
  uint32_t declared = 0;
  for (Attribute attr : op.getCapabilities())
    declared |= 1u << static_cast<uint32_t>(cast<hostir::CapabilityAttr>(attr).getValue());
  uint32_t required = requiredCapabilities(op, declared);
  auto [known, isNew] = channelNumbers.try_emplace(op.getName(), code->channels.size());
  bind(op, constant(known->second));
  if (!isNew) {
    ChannelInfo &other = code->channels[known->second];
    if (other.mesh != op.getMesh() || other.axes != op.getAxes() ||
        other.linkClass != op.getLinkClass()) {
      InFlightDiagnostic diag = op.emitOpError("channel \"")
                                << op.getName()
                                << "\" has another mesh, axes or link class elsewhere";
      diag.attachNote(channelOps[op.getName()].getLoc()) << "see the other channel";
      return diag;
    }
    other.declared |= declared;
    other.required |= required;
    return success();
  }
  constexpr size_t maxChannels = 4096; // the runtime's limit
  if (code->channels.size() == maxChannels)
    return op.emitOpError("expected at most ") << maxChannels << " channels";
  channelOps[op.getName()] = op;
  const hostir::MeshRanks &mesh = code->meshes[meshNumber(op.getMesh())];
  ChannelInfo info(mesh, op.getAxes());
  info.name = op.getName().str();
  info.linkClass = op.getLinkClass().str();
  info.declared = declared;
  info.required = required;
  code->channels.push_back(std::move(info));
  return success();
}

} // namespace tandem::target
