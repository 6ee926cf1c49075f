//===- GatedTest.cpp - the hook for kernels of gated matmuls ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "GatedKernels.h"
#include "Support/GatedSpec.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

std::atomic<int> launches{0};
std::atomic<unsigned> gridBlocks{1};
std::atomic<bool> refuses{false}, refusesFunctions{false};

/// Waits and raises signals by kernels and multiplies by the matrix library, as docs/gated.md asks
/// of one kernel.
class StandInPlan final : public gpu::GatedPlan {
public:
  static Expected<std::unique_ptr<gpu::GatedPlan>> make(gpu::Driver &driver,
                                                        const gpu::GatedShape &shape) {
    auto plan = std::make_unique<StandInPlan>(driver, shape);
    TANDEM_ASSIGN_OR_RETURN(plan->kernels, gpu::Kernels::load(driver));
    TANDEM_ASSIGN_OR_RETURN(plan->await, plan->kernels->get("signal_wait"));
    TANDEM_ASSIGN_OR_RETURN(plan->raise, plan->kernels->get("signal_raise"));
    TANDEM_ASSIGN_OR_RETURN(plan->blas, gpu::kCuda.openBlas(driver));
    for (const program::GatedBlock &block : shape.desc.blocks) {
      gpu::Product product;
      product.dtype = shape.type();
      product.outType = shape.outType();
      product.m = block.rows;
      product.n = shape.matmul.n;
      product.k = block.k;
      product.lda = isOwn(shape, block) ? shape.matmul.strideOwn : shape.matmul.strideA;
      product.ldb = shape.matmul.strideW;
      product.ldo = shape.matmul.strideD;
      product.transposeB = shape.transposeW;
      product.accumulate = block.firstK > 0;
      product.alignment = 4;
      if (shape.desc.epilogue) {
        product.activation = shape.desc.epilogue->activation;
        product.alpha = shape.desc.epilogue->alpha;
        product.beta = shape.desc.epilogue->residual.present() ? shape.desc.epilogue->beta : 0;
        product.bias = shape.desc.whole.bias.present();
      }
      TANDEM_ASSIGN_OR_RETURN(auto part, plan->blas->plan(product, 1));
      plan->products.push_back(std::move(part));
    }
    TANDEM_RETURN_IF_ERROR(driver.allocate(gpu::kWorkspaceBytes, &plan->workspace));
    return std::unique_ptr<gpu::GatedPlan>(std::move(plan));
  }
  StandInPlan(gpu::Driver &driver, const gpu::GatedShape &shape) : driver(driver), shape(shape) {}
  ~StandInPlan() override { driver.free(workspace).ignore(); }

  const gpu::gated::Matmul &matmul() const override { return shape.matmul; }
  Status launch(gpu::StreamHandle stream, const gpu::gated::Matmul &call) override {
    ++launches;
    uint32_t passed = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const program::GatedBlock &block = shape.desc.blocks[i];
      for (; passed < block.gates; ++passed) {
        gpu::gated::Gate gate = call.gates[passed];
        void *arguments[] = {gpu::argument(gate.signal),    gpu::argument(call.epoch),
                             gpu::argument(gate.perRun),    gpu::argument(gate.value),
                             gpu::argument(call.progress),  gpu::argument(call.marker),
                             gpu::argument(call.abortFlag), gpu::argument(call.stopped)};
        TANDEM_RETURN_IF_ERROR(driver.launch(await, {1, 1, 1}, stream, arguments));
      }
      const float *a =
          isOwn(shape, block)
              ? static_cast<const float *>(call.own) +
                    (block.firstRow - shape.matmul.firstOwn) * shape.matmul.strideOwn
              : static_cast<const float *>(call.a) + block.firstRow * shape.matmul.strideA;
      int64_t first = block.firstRow * shape.matmul.strideD;
      float *out = shape.matmul.numTargets ? static_cast<float *>(call.targets[i].d)
                                           : static_cast<float *>(call.d) + first;
      const float *residual = call.function.residual
                                  ? static_cast<const float *>(call.function.residual) + first
                                  : nullptr;
      TANDEM_RETURN_IF_ERROR(
          driver.library(stream, {a, call.w, out, call.function.bias, residual}, [&] {
            return products[i]->run(stream, workspace, a + block.firstK, call.w, out,
                                    call.function.bias, residual);
          }));
      if (!shape.matmul.numTargets || !call.targets[i].signal)
        continue;
      gpu::gated::Target to = call.targets[i];
      uint64_t plain = 0;
      void *arguments[] = {gpu::argument(to.signal),    gpu::argument(call.epoch),
                           gpu::argument(to.perRun),    gpu::argument(to.value),
                           gpu::argument(call.stopped), gpu::argument(plain)};
      TANDEM_RETURN_IF_ERROR(driver.launch(raise, {1, 1, 1}, stream, arguments));
    }
    return Status();
  }
  unsigned blocks() const override { return gridBlocks; }
  std::string description() const override { return "stand-in"; }

private:
  static bool isOwn(const gpu::GatedShape &shape, const program::GatedBlock &block) {
    return block.firstRow >= shape.matmul.firstOwn &&
           block.firstRow < shape.matmul.firstOwn + shape.matmul.ownRows;
  }

  gpu::Driver &driver;
  const gpu::GatedShape shape;
  std::unique_ptr<gpu::Kernels> kernels;
  std::unique_ptr<gpu::Blas> blas;
  gpu::FunctionHandle await = nullptr, raise = nullptr;
  std::vector<std::unique_ptr<gpu::ProductPlan>> products;
  void *workspace = nullptr;
};

class StandIn final : public gpu::GatedKernels {
public:
  explicit StandIn(gpu::Driver &driver) : driver(driver) {}
  std::string whyNot(const gpu::GatedShape &shape) const override {
    EXPECT_LE(shape.desc.leaves, 2u);
    EXPECT_EQ(shape.matmul.k, 4);
    if (refusesFunctions && shape.desc.epilogue)
      return "expected no function";
    return refuses ? "expected a multiple of 8 columns, found " + std::to_string(shape.matmul.n)
                   : "";
  }
  Expected<std::unique_ptr<gpu::GatedPlan>> prepare(const gpu::GatedShape &shape) override {
    return StandInPlan::make(driver, shape);
  }

private:
  gpu::Driver &driver;
};

/// Devices that are made while it lives have the stand-in.
class WithKernels {
public:
  WithKernels()
      : before(gpu::setGatedFactory([](gpu::Driver &driver, std::string &) {
          return std::unique_ptr<gpu::GatedKernels>(std::make_unique<StandIn>(driver));
        })) {}
  ~WithKernels() { gpu::setGatedFactory(before); }

private:
  gpu::GatedFactory before;
};

/// Five runs, each with other values: a[row][k] = row + k of the whole matrix, times the run's
/// number + 1; w = rank + 1 everywhere.
Status runProducts(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  uint32_t rows = 2 * context.worldSize();
  std::vector<float> w(12, static_cast<float>(context.rank() + 1)), y(size_t(rows) * 3);
  TANDEM_RETURN_IF_ERROR(context.device().upload(memory[1]->data(), w.data(), 48));
  for (int run = 0; run < 5; ++run) {
    float a[8];
    for (uint32_t i = 0; i < 8; ++i) {
      uint32_t row = 2 * context.rank() + i / 4;
      a[i] = static_cast<float>((row + i % 4) * (run + 1));
    }
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), a, sizeof a));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), memory[2]->data(), y.size() * 4));
    for (uint32_t i = 0; i < y.size(); ++i) {
      uint32_t row = i / 3;
      auto expected = static_cast<float>((4 * row + 6) * (run + 1) * (context.rank() + 1));
      if (y[i] != expected)
        return Status(Code::Internal, "run " + std::to_string(run) + ": expected " +
                                          std::to_string(expected) + ", found " +
                                          std::to_string(y[i]));
    }
  }
  return Status();
}

TEST(GpuGated, OneKernelForAllParts) {
  WithKernels kernels;
  for (const char *graph : {"1", "0"}) {
    Variable variable("TANDEM_GRAPH", graph);
    int before = launches;
    int64_t replayed = fakeNumber("graph-launches");
    expectAllOk(runRanks(GatedSpec(2), "peer", runProducts));
    EXPECT_GE(launches - before, 2); // captured once per rank and half
    EXPECT_EQ(fakeNumber("graph-launches") - replayed, *graph == '1' ? 10 : 0);
    EXPECT_EQ(takeLog().find("one by one"), std::string::npos);
  }
}

TEST(GpuGated, MisalignedArgumentsAreRefusedWhenTheyAreBound) {
  WithKernels kernels;
  expectAllOk(runRanks(GatedSpec(2), "peer", [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    TANDEM_ASSIGN_OR_RETURN(auto larger, context.device().allocate(64, MemoryKind::Plain));
    std::vector<void *> data{memory[0]->data(), static_cast<std::byte *>(larger->data()) + 4,
                             memory[2]->data()};
    for (const Status &status : {instance.bindAll(data.data(), nullptr),
                                 instance.enqueue(nullptr, data.data(), nullptr)}) {
      EXPECT_EQ(status.code(), Code::InvalidArgument);
      EXPECT_NE(status.message().find("address is not a multiple of 16"), std::string::npos)
          << status.message();
    }
    EXPECT_TRUE(context.health().ok());
    return runProducts(context, instance);
  }));
}

TEST(GpuGated, OwnRowsAreReadWhereTheyLie) {
  WithKernels kernels;
  for (const char *graph : {"1", "0"})
    for (uint64_t blocks : {0, 1})    // pushed by copies, by thread blocks
      for (uint32_t ranks : {2, 4}) { // two of these share a GPU
        Variable variable("TANDEM_GRAPH", graph);
        int before = launches;
        expectAllOk(runRanks(GatedSpec(ranks, 2, blocks, /*isInPlace=*/true), "peer", runProducts));
        EXPECT_GE(launches - before, static_cast<int>(ranks));
      }
}

// While the driver makes one rank's graph, another one's kernel would wait for that rank.
TEST(GpuGated, RanksThatShareAGpuUseNoGraphs) {
  WithKernels kernels;
  int64_t replayed = fakeNumber("graph-launches");
  expectAllOk(runRanks(GatedSpec(4), "peer", runProducts)); // on two GPUs
  EXPECT_EQ(fakeNumber("graph-launches"), replayed);
}

TEST(GpuGated, WithoutKernelsThePartsRunOneByOne) {
  Variable none("TANDEM_GATED_LIBRARY", "/nonexistent");
  takeLog();
  expectAllOk(runRanks(GatedSpec(2), "peer", runProducts));
  std::string log = takeLog();
  EXPECT_NE(log.find("@program: command 5 (gated_matmul of 3 parts \"gated_matmul #5\"): its 3 "
                     "parts run one by one: gated matmuls: "),
            std::string::npos)
      << log;
}

// Those of the library are for Hopper.
TEST(GpuGated, OnHipThePartsRunOneByOne) {
  if (!gpu::vendorOf("hip"))
    GTEST_SKIP() << "this build has no device hip";
  Variable device("TANDEM_TEST_GPU", "hip");
  for (const char *graph : {"1", "0"}) {
    Variable variable("TANDEM_GRAPH", graph);
    takeLog();
    expectAllOk(runRanks(GatedSpec(2), "peer", runProducts));
    std::string log = takeLog();
    EXPECT_NE(log.find("its 3 parts run one by one: gated matmuls: expected a GPU of compute "
                       "capability 9.0, found gfx942"),
              std::string::npos)
        << log;
  }
}

TEST(GpuGated, TheDeviceSaysWhetherItHasThem) {
  Variable none("TANDEM_GATED_LIBRARY", "/nonexistent");
  auto has = [](Context &context, Instance &) {
    return context.device().hasGatedKernels() ? Status() : Status(Code::Internal, "none");
  };
  for (const Status &status : runRanks(GatedSpec(2), "peer", has))
    EXPECT_EQ(status.message(), "none");
  WithKernels kernels;
  expectAllOk(runRanks(GatedSpec(2), "peer", has));
}

TEST(GpuGated, ShapesThatTheKernelsRefuse) {
  WithKernels kernels;
  takeLog();
  refuses = true;
  expectAllOk(runRanks(GatedSpec(2), "peer", runProducts));
  refuses = false;
  std::string log = takeLog();
  EXPECT_NE(log.find("one by one: expected a multiple of 8 columns, found 3"), std::string::npos)
      << log;
}

/// relu(2 product + bias - 30 residual) in place behind the gated matmul. Its kernel has no PTX, so
/// only the gated kernel can compute it. The bias is a row of w, the residual all of it.
GatedSpec withEpilogue() {
  using E = sp::ExprOp;
  GatedSpec spec(2);
  KernelSpec kernel;
  kernel.code = encodeExpression(3, 1,
                                 {{E::load, 0},
                                  {E::constant, 0, 0, 0, 2},
                                  {E::mul, 0, 1},
                                  {E::load, 1},
                                  {E::add, 2, 3},
                                  {E::load, 2},
                                  {E::constant, 0, 0, 0, 30},
                                  {E::mul, 5, 6},
                                  {E::sub, 4, 7},
                                  {E::constant, 0, 0, 0, 0},
                                  {E::max, 8, 9},
                                  {E::store, 10, 0}});
  kernel.outputs = 1;
  for (RankSpec &rank : spec.ranks) {
    const CommandSpec gated = rank.commands[spec.head];
    const CommandSpec matmul = rank.commands[spec.head + 1];
    uint32_t whole = rank.view(rank.views[matmul.operands[0]].buffer(), DType::F32, {4, 3});
    uint32_t w = rank.views[matmul.operands[2]].buffer();
    uint32_t bias = rank.view(w, DType::F32, {4, 3}, {0, 1}, 0);
    uint32_t residual = rank.view(w, DType::F32, {4, 3});
    rank.kernels.push_back(kernel);
    rank.launch(0, 0, {whole, whole, bias, residual});
    CommandSpec launch = rank.commands.back();
    rank.commands.pop_back();
    rank.commands.insert(rank.commands.begin() + spec.head + 1 + gated.aux, launch);
  }
  return spec;
}

Status runEpilogue(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  auto factor = static_cast<float>(context.rank() + 1);
  std::vector<float> w(12, factor), y(12);
  TANDEM_RETURN_IF_ERROR(context.device().upload(memory[1]->data(), w.data(), 48));
  for (uint32_t run = 1; run <= 3; ++run) {
    float a[8];
    for (uint32_t i = 0; i < 8; ++i)
      a[i] = static_cast<float>((2 * context.rank() + i / 4 + i % 4) * run);
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), a, sizeof a));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), memory[2]->data(), 48));
    for (uint32_t i = 0; i < y.size(); ++i) {
      float product = static_cast<float>((4 * (i / 3) + 6) * run) * factor;
      float expected = std::max(2 * product + factor - 30 * factor, 0.0f);
      if (y[i] != expected)
        return Status(Code::Internal,
                      "expected " + std::to_string(expected) + ", found " + std::to_string(y[i]));
    }
  }
  return Status();
}

TEST(GpuGated, ALaunchBehindIsItsEpilogue) {
  WithKernels kernels;
  for (const char *graph : {"1", "0"}) {
    Variable variable("TANDEM_GRAPH", graph);
    expectAllOk(runRanks(withEpilogue(), "peer", runEpilogue));
  }
  refusesFunctions = true;
  takeLog();
  for (const Status &rank : runRanks(withEpilogue(), "peer", runEpilogue))
    EXPECT_FALSE(rank.ok()) << "the launch has no code for this GPU";
  refusesFunctions = false;
  EXPECT_NE(takeLog().find("the launch behind it runs alone: expected no function"),
            std::string::npos);
}

TEST(GpuGated, SignalsMustHaveAnSM) {
  WithKernels kernels;
  for (const Status &rank : runRanks(GatedSpec(2, 0), "peer", runProducts))
    EXPECT_NE(rank.message().find("leaves no SMs, and the program's signals may need one"),
              std::string::npos)
        << rank.message();
  expectAllOk(runRanks(GatedSpec(2, 1), "peer", runProducts));
}

//===----------------------------------------------------------------------===//
// Rows that go to peers
//===----------------------------------------------------------------------===//

/// Five runs, each with other values: a[row][k] = (row + k) * (rank + 1), times the run's number +
/// 1; w = 1 everywhere. Each rank has the sums of two rows.
Status runSums(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  uint32_t size = context.worldSize(), terms = size * (size + 1) / 2;
  std::vector<float> w(16, 1), a(size_t(size) * 8), y(8);
  TANDEM_RETURN_IF_ERROR(context.device().upload(memory[1]->data(), w.data(), 64));
  for (uint32_t run = 1; run <= 5; ++run) {
    for (uint32_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<float>((i / 4 + i % 4) * (context.rank() + 1) * run);
    TANDEM_RETURN_IF_ERROR(
        context.device().upload(memory[0]->data(), a.data(), a.size() * sizeof(float)));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), memory[2]->data(), 32));
    for (uint32_t i = 0; i < y.size(); ++i) {
      uint32_t row = 2 * context.rank() + i / 4;
      auto expected = static_cast<float>((4 * row + 6) * terms * run);
      if (y[i] != expected)
        return Status(Code::Internal, "run " + std::to_string(run) + ": expected " +
                                          std::to_string(expected) + ", found " +
                                          std::to_string(y[i]));
    }
  }
  return Status();
}

TEST(GpuGated, OneKernelStoresToThePeers) {
  WithKernels kernels;
  for (const char *graph : {"1", "0"}) {
    Variable variable("TANDEM_GRAPH", graph);
    for (uint32_t ranks : {2, 4}) {
      int before = launches;
      takeLog();
      expectAllOk(runRanks(EpilogueSpec(ranks), "peer", runSums));
      EXPECT_GE(launches - before, static_cast<int>(ranks));
      std::string log = takeLog();
      EXPECT_EQ(log.find("one by one"), std::string::npos) << log;
    }
  }
}

TEST(GpuGated, WithoutKernelsThePartsStore) {
  Variable none("TANDEM_GATED_LIBRARY", "/nonexistent");
  takeLog();
  expectAllOk(runRanks(EpilogueSpec(2), "peer", runSums));
  EXPECT_NE(takeLog().find("its 4 parts run one by one: gated matmuls: "), std::string::npos);
}

// Of the GPU's 132 SMs, one is for what is waited for.
TEST(GpuGated, RanksThatShareAGpuHaveEqualPartsOfIt) {
  WithKernels kernels;
  for (unsigned blocks : {65u, 66u, 130u}) {
    gridBlocks = blocks;
    for (unsigned gpus : {1u, 2u}) {
      RankOptions options;
      options.gpus = gpus;
      takeLog();
      expectAllOk(runRanks(GatedSpec(2), "peer", runProducts, options));
      bool fits = gpus == 2 || blocks == 65;
      EXPECT_EQ(takeLog().find("one by one: a kernel that waits needs") == std::string::npos, fits)
          << blocks << " blocks on each of " << gpus << " GPUs";
    }
  }
  gridBlocks = 1;
}

TEST(GpuGated, WithoutAtomicOperationsThePartsStore) {
  WithKernels kernels;
  Knob plain("no-atomics", 1);
  takeLog();
  expectAllOk(runRanks(EpilogueSpec(2), "peer", runSums));
  EXPECT_NE(takeLog().find("kernels cannot store to the peers of channel c0"), std::string::npos);
}

TEST(GpuGated, TargetsThatNoKernelHas) {
  WithKernels kernels;
  EpilogueSpec spec(2);
  for (RankSpec &rank : spec.ranks) // its own rows are in two pieces
    for (int piece : {1, 0}) {
      CommandSpec own = rank.commands[spec.head + 4];
      for (int k : {0, 1}) {
        sp::View view = rank.views[own.operands[k]];
        own.operands[k] = rank.view(view.buffer(), DType::F32, {1, 4},
                                    view.offset() + static_cast<uint64_t>(piece * 16));
      }
      if (piece == 1)
        rank.commands.insert(rank.commands.begin() + spec.head + 5, own);
      else
        rank.commands[spec.head + 4] = own;
    }
  for (RankSpec &rank : spec.ranks)
    rank.commands[spec.head].aux = 5;
  takeLog();
  expectAllOk(runRanks(spec, "peer", runSums));
  std::string log = takeLog();
  EXPECT_NE(log.find("its 5 parts run one by one: its blocks have different numbers of rows"),
            std::string::npos)
      << log;
}

TEST(GpuGated, AStallNamesIt) {
  WithKernels kernels;
  for (const char *graph : {"1", "0"}) {
    Variable variable("TANDEM_GRAPH", graph);
    std::atomic<bool> ended{false};
    auto ranks = runRanks(GatedSpec(2), "peer",
                          [&](Context &context, Instance &instance) -> Status {
                            TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
                            if (context.rank() == 0) {
                              Status status = instance.run();
                              ended = true;
                              return status;
                            }
                            for (int i = 0; i < 4000 && !ended; ++i)
                              std::this_thread::sleep_for(std::chrono::milliseconds(5));
                            return Status();
                          },
                          {std::chrono::seconds(2)});
    EXPECT_NE(ranks[0].message().find("gated_matmul of 3 parts"), std::string::npos)
        << graph << ": " << ranks[0].message();
  }
}

} // namespace
