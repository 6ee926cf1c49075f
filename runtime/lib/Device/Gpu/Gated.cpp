//===- Gated.cpp - matmuls that wait for signals ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"

#include <atomic>
#include <fmt/format.h>

namespace tandem::gpu {

static std::atomic<GatedFactory> factory{nullptr};

GatedFactory setGatedFactory(GatedFactory given) { return factory.exchange(given); }

GatedKernels *Toolbox::gatedKernels(std::string &why) {
  std::call_once(askedForGated, [&] {
    GatedFactory make = factory;
    gated = make ? make(driver(), whyNoGated) : createGatedKernels(*this, whyNoGated);
  });
  why = whyNoGated;
  return gated.get();
}

namespace {

class GatedOperation final : public GpuOperation {
public:
  GatedOperation(Tools tools, std::unique_ptr<GatedPlan> plan, const GatedMatmulDesc &desc,
                 FunctionHandle countRun, HeldProcessors held)
      : tools(std::move(tools)), plan(std::move(plan)), desc(desc), countRun(countRun),
        held(std::move(held)) {}

  std::string whyNoGraph() const override { return desc.whyNoGraph; }
  void alignments(const std::function<void(uint32_t, uint32_t)> &note) const override {
    for (const Operand *matrix : {&desc.whole.a, &desc.whole.b, &desc.own.rows})
      note(matrix->slot, kRowBytes);
    if (desc.targets.empty())
      note(desc.whole.out.slot, kRowBytes);
    for (const GatedTarget &target : desc.targets)
      if (target.isLocal)
        note(target.local.slot, kRowBytes);
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    gated::Matmul call = plan->matmul();
    auto addressOf = [&](const Operand &operand) -> std::byte * {
      return operand.present() ? static_cast<std::byte *>(frame.pointers[operand.slot]) : nullptr;
    };
    const MatmulDesc &whole = desc.whole;
    call.a = addressOf(whole.a) - desc.rowOfA * whole.a.layout.strides[0] *
                                      static_cast<int64_t>(sizeOf(whole.a.layout.dtype));
    call.w = addressOf(whole.b);
    call.own = addressOf(desc.own.rows);
    call.d = desc.targets.empty() ? addressOf(whole.out) : nullptr;
    call.function.bias = addressOf(whole.bias);
    call.function.residual = desc.epilogue ? addressOf(desc.epilogue->residual) : nullptr;
    DeviceState &state = *tools->state;
    call.abortFlag = state.abortFlag();
    TANDEM_ASSIGN_OR_RETURN(call.stopped, state.stoppedWord());
    call.progress = static_cast<uint64_t *>(stream.progressWord());
    call.marker = marker;
    Capture *capture = stream.capturing();
    if (capture) {
      capture->reads(countRun);
      call.epoch = static_cast<const uint64_t *>(capture->epoch);
    }
    for (size_t i = 0; i < desc.gates.size(); ++i) {
      const Gate &gate = desc.gates[i];
      uint64_t value = gate.value + (capture ? 0 : frame.epoch * gate.perRun);
      call.gates[i] = {gate.words + frame.firstSignal + gate.slot, gate.perRun, value};
    }
    for (size_t i = 0; i < desc.targets.size(); ++i) {
      const GatedTarget &target = desc.targets[i];
      gated::Target &to = call.targets[i];
      to.d = target.isLocal ? frame.pointers[target.local.slot]
                            : desc.peers->place(target.peer, target.offset, frame);
      if (!target.signals)
        continue;
      to.signal = desc.peers->signal(target.peer, target.slot, frame);
      to.perRun = target.perRun;
      to.value = target.value + (capture ? 0 : frame.epoch * target.perRun);
    }
    TANDEM_RETURN_IF_ERROR(plan->launch(stream.native(), call));
    return stream.track(marker);
  }

private:
  Tools tools; ///< first: outlives the plan
  std::unique_ptr<GatedPlan> plan;
  const GatedMatmulDesc desc;
  FunctionHandle countRun;
  HeldProcessors held;
};

/// Elements from row to row; 0 if the elements of a row are not neighbours.
int64_t rowStride(const Layout &layout) { return layout.strides[1] == 1 ? layout.strides[0] : 0; }

} // namespace

Expected<std::unique_ptr<Operation>> prepareGatedMatmul(const Tools &tools,
                                                        const GatedMatmulDesc &desc) {
  const MatmulDesc &whole = desc.whole;
  auto no = [](const std::string &why) { return Status(Code::Unsupported, why); };
  std::string none;
  GatedKernels *kernels = tools->gatedKernels(none);
  if (!kernels)
    return no(none);
  if (whole.ordered)
    return no("a deterministic program adds in a given order");
  if (desc.gates.size() > gated::kMostGates || desc.targets.size() > gated::kMostTargets)
    return no(fmt::format("it has {} gates and {} targets, of at most {} and {}", desc.gates.size(),
                          desc.targets.size(), gated::kMostGates, gated::kMostTargets));
  GatedShape shape{desc, whole.transposeB};
  gated::Matmul &matmul = shape.matmul;
  matmul.m = whole.out.layout.shape[0];
  matmul.n = whole.out.layout.shape[1];
  matmul.k = whole.a.layout.shape[1];
  matmul.strideA = rowStride(whole.a.layout);
  matmul.strideW = rowStride(whole.b.layout);
  matmul.strideD = rowStride(whole.out.layout);
  matmul.numGates = static_cast<uint32_t>(desc.gates.size());
  matmul.numTargets = static_cast<uint32_t>(desc.targets.size());
  for (const Operand *matrix : {&whole.a, &whole.b, &whole.out, &desc.own.rows})
    if (matrix->present() && matrix->alignment % kRowBytes != 0)
      return no("matrices that are not at multiples of 16 bytes");
  if (desc.own.rows.present()) {
    const Layout &own = desc.own.rows.layout;
    matmul.firstOwn = desc.own.firstRow;
    matmul.ownRows = own.shape[0];
    matmul.strideOwn = own.strides[0];
  }
  if (matmul.strideW == 0 && whole.b.layout.strides[0] == 1) { // stored the other way round
    shape.transposeW = !shape.transposeW;
    matmul.strideW = whole.b.layout.strides[1];
  }
  if (matmul.strideA == 0 || matmul.strideW == 0 || matmul.strideD == 0)
    return no(fmt::format("expected rows or columns one after the other, found {} by {}",
                          whole.a.layout.str(), whole.b.layout.str()));
  if (desc.epilogue) {
    const Layout &bias = whole.bias.layout;
    if (whole.bias.present() && (bias.dtype != shape.outType() || bias.strides[0] != 1))
      return no(fmt::format("a bias that is {}", bias.str()));
  }
  if (std::string why = kernels->whyNot(shape); !why.empty())
    return no(why);
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<GatedPlan> plan, kernels->prepare(shape));
  HeldProcessors held;
  if (!desc.gates.empty()) {
    HeldProcessors::User user{tools->state.get(), desc.instance, desc.stream, desc.runsFollow};
    TANDEM_ASSIGN_OR_RETURN(
        held, HeldProcessors::take(*tools->state, user, plan->blocks(), plan->blocks()));
  }
  TANDEM_ASSIGN_OR_RETURN(FunctionHandle countRun, tools->kernels->get("run_words"));
  TANDEM_RETURN_IF_ERROR(tools->state->stoppedWord().status()); // allocated before the first run
  return std::make_unique<GatedOperation>(tools, std::move(plan), desc, countRun, std::move(held));
}

} // namespace tandem::gpu
