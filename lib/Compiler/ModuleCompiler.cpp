//===- ModuleCompiler.cpp - one module, many sizes --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/ModuleCompiler.h"

#include "DiskCache.h"
#include "ProgramCache.h"
#include "tandem/Compiler/CompilerMLIR.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Replay/Machine.h"

#include "tandem/Program/Files.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <atomic>

using namespace mlir;

namespace tandem::compiler {

namespace {

/// A context with its module, for one thread at a time.
struct Workbench {
  Workbench(const DialectRegistry &registry, StringRef text, StringRef name, CompileResult &result)
      : context(registry, MLIRContext::Threading::DISABLED) {
    context.printOpOnDiagnostic(false);
    module = parseModule(context, text, name, result);
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  unsigned compiles = 0;
};

/// Contexts never free types and attributes, so they are replaced after this many compiles.
constexpr unsigned kCompilesPerWorkbench = 64;

/// The contents of a file that decides choices, so that an edited file gives another key.
std::string contentsOf(const std::string &path) {
  if (path.empty())
    return "";
  auto text = readWhole(path); // an error is reported when it is used
  return path + "\n" + (text ? *text : "");
}

std::string machineOf(const std::string &name) {
  std::string key;
  if (!name.empty())
    if (auto files = machine::readMachine(machine::pathOf(name)))
      for (const machine::MachineFile &file : *files)
        key.append(file.path).append("\n").append(file.text);
  return key;
}

/// Equal for options that lead to the same program.
std::string keyOf(const CompileOptions &options) {
  std::string key;
  auto add = [&](const auto &value) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      key += std::to_string(value) + ",";
    } else { // names are arbitrary: their lengths keep keys unique
      std::string_view text = value;
      key += std::to_string(text.size()) + ":";
      key += text;
    }
  };
#define TANDEM_OPTION(type, member, ...) add(options.member);
#include "tandem-c/CompileOptions.def"
  add(contentsOf(options.tuned));
  add(machineOf(options.machine));
  std::vector<std::string> parts;
  auto list = [&] {
    std::sort(parts.begin(), parts.end());
    add(parts.size());
    for (const std::string &part : parts)
      add(part);
    parts.clear();
  };
  for (const auto &[axis, size] : options.mesh)
    parts.push_back(axis + "=" + std::to_string(size));
  list();
  add(options.devices.size());
  for (int64_t device : options.devices)
    add(device);
  for (const auto &[argument, shape] : options.shapes) {
    std::string part = argument + "=";
    for (int64_t extent : shape)
      part += std::to_string(extent) + "x";
    parts.push_back(std::move(part));
  }
  list();
  parts = options.disabledPasses;
  list();
  add(options.choices.size());
  for (const auto &[loop, candidate] : options.choices) {
    add(loop);
    add(candidate);
  }
  add(options.among.size());
  for (const std::vector<std::string> &candidates : options.among) {
    add(candidates.size());
    for (const std::string &candidate : candidates)
      add(candidate);
  }
  add(options.rank ? uint64_t(*options.rank) + 1 : 0);
  add(static_cast<uint64_t>(options.output));
  return key;
}

} // namespace

class ModuleCompiler::Implementation {
public:
  Implementation(std::string_view text, CompilerSettings settings)
      : text(text), settings(std::move(settings)), programs(this->settings.limits),
        disk(this->settings.directory, text) {
    tandem::registerTandemDialects(registry);
    CompileResult parsed;
    giveBack(makeWorkbench(parsed));
  }

  CompileResult compile(const CompileOptions &options) {
    CompileResult result;
    std::unique_ptr<Workbench> workbench = take(result);
    if (!workbench->module)
      return result;
    result = compileModule(*workbench->module, options);
    giveBack(std::move(workbench));
    return result;
  }

  CompileResult findOrCompile(const std::string &key, const CompileOptions &options) {
    CompileResult result = disk.load(key);
    if (result.ok) {
      ++fromDisk;
      return result;
    }
    ++compiled;
    result = compile(options);
    disk.store(key, result);
    return result;
  }

private:
  std::unique_ptr<Workbench> makeWorkbench(CompileResult &result) {
    return std::make_unique<Workbench>(registry, text, settings.name, result);
  }

  std::unique_ptr<Workbench> take(CompileResult &result) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<Workbench> workbench = std::move(idle.back());
        idle.pop_back();
        return workbench;
      }
    }
    return makeWorkbench(result);
  }

  void giveBack(std::unique_ptr<Workbench> workbench) {
    if (!workbench->module || ++workbench->compiles > kCompilesPerWorkbench)
      return;
    std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(workbench));
  }

  const std::string text;
  const CompilerSettings settings;
  DialectRegistry registry;
  std::mutex mutex;
  /// One per concurrent compile so far.
  std::vector<std::unique_ptr<Workbench>> idle;

public:
  ProgramCache programs;
  const DiskCache disk;
  std::atomic<uint64_t> compiled{0}, fromDisk{0}, bypassed{0};
};

ModuleCompiler::ModuleCompiler(std::string_view text, CompilerSettings settings)
    : implementation(std::make_unique<Implementation>(text, std::move(settings))) {}

ModuleCompiler::~ModuleCompiler() = default;

std::shared_ptr<const CompileResult> ModuleCompiler::compile(const CompileOptions &options) {
  if (options.log || options.statistics || !options.snapshotDirectory.empty()) {
    ++implementation->bypassed;
    return std::make_shared<const CompileResult>(implementation->compile(options));
  }
  std::string key = keyOf(options);
  return implementation->programs.get(key,
                                      [&] { return implementation->findOrCompile(key, options); });
}

CacheStatistics ModuleCompiler::statistics() const {
  CacheStatistics result = implementation->programs.statistics();
  result.compiled = implementation->compiled;
  result.fromDisk = implementation->fromDisk;
  result.bypassed = implementation->bypassed;
  return result;
}

void ModuleCompiler::clear() { implementation->programs.clear(); }

} // namespace tandem::compiler
