//===- Compiler.cpp - the compiler as a library -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/CompilerMLIR.h"

#include "tandem-c/Version.h"

#include "PassStatistics.h"
#include "tandem/Compiler/Certify.h"
#include "tandem/Compiler/Pipelines.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Program/Files.h"
#include "tandem/Program/Printable.h"
#include "tandem/Program/Program.h"
#include "tandem/Replay/Tuned.h"
#include "tandem/Support/Explained.h"
#include "tandem/Support/SourcePosition.h"
#include "tandem/Target/StreamProgram/StreamProgram.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tandem;

namespace tandem::compiler {

namespace {

Diagnostic convert(mlir::Diagnostic &from) {
  Diagnostic to;
  switch (from.getSeverity()) {
  case DiagnosticSeverity::Error:
    to.severity = Severity::Error;
    break;
  case DiagnosticSeverity::Warning:
    to.severity = Severity::Warning;
    break;
  case DiagnosticSeverity::Remark:
    to.severity = Severity::Remark;
    break;
  case DiagnosticSeverity::Note:
    to.severity = Severity::Note;
    break;
  }
  to.message = from.str();
  if (FileLineColLoc position = getSourcePosition(from.getLocation())) {
    to.file = position.getFilename().str();
    to.line = position.getLine();
    to.column = position.getColumn();
  }
  for (mlir::Diagnostic &note : from.getNotes()) {
    // The text of a whole operation helps only the compiler's authors.
    if (StringRef(note.str()).starts_with("see current operation"))
      continue;
    to.notes.push_back(convert(note));
  }
  return to;
}

/// One compilation of a separate module.
class Compilation {
public:
  Compilation(ModuleOp module, const CompileOptions &options, CompileResult &result)
      : module(module), options(options), result(result) {}

  LogicalResult run();

private:
  LogicalResult findEntry();
  LogicalResult lower();
  LogicalResult readTuned(TandemLowerOptions &lowering);
  LogicalResult translate();
  LogicalResult verify();
  LogicalResult addCertificate();
  bool proves() const {
    return options.check && !options.rank && options.output == Output::StreamProgram;
  }
  std::string compileBaseline(bool onOneDevice);
  void compileAlternatives(ModuleOp source);

  ModuleOp module;
  const CompileOptions &options;
  CompileResult &result;
  std::string entry;
  bool isLowered = false, isDeterministic = false, isSameOnAllMeshes = false;
  std::string withReference; ///< the file with the reference, unless `result.output` has it
};

bool isCandidate(Operation &op) {
  if (auto func = dyn_cast<func::FuncOp>(op))
    return !func.isDeclaration();
  return isa<hostir::ProgramOp>(op);
}

StringRef nameOf(Operation &op) { return SymbolTable::getSymbolName(&op).getValue(); }

LogicalResult Compilation::findEntry() {
  StringRef wanted = options.entry;
  wanted.consume_front("@");
  SmallVector<Operation *> candidates;
  for (Operation &op : *module.getBody())
    if (isCandidate(op) && (!wanted.empty() ? nameOf(op) == wanted
                                            : SymbolTable::getSymbolVisibility(&op) ==
                                                  SymbolTable::Visibility::Public))
      candidates.push_back(&op);
  // Unsharded references are not entries by default.
  if (wanted.empty())
    llvm::erase_if(candidates, [](Operation *op) {
      auto program = dyn_cast<hostir::ProgramOp>(op);
      return program && program.getReferenceOf();
    });
  if (candidates.size() != 1) {
    InFlightDiagnostic diag =
        wanted.empty() ? emitError(candidates.empty() ? module.getLoc() : candidates[1]->getLoc())
                       : emitError(module.getLoc());
    if (!wanted.empty())
      diag << "no function @" << wanted;
    else if (candidates.empty())
      diag << "no public function to compile";
    else
      diag << "several public functions: name one as the entry";
    for (Operation &op : *module.getBody())
      if (isCandidate(op))
        diag.attachNote(op.getLoc()) << "found @" << nameOf(op);
    return diag;
  }
  entry = nameOf(*candidates[0]).str();
  isLowered = isa<hostir::ProgramOp>(candidates[0]);
  auto written = candidates[0]->getAttrOfType<StringAttr>(fusion::kDeterministicAttrName);
  isDeterministic = !options.deterministic.empty() || written;
  isSameOnAllMeshes = (options.deterministic.empty() && written
                           ? written.strref()
                           : StringRef(options.deterministic)) == fusion::kSameOnAllMeshes;
  return success();
}

LogicalResult Compilation::readTuned(TandemLowerOptions &lowering) {
  if (options.tuned.empty())
    return success();
  auto fail = [&](const Twine &message) {
    return module.emitError() << "measured choices: " << options.tuned << ": " << message;
  };
  Expected<std::string> text = readWhole(options.tuned);
  if (!text)
    return fail("cannot read: " + text.status().message());
  Expected<machine::TunedChoices> known = machine::TunedChoices::parse(*text);
  if (!known)
    return fail(known.status().message());
  if (known->target != options.target)
    return fail("was measured for target " + Twine(known->target) + ", this is " + options.target);
  for (const machine::TunedChoices::Loop &loop : known->loops)
    lowering.choices.push_back((Twine(loop.signature) + "=" + loop.what).str());
  return success();
}

LogicalResult Compilation::lower() {
  // Other functions are ignored, with their errors and compile time.
  for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (!func.isDeclaration() && func.getSymName() != entry)
      func.erase();
  TandemLowerOptions lowering;
#define TANDEM_OPTION_LOWERING(member) lowering.member = options.member;
#define TANDEM_OPTION_DRIVER(member)
#define TANDEM_OPTION_LIBRARY(member)
#define TANDEM_OPTION(type, member, stage, ...) TANDEM_OPTION_##stage(member)
#include "tandem-c/CompileOptions.def"
#undef TANDEM_OPTION_LOWERING
#undef TANDEM_OPTION_DRIVER
#undef TANDEM_OPTION_LIBRARY
  lowering.entry = entry;
  lowering.workers = options.baseline ? 1 : options.workers;
  lowering.reference = options.reference || proves();
  for (const auto &[axis, size] : options.mesh)
    lowering.mesh.push_back(axis + "=" + std::to_string(size));
  for (int64_t device : options.devices)
    lowering.devices.push_back(device);
  for (const auto &[argument, shape] : options.shapes)
    lowering.shape.push_back(argument + "=" +
                             llvm::join(llvm::map_range(shape,
                                                        [](int64_t extent) {
                                                          return extent < 0
                                                                     ? "?"
                                                                     : std::to_string(extent);
                                                        }),
                                        "x"));
  for (const auto &[loop, candidate] : options.choices)
    lowering.choices.push_back((Twine(loop) + "=" + candidate).str());
  if (failed(readTuned(lowering)))
    return failure();
  for (auto [loop, candidates] : llvm::enumerate(options.among))
    for (const std::string &candidate : candidates)
      lowering.among.push_back(
          (Twine(loop) + "/" + Twine(options.among.size()) + "=" + candidate).str());
  for (const std::string &pass : options.disabledPasses)
    lowering.disable.push_back(pass);
  PassManager manager(module.getContext());
  auto error = [&](const Twine &message) { return LogicalResult(module.emitError(message)); };
  if (failed(buildTandemLowerPipeline(manager, lowering, error)))
    return failure();
  PassStatistics statistics;
  if (options.statistics)
    statistics.attach(manager);
  LogicalResult lowered = manager.run(module);
  if (options.statistics)
    result.statistics += statistics.str();
  return lowered;
}

/// A candidate's schedule and slices: the key of measured choices.
static std::string getText(Attribute candidate) {
  auto known = dyn_cast<fusion::CandidateAttr>(candidate);
  return known ? known.str() : "";
}

/// How the loops of a lowered program are run.
static std::vector<Certificate::Loop> getLoops(hostir::ProgramOp program) {
  std::vector<Certificate::Loop> loops;
  if (!program || !program.getChoices())
    return loops;
  for (ChoiceAttr choice : program.getChoices()->getAsRange<ChoiceAttr>()) {
    Certificate::Loop &loop = loops.emplace_back();
    loop.reshards = choice.getReshards().str();
    for (StringAttr location : choice.getLocations().getAsRange<StringAttr>())
      loop.locations.push_back(location.str());
    loop.what = getText(choice.getWhat());
    loop.source = choice.getSource().str();
    if (choice.getLoop())
      loop.signature = choice.getLoop().str();
    for (PricedCandidateAttr candidate : choice.getCandidates())
      loop.candidates.push_back({getText(candidate.getWhat()), candidate.getNanoseconds() * 1e-9});
  }
  return loops;
}

LogicalResult Compilation::translate() {
  StreamProgramOptions translation;
  translation.target = options.target;
  translation.rank = options.rank;
  translation.numRanks = options.numRanks;
  translation.producer = version();
  translation.withReference = options.reference;
  if (!options.reference && proves())
    translation.withReferenceToo = &withReference;
  translation.maxCommands = options.maxCommands;
  StreamProgramStats stats;
  FailureOr<std::string> program = translateToStreamProgram(module, entry, translation, &stats);
  if (failed(program))
    return failure();
  result.output = std::move(*program);
  result.numRanks = stats.numRanks;
  result.numCommands = stats.commands;
  result.numMessages = stats.messages;
  result.loops = getLoops(module.lookupSymbol<hostir::ProgramOp>(entry));
  if (options.statistics)
    llvm::raw_string_ostream(result.statistics)
        << "translate-to-stream-program\n  " << stats.ranks << " ranks\n  " << stats.commands
        << " commands\n  " << stats.messages << " messages\n  " << stats.droppedSyncs
        << " dropped-syncs\n  " << stats.bytes << " bytes\n";
  return success();
}

LogicalResult Compilation::verify() {
  if (!options.verifyOutput)
    return success();
  auto fail = [&](const tandem::Status &status) {
    Operation *program = SymbolTable::lookupSymbolIn(module, entry);
    return emitError(program ? program->getLoc() : module.getLoc())
           << "the stream program is invalid: " << status.message();
  };
  auto file = tandem::ProgramFile::fromMemory(result.output);
  if (!file)
    return fail(file.status());
  for (uint32_t rank = 0; rank < result.numRanks; ++rank)
    if ((*file)->hasRank(rank))
      if (auto program = (*file)->rankProgram(rank); !program)
        return fail(program.status());
  if ((*file)->hasReference())
    if (auto reference = (*file)->reference(); !reference)
      return fail(reference.status()) << "; leave the reference out (--no-reference)";
  return success();
}

/// What this compilation compiles besides is for comparison only.
static CompileOptions forComparison(const CompileOptions &options) {
  CompileOptions plain = options;
  plain.check = plain.withBaseline = plain.certify = plain.log = plain.statistics =
      plain.verifyOutput = false;
  plain.snapshotDirectory.clear();
  plain.output = Output::StreamProgram;
  return plain;
}

/// The module on meshes of one device.
static void putOnOneDevice(ModuleOp module) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](MeshAttr mesh) {
    SmallVector<MeshAxis> axes(mesh.getAxes());
    for (MeshAxis &axis : axes)
      axis.size = 1;
    return MeshAttr::get(mesh.getContext(), mesh.getName(), axes, {});
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

/// A module that cannot be compiled says so when it is compiled with its schedules.
/// `onOneDevice`: instead of on its meshes.
std::string Compilation::compileBaseline(bool onOneDevice) {
  CompileOptions plain = forComparison(options);
  plain.baseline = true;
  plain.machine.clear();
  plain.tuned.clear();
  plain.choices.clear();
  plain.among.clear();
  if (plain.gather == "cost")
    plain.gather.clear();
  CompileResult compiled;
  OwningOpRef<ModuleOp> copy(module.clone());
  if (onOneDevice) {
    putOnOneDevice(*copy);
    plain.mesh.clear();
    plain.devices.clear();
    plain.numRanks = 0;
  }
  if (runTrial(*copy, [&] { return Compilation(*copy, plain, compiled).run(); }))
    return {};
  return std::move(compiled.output);
}

/// The program with the next best candidates, each for one loop.
void Compilation::compileAlternatives(ModuleOp source) {
  struct Other {
    const Certificate::Loop *loop;
    const Certificate::Candidate *candidate;
    double loss; ///< s, by the loop alone
  };
  std::vector<Other> others;
  for (const Certificate::Loop &loop : result.loops)
    for (const Certificate::Candidate &candidate : loop.candidates)
      if (&candidate != &loop.candidates.front() && candidate.seconds > 0 &&
          llvm::none_of(others, [&](const Other &other) {
            return other.loop->signature == loop.signature &&
                   other.candidate->what == candidate.what;
          }))
        others.push_back({&loop, &candidate, candidate.seconds - loop.candidates.front().seconds});
  llvm::sort(others, [](const Other &a, const Other &b) {
    return a.loss != b.loss ? a.loss < b.loss : a.candidate->what < b.candidate->what;
  });
  constexpr size_t most = 3;
  for (const Other &other : ArrayRef(others).take_front(most)) {
    CompileOptions plain = forComparison(options);
    plain.choices.insert(plain.choices.begin(), {other.loop->signature, other.candidate->what});
    CompileResult compiled;
    OwningOpRef<ModuleOp> copy(source.clone());
    if (runTrial(*copy, [&] { return Compilation(*copy, plain, compiled).run(); }))
      continue;
    std::string what = other.candidate->what + " for " + other.loop->reshards;
    if (!other.loop->locations.empty() && !other.loop->locations.front().empty())
      what += " at " + llvm::join(other.loop->locations, " ");
    result.alternatives.emplace_back(std::move(what), std::move(compiled.output));
  }
}

LogicalResult Compilation::addCertificate() {
  if (options.rank && options.certify)
    return module.emitError("a certificate is of all ranks: rank ")
           << *options.rank << " alone has none";
  Expected<Certificate> certificate =
      certify(result, options, withReference.empty() ? result.output : withReference);
  Expected<std::string> certified = certificate ? withCertificate(result.output, *certificate)
                                                : Expected<std::string>(certificate.status());
  result.isUnproven = certified.status().code() == Code::InvalidProgram;
  if (!certified)
    return emitError(module.lookupSymbol(entry)->getLoc())
           << (result.isUnproven ? "the stream program is not proven: "
                                 : "the stream program has no certificate: ")
           << certified.status().message();
  result.output = std::move(*certified);
  result.certificate = std::move(*certificate);
  return success();
}

LogicalResult Compilation::run() {
  if (options.numRanks > kMaxRanks)
    return module.emitError() << "expected at most " << kMaxRanks << " ranks of the world, found "
                              << options.numRanks;
  if (!lookupTarget(options.target))
    return module.emitError(unknownTargetMessage(options.target));
  if (failed(findEntry()))
    return failure();
  bool compares = !isLowered && !options.baseline && (options.withBaseline || options.certify);
  bool comparesBits = !isLowered && !options.baseline && isDeterministic && proves();
  OwningOpRef<ModuleOp> source;
  if (compares || comparesBits)
    result.baseline = compileBaseline(/*onOneDevice=*/false);
  if (comparesBits && isSameOnAllMeshes)
    result.onOneDevice = compileBaseline(/*onOneDevice=*/true);
  if (compares && !options.machine.empty())
    source = module.clone();
  if (!isLowered && failed(lower()))
    return failure();
  if (options.output == Output::HostIR) {
    llvm::raw_string_ostream(result.output) << module << "\n";
    return success();
  }
  if (failed(translate()) || failed(verify()))
    return failure();
  if (source)
    compileAlternatives(*source);
  return addCertificate();
}

/// Runs `compile` and collects this thread's diagnostics in `result`.
template <typename Function>
void capturing(MLIRContext &context, CompileResult &result, Function compile) {
  uint64_t thread = llvm::get_threadid();
  ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (llvm::get_threadid() != thread)
      return failure();
    Diagnostic made = convert(diagnostic);
    // The function and its unsharded reference contain the same op: report one error.
    bool isKnown = made.severity != Severity::Remark &&
                   llvm::any_of(result.diagnostics,
                                [&](const Diagnostic &other) { return other.str() == made.str(); });
    if (!isKnown)
      result.diagnostics.push_back(std::move(made));
    return success();
  });
  result.ok = succeeded(compile());
  if (result.ok)
    return;
  result.output.clear();
  bool explained = llvm::any_of(result.diagnostics,
                                [](const Diagnostic &d) { return d.severity == Severity::Error; });
  if (!explained)
    result.diagnostics.push_back(
        {Severity::Error, "compilation failed without a diagnostic", "", 0, 0, {}});
}

OwningOpRef<ModuleOp> parseBuffer(MLIRContext &context, std::unique_ptr<llvm::MemoryBuffer> buffer,
                                  CompileResult &result) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  OwningOpRef<ModuleOp> module;
  capturing(context, result, [&] {
    module = parseSourceFile<ModuleOp>(sources, &context);
    return success(static_cast<bool>(module));
  });
  return module;
}

CompileResult compileBuffer(std::unique_ptr<llvm::MemoryBuffer> buffer,
                            const CompileOptions &options) {
  CompileResult result;
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false); // would print whole programs with every error
  OwningOpRef<ModuleOp> module = parseBuffer(context, std::move(buffer), result);
  if (module)
    capturing(context, result, [&] { return Compilation(*module, options, result).run(); });
  return result;
}

} // namespace

OwningOpRef<ModuleOp> parseModule(MLIRContext &context, StringRef text, StringRef name,
                                  CompileResult &result) {
  return parseBuffer(context, llvm::MemoryBuffer::getMemBufferCopy(text, name), result);
}

CompileResult compileModule(ModuleOp module, const CompileOptions &options) {
  CompileResult result;
  MLIRContext &context = *module.getContext();
  DialectRegistry registry;
  registerTandemDialects(registry);
  context.appendDialectRegistry(registry);
  capturing(context, result, [&] {
    OwningOpRef<ModuleOp> copy(module.clone());
    return Compilation(*copy, options, result).run();
  });
  return result;
}

CompileResult compileText(std::string_view text, const CompileOptions &options,
                          const std::string &name) {
  return compileBuffer(llvm::MemoryBuffer::getMemBufferCopy(StringRef(text), name), options);
}

CompileResult compileFile(const std::string &path, const CompileOptions &options) {
  bool isInput = path == "-";
  std::string name = isInput ? "<stdin>" : path;
  Expected<std::string> text = isInput ? readStandardInput() : readWhole(path);
  if (text)
    return compileText(*text, options, name);
  CompileResult result;
  result.diagnostics.push_back(
      {Severity::Error, "cannot read: " + text.status().message(), name, 0, 0, {}});
  return result;
}

std::string Diagnostic::str() const {
  static constexpr StringLiteral names[] = {"error", "warning", "remark", "note"};
  std::string text = file;
  if (line)
    text += ":" + std::to_string(line) + ":" + std::to_string(column);
  if (!text.empty())
    text += ": ";
  text += names[static_cast<unsigned>(severity)].str() + ": " + message;
  text = escapeControls(text);
  for (const Diagnostic &note : notes)
    text += "\n" + note.str();
  return text;
}

std::string CompileResult::errorText() const {
  std::string text;
  for (const Diagnostic &diagnostic : diagnostics)
    if (diagnostic.severity == Severity::Error)
      text += (text.empty() ? "" : "\n") + diagnostic.str();
  return text;
}

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const TargetInfo &target : knownTargets())
    names.push_back(target.name.str());
  return names;
}

std::vector<std::string> passNames() {
  std::vector<std::string> names;
  for (StringRef name : getTandemLowerPassNames())
    names.push_back(name.str());
  return names;
}

std::string version() { return "tandem " TANDEM_VERSION_STRING; }

} // namespace tandem::compiler
