//===- PricerTest.cpp - the price of a candidate ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Pricer.h"

#include "tandem/Compiler/Compiler.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Program/Program.h"
#include "tandem/Replay/Simulate.h"
#include "tandem/Target/StreamProgram/StreamProgram.h"

#include "mlir/Parser/Parser.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>
#include <unistd.h>

using namespace tandem;

namespace {

constexpr char kMachine[] = TANDEM_MACHINES "/h200x8.json";

/// The gather of rows and a matmul on its slices, by a schedule.
std::string gatherMatmul(const std::string &schedule, const std::string &name = "f") {
  return R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 8]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#result = #fusion.axes<#tp, [stream("x"), didx("x")]>
func.func @)mlir" +
         name + R"mlir((%x: tensor<8192x4096xbf16, #rows> {fusion.name = ")mlir" + name + R"mlir("},
    %w: tensor<4096x8192xbf16, #columns>) -> tensor<8192x8192xbf16, #result> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<)mlir" +
         schedule + R"mlir(>} : tensor<8192x4096xbf16, #rows> -> tensor<8192x4096xbf16, #slices>
  %y = fusion.matmul %g, %w
      : tensor<8192x4096xbf16, #slices>, tensor<4096x8192xbf16, #columns> -> tensor<8192x8192xbf16, #result>
  return %y : tensor<8192x8192xbf16, #result>
}
)mlir";
}

class PricerTest : public ::testing::Test {
protected:
  PricerTest() : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED) {}

  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerTandemDialects(registry);
    return registry;
  }

  std::unique_ptr<Pricer> makePricer(std::string machine = kMachine, int64_t ranks = 8) {
    Pricer::Options options;
    options.machine = std::move(machine);
    options.ranks = ranks;
    return createPricer(&context, options, error);
  }

  mlir::FailureOr<double> price(Pricer &pricer, const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    return pricer.price(*module->getOps<mlir::func::FuncOp>().begin(), Pricer::From::FormLoops);
  }

  mlir::MLIRContext context;
  std::string error;
};

/// Seconds of a whole program by the simulator.
double simulated(const std::string &text, const std::string &machineFile = kMachine) {
  compiler::CompileOptions options;
  options.target = "cuda-peer";
  compiler::CompileResult compiled = compiler::compileText(text, options);
  EXPECT_TRUE(compiled) << compiled.errorText();
  auto file = ProgramFile::fromMemory(compiled.output);
  auto world = replay::World::load(**file);
  auto machine = machine::Machine::load(machineFile);
  return simulate::simulate(**world, *machine)->seconds;
}

TEST_F(PricerTest, IsTheSimulatedTimeOfTheProgram) {
  std::unique_ptr<Pricer> pricer = makePricer();
  ASSERT_TRUE(pricer) << error;
  for (const char *schedule : {"pipeline", "exchange", "push", "push, streams = 2",
                               "push, order = xor, merge = [1, 1, 2, 4]"}) {
    std::string text = gatherMatmul(schedule);
    auto seconds = price(*pricer, text);
    ASSERT_TRUE(mlir::succeeded(seconds)) << schedule;
    EXPECT_DOUBLE_EQ(*seconds, simulated(text)) << schedule;
  }
}

TEST_F(PricerTest, NamesDoNotMatterAndSchedulesDo) {
  std::unique_ptr<Pricer> pricer = makePricer();
  ASSERT_TRUE(pricer) << error;
  double push = *price(*pricer, gatherMatmul("push"));
  EXPECT_EQ(push, *price(*pricer, gatherMatmul("push", "other")));
  EXPECT_NE(push, *price(*pricer, gatherMatmul("pipeline")));
  // Another pricer of the same context knows them too; another machine has its own prices.
  EXPECT_EQ(push, *price(*makePricer(), gatherMatmul("push")));
  EXPECT_NE(push, *price(*makePricer(TANDEM_MACHINES "/h100x8.json"), gatherMatmul("push")));
}

/// Measured choices of other processes, and of builds with another printer, are found by it.
TEST_F(PricerTest, SignaturesByContentAreTheSameInAllContexts) {
  std::string plain = gatherMatmul("pipeline");
  auto signatureOf = [](std::string text, StringRef replaced = "", StringRef by = "") {
    for (size_t at = 0; !replaced.empty() && (at = text.find(replaced, at)) != std::string::npos;
         at += by.size())
      text.replace(at, replaced.size(), by);
    mlir::MLIRContext other(makeRegistry(), mlir::MLIRContext::Threading::DISABLED);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &other);
    EXPECT_TRUE(module) << text;
    return module ? getSignature(*module, /*byContent=*/true) : "";
  };
  EXPECT_EQ(signatureOf(plain), signatureOf(gatherMatmul("pipeline", "other")));
  EXPECT_EQ(signatureOf(plain), signatureOf(plain, "%g", "%renamed"));
  EXPECT_EQ(signatureOf(plain), signatureOf(plain, "{schedule =", "{ schedule  ="));
  struct {
    StringRef what, replaced, by;
  } differences[] = {
      {"an extent", "4096", "2048"},
      {"an element type of as many bits", "bf16", "f16"},
      {"the size of a mesh axis", "\"x\" = 8", "\"x\" = 4"},
      {"the name of a mesh axis", "\"x\"", "\"y\""},
      {"the devices of a mesh", "8]>", "8], devices = [1, 0, 2, 3, 4, 5, 6, 7]>"},
      {"the size of a digit", "stream(\"x\")", "stream(4)"},
      {"a schedule", "<pipeline>", "<ring>"},
      {"an option", "<pipeline>", "<pipeline, combine = whole>"},
      {"an op", "return %y",
       "%z = arith.addf %y, %y : tensor<8192x8192xbf16, #result>\n  return %z"},
      {"an operand", "return %y",
       "%z = fusion.matmul %g, %w : tensor<8192x4096xbf16, #slices>, "
       "tensor<4096x8192xbf16, #columns> -> "
       "tensor<8192x8192xbf16, #result>\n  return %z"},
  };
  std::map<std::string, StringRef> known = {{signatureOf(plain), "nothing"}};
  for (auto [what, replaced, by] : differences) {
    auto [entry, isNew] = known.try_emplace(signatureOf(plain, replaced, by), what);
    EXPECT_TRUE(isNew) << what.str() << " and " << entry->second.str();
  }
}

TEST_F(PricerTest, FailsSilentlyWhereACandidateCannotBeLowered) {
  std::unique_ptr<Pricer> pricer = makePricer();
  ASSERT_TRUE(pricer) << error;
  unsigned diagnostics = 0;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &) {
    ++diagnostics;
    return mlir::success();
  });
  std::string wrong = gatherMatmul("push, merge = [1, 1]");
  for (int time = 0; time < 2; ++time) // the second answer comes from the cache
    EXPECT_TRUE(mlir::failed(price(*pricer, wrong)));
  EXPECT_EQ(diagnostics, 0u);
}

/// A matmul on gathered slices, one of each of `nodes` x `gpus` devices, by a schedule.
std::string pod(int64_t nodes, int64_t gpus, const std::string &schedule) {
  int64_t devices = nodes * gpus;
  auto tensor = [](int64_t rows, int64_t columns, const std::string &axes) {
    return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) +
           "xbf16, #fusion.axes<#tp, [" + axes + "]>>";
  };
  int64_t m = 128 * devices, h = 1024, f = 64 * devices;
  std::string mesh = "didx(\"node\") * didx(\"gpu\")";
  std::string all = "stream(" + std::to_string(devices) + ")";
  std::string rows = tensor(m, h, mesh + ", -"), columns = tensor(h, f, "-, " + mesh),
              gathered = tensor(m, h, all + ", -"), hidden = tensor(m, f, all + ", " + mesh);
  return "#tp = #tandem.mesh<\"tp\", [\"node\" = " + std::to_string(nodes) +
         ", \"gpu\" = " + std::to_string(gpus) + "]>\nfunc.func @f(%x: " + rows +
         ", %a: " + columns + ") -> " + hidden +
         " {\n  %g = fusion.reshard %x {schedule = #fusion.schedule<" + schedule + ">} : " + rows +
         " -> " + gathered + "\n  %h = fusion.matmul %g, %a : " + gathered + ", " + columns +
         " -> " + hidden + "\n  return %h : " + hidden + "\n}\n";
}

/// Seconds of a program, by all ranks and by one for each class of ranks.
struct ByClasses {
  double all = 0, classes = 0;
  uint32_t numClasses = 0; ///< 0: the ranks have none
};

/// None if the text does not compile.
std::optional<ByClasses> simulateBoth(const std::string &text, const std::string &machineFile,
                                      compiler::CompileOptions options = {}) {
  options.target = "cpu-local";
  options.output = compiler::Output::HostIR;
  options.reference = false;
  compiler::CompileResult lowered = compiler::compileText(text, options);
  if (!lowered)
    return std::nullopt;
  mlir::DialectRegistry registry;
  registerTandemDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(lowered.output, &context);
  auto program = *module->getOps<hostir::ProgramOp>().begin();
  auto machine = *machine::Machine::load(machineFile);
  auto translate = [&](UniformRanks *uniform) {
    StreamProgramOptions translation;
    translation.target = "cpu-local";
    translation.uniform = uniform;
    return *ProgramFile::fromMemory(
        *translateToStreamProgram(*module, program.getSymName(), translation));
  };
  ByClasses result;
  result.all = simulate::simulate(**replay::World::load(*translate(nullptr)), machine)->seconds;
  UniformRanks uniform;
  auto file = translate(&uniform);
  auto world = uniform.numRanks ? replay::World::loadClasses(*file, uniform, machine.devicesPerNode)
                                : Status(Code::Unsupported, "the ranks differ");
  if (!world)
    return result;
  EXPECT_TRUE((*world)->mismatches.empty());
  result.numClasses = (*world)->numRanks();
  result.classes = simulate::simulate(**world, machine)->seconds;
  return result;
}

TEST_F(PricerTest, OneRankStandsForItsClass) {
  struct Case {
    const char *schedule;
    int64_t nodes, gpus;
    uint32_t classes;
  };
  // Steps of a rotation leave the node for some ranks and not for others: what counts is the index
  // in the node. Those by xor leave it for all or none. A pipeline of slices broadcasts them.
  for (Case c : {Case{"exchange", 1, 8, 1}, Case{"exchange", 2, 8, 8}, Case{"exchange", 3, 8, 8},
                 Case{"push", 1, 8, 1}, Case{"push", 4, 4, 8}, Case{"push", 3, 8, 8},
                 Case{"push, streams = 2", 2, 8, 8}, Case{"push, order = xor", 2, 8, 1},
                 Case{"push, order = xor", 4, 8, 1}, Case{"pipeline", 2, 8, 0}}) {
    SCOPED_TRACE(std::string(c.schedule) + " on " + std::to_string(c.nodes) + " x " +
                 std::to_string(c.gpus));
    auto both =
        simulateBoth(pod(c.nodes, c.gpus, c.schedule), TANDEM_MACHINES "/dgx-h100-pod.json");
    ASSERT_TRUE(both);
    EXPECT_EQ(both->numClasses, c.classes);
    if (c.classes) {
      EXPECT_DOUBLE_EQ(both->classes, both->all);
    }
  }
}

/// All of test/Programs that compile for 8 ranks.
TEST_F(PricerTest, OneRankStandsForItsClassInWholePrograms) {
  unsigned withClasses = 0;
  for (const auto &entry : std::filesystem::directory_iterator(TANDEM_PROGRAMS)) {
    if (entry.path().extension() != ".mlir")
      continue;
    SCOPED_TRACE(entry.path().filename());
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    compiler::CompileOptions options;
    options.mesh = {{"x", 8}};
    auto both = simulateBoth(text.str(), kMachine, options);
    if (!both || !both->numClasses)
      continue;
    ++withClasses;
    EXPECT_DOUBLE_EQ(both->classes, both->all);
  }
  EXPECT_GE(withClasses, 12u);
}

/// A gather of `rows` rows of 4096 numbers around a ring in both directions.
std::string gatherAround(int64_t devices, int64_t rows, bool isSplit) {
  std::string shape = "tensor<" + std::to_string(rows) + "x4096xbf16, #fusion.axes<#tp, ";
  std::string from = shape + "[didx(\"x\"), -]>>",
              to = shape + "[stream(\"x\")" + (isSplit ? " * stream(2)" : "") + ", -]>>";
  return "#tp = #tandem.mesh<\"tp\", [\"x\" = " + std::to_string(devices) +
         "]>\nfunc.func @gather(%x: " + from + ") -> " + to +
         " {\n  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, " +
         (isSplit ? "split = \"yes\"" : "directions = 2") + ">} : " + from + " -> " + to +
         "\n  return %0 : " + to + "\n}\n";
}

TEST_F(PricerTest, WholeAndSplitRingsFollowTheAlphaBetaRule) {
  // Links between pairs of devices. Whole shards take ceil((P-1)/2) (a + b S), halves of them
  // (P-1) (a + b S/2): these win for even P and large shards only.
  for (auto [devices, rows, splitWins] :
       {std::tuple(8, 8 * 16, false), std::tuple(8, 8 * 65536, true), std::tuple(4, 4 * 16, false),
        std::tuple(4, 4 * 65536, true), std::tuple(7, 7 * 16, false),
        std::tuple(7, 7 * 65536, false)}) {
    auto pricer = makePricer("mi300x8", devices);
    ASSERT_TRUE(pricer) << error;
    auto whole = price(*pricer, gatherAround(devices, rows, false)),
         split = price(*pricer, gatherAround(devices, rows, true));
    ASSERT_TRUE(mlir::succeeded(whole) && mlir::succeeded(split));
    EXPECT_EQ(*split < *whole, splitWins)
        << devices << " devices, " << rows << " rows: " << *whole << " s, split " << *split;
  }
}

TEST_F(PricerTest, AGainMustExceedTheModelsError) {
  auto pricer = makePricer("h200x8");
  ASSERT_TRUE(pricer) << error;
  using program::Capability;
  program::CapabilitySet puts{Capability::OneSided}, messages;
  auto gains = [&](double seconds, double plain, bool oneSided, bool sliced) {
    return pricer->isWorth(seconds * 1e-6, plain * 1e-6, {oneSided ? puts : messages, sliced});
  };
  // Gathers by puts without SMs: in short loops 3 us.
  EXPECT_TRUE(pricer->isWorth(96.9e-6, 1e-4, {puts, /*isSliced=*/true, /*gathers=*/true}));
  EXPECT_FALSE(pricer->isWorth(97.1e-6, 1e-4, {puts, true, true}));
  EXPECT_FALSE(pricer->isWorth(96.9e-6, 1e-4, {messages, false, true}));
  // Puts by copy engines: 3 %, in short loops 5 us.
  EXPECT_TRUE(gains(969, 1000, true, true));
  EXPECT_FALSE(gains(971, 1000, true, true));
  EXPECT_TRUE(gains(94.9, 100, true, true));
  EXPECT_FALSE(gains(95.1, 100, true, true));
  EXPECT_FALSE(gains(6, 10, true, false));
  // Messages use SMs: 6 %, and for slices what the machine file says (20 %).
  EXPECT_TRUE(gains(939, 1000, false, false));
  EXPECT_FALSE(gains(941, 1000, false, false));
  EXPECT_TRUE(gains(799, 1000, false, true));
  EXPECT_FALSE(gains(801, 1000, false, true));
  // One kernel instead of a collective: 3 %, in short loops 1 us.
  auto kernelGains = [&](double seconds, double plain) {
    return pricer->isWorth(seconds * 1e-6, plain * 1e-6,
                           {{Capability::OneSided, Capability::BlockProtocol}});
  };
  EXPECT_TRUE(kernelGains(8.9, 10));
  EXPECT_FALSE(kernelGains(9.1, 10));
  EXPECT_TRUE(kernelGains(969, 1000));
  EXPECT_FALSE(kernelGains(971, 1000));
  // Pushes by SMs: never before somebody has measured them, then as slices that use SMs.
  auto pushGains = [&](double seconds) {
    return pricer->isWorth(
        seconds * 1e-6, 1e-3,
        {{Capability::OneSided, Capability::SimpleProtocol, Capability::StoresBesideCompute},
         /*isSliced=*/true,
         /*gathers=*/true});
  };
  EXPECT_FALSE(pushGains(1));
  std::ifstream shipped(TANDEM_MACHINES "/h200x8.json");
  std::string text{std::istreambuf_iterator<char>(shipped), {}};
  size_t field = text.find("\"block_memory\"");
  ASSERT_NE(field, std::string::npos);
  text.insert(field, "\"beside_compute\": [1, \"1\", \"exchange\"], ");
  std::string path =
      testing::TempDir() + "PricerTest.beside." + std::to_string(::getpid()) + ".json";
  std::ofstream(path) << text;
  pricer = makePricer(path);
  ASSERT_TRUE(pricer) << error;
  EXPECT_TRUE(pushGains(799));
  EXPECT_FALSE(pushGains(801));
}

TEST_F(PricerTest, MachineErrors) {
  EXPECT_FALSE(makePricer(kMachine, 9));
  EXPECT_NE(error.find("9"), std::string::npos) << error;
  EXPECT_FALSE(makePricer("nowhere"));
  EXPECT_NE(error.find("nowhere"), std::string::npos) << error;
}

} // namespace
