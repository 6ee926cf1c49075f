//===- GatedKernels.cpp - kernels of gated matmuls from their library ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GatedKernels.h"

#include "Gated/OpenLibrary.h"
#include "Gated/TileOrder.h"
#include "GpuDevice.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <tuple>

namespace tandem::gpu {

GatedPlan::~GatedPlan() = default;
GatedKernels::~GatedKernels() = default;

namespace {

using gated::KernelInfo, gated::Matmul, gated::Table;

Expected<const Table *> openTable() {
  TANDEM_ASSIGN_OR_RETURN(SharedLibrary library,
                          gated::openLibrary("gated matmuls: libtandem_gated.so"));
  gated::GetTable get = nullptr;
  TANDEM_RETURN_IF_ERROR(library.find(get, gated::kEntryName));
  const Table *table = get(gated::kVersion);
  if (!table)
    return Status(Code::Unsupported,
                  "gated matmuls: libtandem_gated.so is of another version of Tandem");
  return table;
}

// By these the compiler knows what kernels can run.
static_assert(gated::kMostGates == program::kMostGates);
static_assert(gated::kMostTargets == program::kMostGatedTargets);

/// Where the slices of K end that blocks have; the last is K. Fails if rows differ in them, or
/// slices are not of equal size.
struct Slices {
  int64_t columns = 0;
  int32_t count = 1;
  std::string whyNot;
};

Slices slicesOf(const GatedShape &shape) {
  Slices slices{shape.matmul.k, 1, {}};
  for (const program::GatedBlock &block : shape.desc.blocks)
    if (block.firstK > 0)
      slices.columns = std::min(slices.columns, block.firstK);
  if (slices.columns < 1)
    return slices;
  for (const program::GatedBlock &block : shape.desc.blocks)
    if (block.firstK % slices.columns != 0)
      slices.whyNot = "its slices of K differ in size";
  slices.count = static_cast<int32_t>((shape.matmul.k + slices.columns - 1) / slices.columns);
  return slices;
}

/// The function of an epilogue, without addresses.
gated::Function describe(const EpilogueDesc &epilogue) {
  gated::Function to{};
  to.present = 1;
  to.alpha = epilogue.alpha;
  to.beta = epilogue.beta;
  constexpr float log2e = 1.4426950408889634f, root = 0.7978845608028654f; // sqrt(2 / pi)
  switch (epilogue.activation) {
  case program::Activation::None:
    break;
  case program::Activation::Relu:
    to.activation = gated::Function::Relu;
    break;
  case program::Activation::Gelu: // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))
    to.activation = gated::Function::Sigmoid;
    to.c0 = -2 * root * log2e;
    to.c1 = 0.044715f * to.c0;
    break;
  case program::Activation::Silu:
    to.activation = gated::Function::Sigmoid;
    to.c0 = -log2e;
    break;
  }
  return to;
}

/// Targets fix the order of blocks, so there is one size of row groups and no table.
gated::TileOrder orderOf(const GatedShape &shape, const KernelInfo &kernel) {
  Slices slices = slicesOf(shape);
  const Matmul &matmul = shape.matmul;
  bool isWhole = matmul.numTargets > 0 || shape.desc.blocks.empty();
  std::vector<program::GatedBlock> whole{{0, matmul.m, 0, matmul.k, 0}};
  return gated::tileOrder(isWhole ? whole : shape.desc.blocks, matmul.m, slices.columns,
                          slices.count, kernel.tileM, kernel.clusterM);
}

/// Everything but addresses and tables in device memory.
Matmul describe(const GatedShape &shape, const KernelInfo &kernel, const gated::TileOrder &order,
                unsigned processors) {
  Matmul matmul = shape.matmul;
  matmul.sms = static_cast<int32_t>(processors) - static_cast<int32_t>(shape.desc.leaves);
  matmul.groupRows = order.groupRows;
  matmul.firstGroupRows = order.firstGroupRows;
  Slices slices = slicesOf(shape);
  matmul.slices = slices.count;
  matmul.sliceTiles = static_cast<int32_t>((slices.columns + kernel.tileK - 1) / kernel.tileK);
  if (shape.desc.epilogue) {
    matmul.function = describe(*shape.desc.epilogue);
    matmul.function.strideResidual = matmul.strideD;
  }
  for (uint32_t i = 0; i < matmul.numTargets; ++i)
    matmul.targets[i].block =
        static_cast<int32_t>(shape.desc.blocks[i].firstRow / shape.desc.blocks[i].rows);
  return matmul;
}

std::string whyNotKernel(const GatedShape &shape, const Table &table, uint32_t number,
                         unsigned processors) {
  const KernelInfo &kernel = *table.info(number);
  Slices slices = slicesOf(shape);
  if (!slices.whyNot.empty())
    return slices.whyNot;
  if (slices.count > 1 && slices.columns % kernel.tileK != 0)
    return fmt::format("slices of K are not multiples of {}", kernel.tileK);
  if (shape.matmul.m > int64_t(kernel.tileM) * kernel.clusterM * UINT16_MAX)
    return "it has too many rows";
  Matmul matmul = describe(shape, kernel, gated::TileOrder(), processors);
  const char *why = table.whyNot(number, &matmul);
  return why ? why : "";
}

/// Words of device memory for Matmul::arrivals.
Expected<Scratch> makeArrivals(const std::shared_ptr<DeviceState> &state, bool ofPrepare = false) {
  const uint32_t zeros[gated::kMostTargets] = {};
  TANDEM_ASSIGN_OR_RETURN(Scratch words, Scratch::make(state, sizeof zeros, ofPrepare));
  TANDEM_RETURN_IF_ERROR(state->driver->copy(words.data(), zeros, sizeof zeros));
  return words;
}

/// Rows that wait for signals.
int64_t rowsWithGates(const GatedShape &shape) {
  int64_t rows = 0;
  for (const program::GatedBlock &block : shape.desc.blocks)
    if (block.gates > 0 && block.firstK + block.k == shape.matmul.k)
      rows += block.rows;
  return rows;
}

/// The kernels that can run a shape, without gates and signals, as algorithms of one product.
/// Blocks with targets are stored next to each other: their sizes decide how tiles fill the SMs.
/// A run is the whole product, and then once more the rows that may come when the others are
/// computed: those with gates, but at most half of all, because the first of them come earlier.
/// Large tiles are the best for a product whose tiles all run at once. But if half of these tiles
/// wait, half of the SMs do.
class Candidates final : public ProductPlan {
public:
  Candidates(Driver &driver, const Table &table, std::vector<uint32_t> kernels,
             const GatedShape &shape, Scratch arrivals)
      : driver(driver), table(table), kernels(std::move(kernels)), shape(shape),
        arrivals(std::move(arrivals)) {
    GatedShape late = shape;
    late.matmul.m = std::min(rowsWithGates(shape), (shape.matmul.m + 1) / 2);
    late.desc.blocks.clear();
    late.matmul.numTargets = 0;
    late.matmul.firstOwn = late.matmul.ownRows = 0;
    for (uint32_t number : this->kernels) {
      runs.push_back({describe(shape, number)});
      if (late.matmul.m > 0 && whyNotKernel(late, table, number, driver.info().processors).empty())
        runs.back().push_back(describe(late, number));
    }
  }

  unsigned candidates() const override { return static_cast<unsigned>(kernels.size()); }
  void select(unsigned candidate) override { selected = candidate; }
  unsigned add(const ProductPlan &) override { return 0; }
  void keep(const std::vector<unsigned> &) override {}
  std::string algorithm(unsigned candidate) const override {
    return table.info(kernels[candidate])->name;
  }
  uint64_t workspaceBytes() const override { return 0; }
  uint32_t kernel(unsigned candidate) const { return kernels[candidate]; }

  Status run(StreamHandle stream, void *, const void *a, const void *b, void *out, const void *,
             const void *) override {
    for (Matmul matmul : runs[selected]) {
      matmul.a = a;
      matmul.w = b;
      matmul.d = out;
      for (uint32_t i = 0; i < matmul.numTargets; ++i) {
        gated::Target &target = matmul.targets[i];
        int64_t row = target.block * (matmul.m / matmul.numTargets);
        target.d = static_cast<std::byte *>(out) +
                   static_cast<size_t>(row * matmul.strideD) * sizeOf(shape.outType());
      }
      TANDEM_RETURN_IF_ERROR(driver.within([&] {
        const char *error = table.run(kernels[selected], &matmul, stream);
        return error ? Status(Code::Io, fmt::format("gated matmul: {}", error)) : Status();
      }));
    }
    return Status();
  }

private:
  Matmul describe(const GatedShape &shape, uint32_t number) {
    const KernelInfo &kernel = *table.info(number);
    Matmul matmul = gpu::describe(shape, kernel, orderOf(shape, kernel), driver.info().processors);
    matmul.numGates = 0;
    matmul.ownRows = 0;
    matmul.function.present = 0; // it hardly decides which one is the fastest
    matmul.arrivals = static_cast<uint32_t *>(arrivals.data());
    return matmul;
  }

  Driver &driver;
  const Table &table;
  std::vector<uint32_t> kernels;
  const GatedShape &shape;
  Scratch arrivals;                      ///< of targets
  std::vector<std::vector<Matmul>> runs; ///< by candidate, without addresses of the product
  unsigned selected = 0;
};

class Plan final : public GatedPlan {
public:
  Plan(Driver &driver, const Table &table, uint32_t number)
      : driver(driver), table(table), number(number) {}

  /// Uploads what waits need.
  Status prepare(const std::shared_ptr<DeviceState> &state, const GatedShape &shape) {
    const KernelInfo &kernel = *table.info(number);
    gated::TileOrder order = orderOf(shape, kernel);
    prepared = describe(shape, kernel, order, driver.info().processors);
    if (prepared.numTargets > 0) { // they are taken in their order: there are only counters
      TANDEM_ASSIGN_OR_RETURN(tables, makeArrivals(state));
      prepared.arrivals = static_cast<uint32_t *>(tables.data());
      return Status();
    }
    size_t needs = order.needs.size();
    std::vector<uint16_t> words = std::move(order.needs);
    words.insert(words.end(), order.order.begin(), order.order.end());
    TANDEM_ASSIGN_OR_RETURN(tables, Scratch::make(state, words.size() * sizeof words[0]));
    TANDEM_RETURN_IF_ERROR(
        driver.copy(tables.data(), words.data(), words.size() * sizeof words[0]));
    auto *device = static_cast<const uint16_t *>(tables.data());
    prepared.needs = prepared.numGates > 0 ? device : nullptr;
    prepared.order = device + needs;
    return Status();
  }

  const Matmul &matmul() const override { return prepared; }

  Status launch(StreamHandle stream, const Matmul &call) override {
    std::vector<const void *> addresses{call.a, call.w, call.own, call.d};
    for (uint32_t i = 0; i < call.numTargets; ++i)
      addresses.push_back(call.targets[i].d);
    for (const void *address : addresses)
      if (reinterpret_cast<uintptr_t>(address) % 16 != 0)
        return Status(Code::InvalidArgument,
                      fmt::format("gated matmul: expected matrices at multiples of 16 bytes, found "
                                  "one at {}",
                                  address));
    addresses.insert(addresses.end(), {call.epoch, call.abortFlag, call.stopped, call.arrivals,
                                       call.function.bias, call.function.residual});
    for (uint32_t i = 0; i < call.numTargets; ++i)
      addresses.push_back(call.targets[i].signal);
    for (uint32_t i = 0; i < call.numGates; ++i)
      addresses.push_back(call.gates[i].signal);
    return driver.library(stream, addresses.data(), addresses.size(), [&] {
      return driver.within([&] {
        const char *error = table.run(number, &call, stream);
        return error ? Status(Code::Io, fmt::format("gated matmul: {}", error)) : Status();
      });
    });
  }

  /// As GatedMatmul.cuh launches it: whole clusters, as many as there are tiles for.
  unsigned blocks() const override {
    const KernelInfo &kernel = *table.info(number);
    int64_t rows = kernel.tileM * kernel.clusterM, columns = kernel.tileN * kernel.clusterN,
            size = kernel.clusterM * kernel.clusterN,
            clusters = ((prepared.m + rows - 1) / rows) * ((prepared.n + columns - 1) / columns);
    return static_cast<unsigned>(std::min(prepared.sms / size, clusters) * size);
  }

  std::string description() const override { return table.info(number)->name; }

private:
  Driver &driver;
  const Table &table;
  const uint32_t number;
  Matmul prepared{};
  Scratch tables;
};

class LibraryKernels final : public GatedKernels {
public:
  LibraryKernels(Toolbox &tools, const Table &table) : tools(tools), table(table) {}

  std::string whyNot(const GatedShape &shape) const override {
    std::string why;
    return runnable(shape, why).empty() ? why : "";
  }

  Expected<std::unique_ptr<GatedPlan>> prepare(const GatedShape &shape) override {
    std::string why;
    std::vector<uint32_t> kernels = runnable(shape, why);
    if (kernels.empty())
      return Status(Code::Unsupported, "gated matmul: " + why);
    TANDEM_ASSIGN_OR_RETURN(uint32_t kernel, fastestOf(kernels, shape));
    auto plan = std::make_unique<Plan>(tools.driver(), table, kernel);
    TANDEM_RETURN_IF_ERROR(plan->prepare(tools.state, shape));
    return std::unique_ptr<GatedPlan>(std::move(plan));
  }

private:
  using Key = std::tuple<DType, bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         uint32_t, uint32_t, int64_t, uint32_t, int64_t, int64_t>;

  std::vector<uint32_t> runnable(const GatedShape &shape, std::string &why) const {
    std::vector<uint32_t> kernels;
    why = "only products of f16 and of bf16 have gated kernels";
    for (uint32_t i = 0; i < table.count; ++i) {
      const KernelInfo &kernel = *table.info(i);
      DType type = kernel.element == gated::Element::F16 ? DType::F16 : DType::BF16;
      if (shape.type() != type || shape.outType() != type || shape.transposeW != kernel.transposeW)
        continue;
      if (std::string reason = whyNotKernel(shape, table, i, tools.driver().info().processors);
          reason.empty())
        kernels.push_back(i);
      else
        why = std::move(reason);
    }
    return kernels;
  }

  /// All kernels add in the same order, so ranks may choose different ones.
  Expected<uint32_t> fastestOf(const std::vector<uint32_t> &kernels, const GatedShape &shape) {
    const Matmul &of = shape.matmul;
    Key key(shape.type(), shape.transposeW, of.m, of.n, of.k, of.strideA, of.strideW, of.strideD,
            shape.desc.leaves, of.numTargets, rowsWithGates(shape), of.numGates, of.firstOwn,
            of.ownRows);
    std::lock_guard lock(mutex);
    if (auto known = choices.find(key); known != choices.end())
      return known->second;
    Candidate candidate;
    Scratch arrivals;
    if (of.numTargets > 0) {
      TANDEM_ASSIGN_OR_RETURN(arrivals, makeArrivals(tools.state, /*ofPrepare=*/true));
    }
    auto plan =
        std::make_shared<Candidates>(tools.driver(), table, kernels, shape, std::move(arrivals));
    candidate.plan = plan;
    uint64_t bytes = sizeOf(shape.type());
    candidate.bytes[0] = static_cast<uint64_t>(of.m * of.strideA) * bytes;
    candidate.bytes[1] =
        static_cast<uint64_t>((shape.transposeW ? of.n : of.k) * of.strideW) * bytes;
    candidate.bytes[2] = static_cast<uint64_t>(of.m * of.strideD) * bytes;
    TANDEM_ASSIGN_OR_RETURN(unsigned best, fastest(tools, candidate));
    return choices[key] = plan->kernel(best);
  }

  Toolbox &tools;
  const Table &table;
  std::mutex mutex; ///< guards choices
  std::map<Key, uint32_t> choices;
};

} // namespace

std::unique_ptr<GatedKernels> createGatedKernels(Toolbox &tools, std::string &why) {
  const DeviceInfo &info = tools.driver().info();
  if (info.architecture != 90) {
    why = fmt::format("gated matmuls: expected a GPU of compute capability 9.0, found {}",
                      info.architecture
                          ? fmt::format("{}.{}", info.architecture / 10, info.architecture % 10)
                          : info.target);
    return nullptr;
  }
  Expected<const Table *> table = openTable();
  if (!table) {
    why = table.status().message();
    return nullptr;
  }
  return std::make_unique<LibraryKernels>(tools, **table);
}

} // namespace tandem::gpu
