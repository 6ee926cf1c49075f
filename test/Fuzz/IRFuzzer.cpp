//===- IRFuzzer.cpp - any text as a module to compile -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Compiler.h"
#include "tandem/Compiler/CompilerMLIR.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "tandem/Program/Program.h"
#include "tandem/Replay/Check.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

using namespace mlir;
using namespace tandem;

namespace {

// Small programs only: the compiler's work grows with these.
constexpr size_t kMostBytes = 8192;
constexpr unsigned kMostNesting = 48;
constexpr int64_t kMostNumber = 4096, kMostElements = 1 << 16, kMostRank = 6, kMostDevices = 8;
constexpr uint64_t kMostCommands = 1 << 12;

/// Whether the brackets are nested little and the numbers are small, before anything is parsed.
bool isSmallText(StringRef text) {
  if (text.empty() || text.size() > kMostBytes)
    return false;
  unsigned depth = 0;
  int64_t number = 0;
  for (char c : text) {
    if (StringRef("([{<").contains(c) && ++depth > kMostNesting)
      return false;
    if (StringRef(")]}>").contains(c) && depth > 0)
      --depth;
    number = c >= '0' && c <= '9' ? number * 10 + (c - '0') : 0;
    if (number > kMostNumber)
      return false;
  }
  return true;
}

/// What the first line says: `// fuzz: 1 3 16 0`. The target, devices of each axis of size `?`,
/// extents that are `?`, and bits: 1 the baseline, 2 deterministic, 4 varying extents.
struct Choices {
  unsigned target = 0, devices = 2, extent = 8, flags = 0;
  explicit Choices(const std::string &text) {
    std::istringstream line(text.substr(0, text.find('\n')));
    std::string comment, word;
    if (line >> comment >> word && comment == "//" && word == "fuzz:")
      line >> target >> devices >> extent >> flags;
  }
};

using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

/// What there is to compile.
struct Survey {
  std::vector<std::pair<std::string, Shapes>> entries; ///< with shapes for what is `?`
  std::vector<std::pair<std::string, int64_t>> mesh;
  bool isSmall = true, isLowered = false;

  Survey(ModuleOp module, const Choices &choices) {
    for (Operation &op : *module.getBody()) {
      if (auto func = dyn_cast<func::FuncOp>(op); func && !func.isDeclaration())
        entries.emplace_back(func.getName().str(), shapesOf(func, choices));
      else if (auto name = SymbolTable::getSymbolName(&op);
               name && op.getName().getStringRef() == "hostir.program")
        entries.emplace_back(name.str(), Shapes());
    }
    AttrTypeWalker walker;
    walker.addWalk([&](ShapedType type) {
      isSmall = isSmall && type.hasRank() && type.getRank() <= kMostRank;
      int64_t elements = 1;
      for (int64_t extent : isSmall ? type.getShape() : ArrayRef<int64_t>())
        elements *= ShapedType::isDynamic(extent) ? choices.extent : extent;
      isSmall = isSmall && elements <= kMostElements;
    });
    walker.addWalk([&](MeshAttr attr) {
      int64_t devices = 1;
      for (const MeshAxis &axis : attr.getAxes()) {
        bool isOpen = ShapedType::isDynamic(axis.size);
        if (isOpen)
          mesh.emplace_back((attr.getName().getValue() + "." + axis.name.getValue()).str(),
                            choices.devices);
        devices *= isOpen ? int64_t(choices.devices) : axis.size;
        isSmall = isSmall && devices <= kMostDevices;
      }
      for (int64_t device : attr.getDevices())
        isSmall = isSmall && device < kMostDevices;
    });
    module.walk([&](Operation *op) {
      isLowered = isLowered || op->getName().getDialectNamespace() == "hostir";
      walker.walk(op->getAttrDictionary());
      for (Type type : op->getOperandTypes())
        walker.walk(type);
      for (Type type : op->getResultTypes())
        walker.walk(type);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Type type : block.getArgumentTypes())
            walker.walk(type);
    });
  }

private:
  static Shapes shapesOf(func::FuncOp func, const Choices &choices) {
    Shapes shapes;
    for (auto [i, type] : llvm::enumerate(func.getArgumentTypes()))
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && !tensor.hasStaticShape() &&
                                                          !func.getArgAttr(i, "fusion.shape") &&
                                                          !(choices.flags & 4)) {
        std::vector<int64_t> shape = tensor.getShape().vec();
        std::replace(shape.begin(), shape.end(), ShapedType::kDynamic, int64_t(choices.extent));
        shapes.emplace_back("arg" + std::to_string(i), std::move(shape));
      }
    return shapes;
  }
};

[[noreturn]] void fail(const std::string &entry, const std::string &what) {
  std::fprintf(stderr, "@%s: %s\n", entry.c_str(), what.c_str());
  std::abort();
}

/// A compiled program can be read, and neither hangs, races nor computes anything else.
void examine(const std::string &entry, const std::string &bytes) {
  auto file = ProgramFile::fromMemory(bytes);
  if (!file)
    fail(entry, file.status().message());
  auto world = replay::World::load(**file);
  if (!world)
    fail(entry, world.status().message());
  check::CheckOptions options;
  options.dataSteps = 20000;
  options.threads = 1;
  check::Report report = check::check(**world, options);
  if (report.hasErrors())
    fail(entry, check::toText(**world, report));
}

void compile(const std::string &text, const std::string &entry, const Shapes &shapes,
             const Survey &survey, const Choices &choices) {
  compiler::CompileOptions options;
  options.entry = entry;
  options.shapes = shapes;
  options.mesh = survey.mesh;
  std::vector<std::string> targets = compiler::targetNames();
  options.target = targets[choices.target % targets.size()];
  options.baseline = choices.flags & 1;
  options.deterministic = choices.flags & 2 ? "bitwise" : "";
  options.bound = choices.flags & 4 ? choices.extent : 0;
  options.maxCommands = kMostCommands;
  compiler::CompileResult result = compiler::compileText(text, options);
  if (!result.ok && result.errorText().empty())
    fail(entry, "fails without an error");
  if (result.ok && !survey.isLowered)
    examine(entry, result.output);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  if (!isSmallText(text))
    return 0;
  Choices choices(text);
  if (choices.devices == 0 || choices.devices > kMostDevices || choices.extent > 64)
    return 0;
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  compiler::CompileResult parsed;
  OwningOpRef<ModuleOp> module = compiler::parseModule(context, text, "fuzz", parsed);
  if (!module)
    return 0;
  Survey survey(*module, choices);
  module = nullptr;
  if (!survey.isSmall)
    return 0;
  for (size_t i = 0; i < std::min<size_t>(survey.entries.size(), 4); ++i)
    compile(text, survey.entries[i].first, survey.entries[i].second, survey, choices);
  return 0;
}
