//===- tandem-compile.cpp - from a fusion to a stream program ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Compiler.h"
#include "tandem/Program/Files.h"
#include "tandem/Program/Printable.h"
#include "tandem/Program/Program.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace tandem;

namespace {

cl::OptionCategory category("tandem-compile");

cl::opt<std::string> input(cl::Positional, cl::desc("<program.mlir or, with --dump, .tsp>"),
                           cl::init("-"), cl::cat(category));
cl::opt<std::string> outputPath("o", cl::desc("file to write"), cl::value_desc("file"),
                                cl::init(""), cl::cat(category));

/// The flags of the options of one value.
struct Flags {
#define TANDEM_OPTION_LOWERING(type, member, name, value, description)                             \
  cl::opt<type> member{name, cl::desc(description), cl::init(value), cl::cat(category)};
#define TANDEM_OPTION_DRIVER TANDEM_OPTION_LOWERING
#define TANDEM_OPTION_LIBRARY(...)
#define TANDEM_OPTION(type, member, stage, ...) TANDEM_OPTION_##stage(type, member, __VA_ARGS__)
#include "tandem-c/CompileOptions.def"
} flags;

cl::list<std::string> mesh("mesh", cl::desc("sizes of mesh axes that are `?`"),
                           cl::value_desc("x=8,..."), cl::CommaSeparated, cl::cat(category));
cl::list<std::string> shape("shape", cl::desc("shapes of arguments that have `?` extents"),
                            cl::value_desc("arg0=8x64,..."), cl::CommaSeparated, cl::cat(category));
cl::opt<std::string> rank("rank",
                          cl::desc("rank to write or dump: a number, all, or (dump) reference"),
                          cl::init("all"), cl::cat(category));
cl::opt<bool> noReference("no-reference", cl::desc("leave the unsharded reference out of the file"),
                          cl::cat(category));
cl::list<std::string> disablePass("disable-pass", cl::desc("pass to skip"), cl::value_desc("name"),
                                  cl::CommaSeparated, cl::cat(category));
cl::opt<std::string> emit("emit", cl::desc("output: tsp (default) or hostir"), cl::init("tsp"),
                          cl::cat(category));
cl::opt<bool> dumpCode("kernels", cl::desc("with --dump: also the kernels' code"),
                       cl::cat(category));
cl::opt<bool> dump("dump",
                   cl::desc("print a stream program as text: a .tsp file, or the "
                            "compiled program"),
                   cl::cat(category));
cl::opt<bool> explainChoices(
    "explain",
    cl::desc("print how each loop is run, whether its communication is overlapped or why not, and "
             "the runners-up with their predicted times"),
    cl::cat(category));

/// Prints an error on stderr; returns the exit code.
int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "tandem-compile") << escapeControls(message.str()) << "\n";
  return 1;
}

/// "key=value".
bool split(llvm::StringRef text, llvm::StringRef &key, llvm::StringRef &value) {
  std::tie(key, value) = text.split('=');
  return !key.empty() && !value.empty();
}

int parseOptions(compiler::CompileOptions &options) {
#undef TANDEM_OPTION_LOWERING
#define TANDEM_OPTION_LOWERING(type, member, ...) options.member = flags.member;
#define TANDEM_OPTION(type, member, stage, ...) TANDEM_OPTION_##stage(type, member, __VA_ARGS__)
#include "tandem-c/CompileOptions.def"
  for (const std::string &text : mesh) {
    llvm::StringRef axis, size;
    int64_t number = 0;
    if (!split(text, axis, size) || size.getAsInteger(10, number) || number < 1)
      return fail("--mesh: expected axis=size, found \"" + text + "\"");
    options.mesh.emplace_back(axis.str(), number);
  }
  for (const std::string &text : shape) {
    llvm::StringRef argument, extents;
    std::vector<int64_t> numbers;
    bool valid = split(text, argument, extents);
    for (llvm::StringRef extent : llvm::split(extents, 'x')) {
      int64_t number = -1;
      if (extent != "?" || options.bound == 0)
        valid &= !extent.getAsInteger(10, number) && number >= 0;
      numbers.push_back(number);
    }
    if (!valid)
      return fail("--shape: expected argument=8x64x32, found \"" + text + "\"");
    options.shapes.emplace_back(argument.str(), numbers);
  }
  if (rank != "all") {
    uint32_t number = 0;
    if (llvm::StringRef(rank).getAsInteger(10, number))
      return fail("--rank: expected a number or all, found \"" + rank + "\"");
    options.rank = number;
  }
  if (emit != "tsp" && emit != "hostir")
    return fail("--emit: expected tsp or hostir, found \"" + emit + "\"");
  if (options.bound < 0)
    return fail("--bound: expected at least 1, found " + llvm::Twine(options.bound));
  if (noReference)
    options.reference = false;
  options.disabledPasses.assign(disablePass.begin(), disablePass.end());
  options.certify = rank == "all" && (options.check || explainChoices);
  options.output = emit == "hostir" ? compiler::Output::HostIR : compiler::Output::StreamProgram;
  return 0;
}

/// Writes the output: all of it, or nothing under that name.
int write(llvm::StringRef bytes) {
  llvm::StringRef path = outputPath.empty() ? "-" : llvm::StringRef(outputPath);
  if (path != "-") {
    Status written = writeFile(path.str(), {bytes.data(), bytes.size()});
    return written.ok() ? 0 : fail(written.message());
  }
  std::error_code error;
  llvm::raw_fd_ostream os(path, error, llvm::sys::fs::OF_None);
  if (!error) {
    os << bytes;
    os.flush();
    error = os.error();
    os.clear_error();
  }
  return error ? fail("cannot write to the standard output: " + error.message()) : 0;
}

int dumpFile(const Expected<std::shared_ptr<const ProgramFile>> &file) {
  if (!file)
    return fail(file.status().message());
  std::string text = dumpIndex(**file);
  auto add = [&](const Expected<std::shared_ptr<const Program>> &program) {
    if (!program)
      return fail(program.status().message());
    text += "\n" + dumpProgram(**program);
    if (dumpCode)
      text += "\n" + dumpKernels(**program);
    return 0;
  };
  uint32_t number = 0;
  if (rank == "reference") {
    if (add((*file)->reference()))
      return 1;
  } else if (rank != "all") {
    if (llvm::StringRef(rank).getAsInteger(10, number))
      return fail("--rank: expected a number, all or reference, found \"" + rank + "\"");
    if (add((*file)->rankProgram(number)))
      return 1;
  } else {
    for (number = 0; number < (*file)->numRanks(); ++number)
      if ((*file)->hasRank(number) && add((*file)->rankProgram(number)))
        return 1;
    if ((*file)->hasReference() && add((*file)->reference()))
      return 1;
  }
  return write(text);
}

bool isStreamProgram(const std::string &path) {
  if (!llvm::sys::fs::is_regular_file(path))
    return false;
  auto buffer = llvm::MemoryBuffer::getFileSlice(path, 8, 0);
  return buffer && (*buffer)->getBuffer() == "TANDEMSP";
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  std::signal(SIGXFSZ, SIG_IGN); // a write that fails is an error
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << compiler::version() << "\n"; });
  // LLVM keeps the name --stats for itself.
  std::vector<const char *> arguments(argv, argv + argc);
  for (const char *&argument : arguments) {
    if (llvm::StringRef(argument) == "--stats" || llvm::StringRef(argument) == "-stats")
      argument = "--statistics";
    if (*argument == '@' && isEndless(argument + 1)) // LLVM reads options from it
      return fail(std::string(argument) + ": cannot read: not a regular file");
  }
  cl::ParseCommandLineOptions(argc, arguments.data(),
                              "Tandem's compiler: fusions to stream programs\n");

  bool isText = llvm::StringRef(input).ends_with(".mlir");
  if (dump && !isText && input != "-")
    return dumpFile(ProgramFile::open(input));
  if (isStreamProgram(input))
    return fail("\"" + input + "\" is a stream program: print it with --dump");

  compiler::CompileOptions options;
  bool referenceOnly = dump && rank == "reference";
  if (referenceOnly)
    rank = "0";
  if (int code = parseOptions(options))
    return code;
  if (referenceOnly)
    rank = "reference";
  if (explainChoices && rank != "all")
    return fail("--explain needs all ranks, without --rank");
  if (!dump && !explainChoices && outputPath.empty() &&
      options.output == compiler::Output::StreamProgram)
    return fail("expected -o: where does the stream program go?");
  compiler::CompileResult result = compiler::compileFile(input, options);
  for (const compiler::Diagnostic &diagnostic : result.diagnostics)
    llvm::errs() << diagnostic.str() << "\n";
  if (!result && result.isUnproven)
    return fail("the program may not run as it should: nothing is written (--check=false writes it "
                "all the same)");
  if (!result)
    return 1;
  llvm::errs() << result.statistics;
  if (explainChoices && options.output == compiler::Output::StreamProgram)
    llvm::outs() << explain(result.certificate);
  if (explainChoices && outputPath.empty() && !dump)
    return 0;
  if (dump && options.output == compiler::Output::StreamProgram)
    return dumpFile(ProgramFile::fromMemory(result.output));
  return write(result.output);
}
