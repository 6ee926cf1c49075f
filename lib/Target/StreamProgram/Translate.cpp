//===- Translate.cpp - from host programs to stream programs ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Printable.h"
#include "tandem/Target/StreamProgram/StreamProgram.h"

#include "Arguments.h"
#include "Evaluator.h"
#include "UniformWalk.h"
#include "tandem/Program/Container.h"

#include <xxhash.h>

using namespace mlir;

namespace tandem {

using namespace target;

namespace {

class Translation {
public:
  Translation(ModuleOp module, StringRef entry, const StreamProgramOptions &options,
              StreamProgramStats &stats)
      : module(module), entry(entry), options(options), stats(stats) {}

  FailureOr<std::string> run();

private:
  LogicalResult findPrograms();
  LogicalResult checkTarget(const Code &code);
  LogicalResult writeRanks();
  LogicalResult writeRank(Evaluator &evaluator, uint32_t rank);
  LogicalResult writeReference();
  /// Index.id.
  uint64_t programId();
  void writeIndex();
  /// Failure if the ranks, of which one takes `bytes`, do not fit in the file.
  LogicalResult verifySize(uint64_t bytes);
  /// Appends a blob at the next aligned offset.
  sp::Blob append(ArrayRef<uint8_t> bytes);

  ModuleOp module;
  StringRef entry;
  const StreamProgramOptions &options;
  StreamProgramStats &stats;
  hostir::ProgramOp program, reference;
  std::unique_ptr<Code> code;
  std::vector<ArgumentInfo> arguments;
  std::vector<sp::Blob> ranks;
  sp::Blob referenceBlob{0, 0, 0};
  uint32_t capabilities = 0;
  std::string file;
};

LogicalResult Translation::findPrograms() {
  program = module.lookupSymbol<hostir::ProgramOp>(entry);
  if (!program) {
    InFlightDiagnostic diag = module.emitError("no hostir.program @") << entry;
    for (auto other : module.getOps<hostir::ProgramOp>())
      diag.attachNote(other.getLoc()) << "found @" << other.getSymName();
    return diag;
  }
  for (auto other : module.getOps<hostir::ProgramOp>()) {
    if (other.getReferenceOf() != entry)
      continue;
    if (reference)
      return other.emitOpError("a second unsharded reference of @") << entry;
    reference = other;
  }
  return success();
}

LogicalResult Translation::checkTarget(const Code &code) {
  const TargetInfo *target = lookupTarget(options.target);
  if (!target)
    return module.emitError(unknownTargetMessage(options.target));
  for (const ChannelInfo &channel : code.channels) {
    capabilities |= channel.required;
    if (uint32_t missing = channel.required & ~target->capabilities)
      return program.emitOpError("channel \"")
             << channel.name << "\" needs " << capabilityNames(missing) << ", which target "
             << target->name << " does not have (it has " << capabilityNames(target->capabilities)
             << ")";
  }
  return success();
}

sp::Blob Translation::append(ArrayRef<uint8_t> bytes) {
  file.resize(llvm::alignTo(file.size(), tandem::sp::kAlignment));
  sp::Blob blob(file.size(), bytes.size(), XXH3_64bits(bytes.data(), bytes.size()));
  file.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  return blob;
}

LogicalResult Translation::verifySize(uint64_t bytes) {
  if (bytes <= options.maxBytes / code->numRanks)
    return success();
  return program.emitOpError("needs more than ")
         << options.maxBytes << " bytes for the commands of " << code->numRanks
         << " ranks, which is the limit of a file: about " << bytes << " for each";
}

/// Writes the evaluated rank.
LogicalResult Translation::writeRank(Evaluator &evaluator, uint32_t rank) {
  std::vector<ShardInfo> shards;
  if (failed(findShards(program, arguments, rank, shards)))
    return failure();
  uint64_t symmetricBytes = llvm::alignTo(
      static_cast<uint64_t>(program.getSymmetricBytes().value_or(0)), tandem::sp::kAlignment);
  ArrayRef<uint8_t> bytes =
      evaluator.tables.finish(rank, shards, evaluator.signalSlots, symmetricBytes);
  if (stats.ranks == 0 && !options.rank && !options.uniform) {
    if (failed(verifySize(bytes.size())))
      return failure();
    file.reserve(file.size() + (bytes.size() + bytes.size() / 16 + 256) * code->numRanks);
  }
  if (file.size() + bytes.size() > options.maxBytes)
    return verifySize(file.size() / (stats.ranks + 1) + bytes.size());
  ranks[rank] = append(bytes);
  ++stats.ranks;
  stats.commands += evaluator.tables.commands.size();
  return success();
}

LogicalResult Translation::writeRanks() {
  ranks.assign(code->numRanks, sp::Blob(0, 0, 0));
  if (options.uniform) {
    Evaluator evaluator(*code, options.maxCommands, options.maxSteps);
    FailureOr<bool> isUniform = UniformWalk(evaluator, *options.uniform).run();
    if (failed(isUniform))
      return failure();
    if (*isUniform)
      return writeRank(evaluator, 0);
    *options.uniform = UniformRanks();
  }
  Evaluator evaluator(*code, options.maxCommands, options.maxSteps);
  std::optional<Matcher> matcher;
  if (!options.rank)
    matcher.emplace(*code);
  auto matching = [&] { return matcher ? &*matcher : nullptr; };
  // Signals advance by equal steps on all ranks, so the steps must be known before the first rank
  // is written.
  bool surveyed = code->usesSignals;
  if (surveyed) {
    evaluator.surveying = true;
    for (uint32_t rank = 0; rank < code->numRanks; ++rank)
      if (failed(evaluator.run(rank, matching())) ||
          (!options.rank &&
           failed(verifySize(evaluator.tables.commands.size() * sizeof(sp::Command)))))
        return failure();
    evaluator.surveying = false;
    evaluator.messages = evaluator.tables.droppedSyncs = 0;
  }
  for (uint32_t rank = 0; rank < code->numRanks; ++rank) {
    if (options.rank && rank != *options.rank)
      continue;
    if (failed(evaluator.run(rank, surveyed ? nullptr : matching())) ||
        failed(writeRank(evaluator, rank)))
      return failure();
  }
  stats.messages = evaluator.messages;
  stats.droppedSyncs = evaluator.tables.droppedSyncs;
  return success();
}

LogicalResult Translation::writeReference() {
  FailureOr<std::unique_ptr<Code>> code =
      buildCode(reference, /*numRanks=*/1, architecturesOf(options.target));
  if (failed(code))
    return failure();
  FailureOr<std::vector<ArgumentInfo>> logical = readArguments(reference, (*code)->numRanks);
  if (failed(logical))
    return failure();
  auto isAlike = [](const ArgumentInfo &a, const ArgumentInfo &b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.isResult == b.isResult;
  };
  if (!llvm::equal(*logical, arguments, isAlike)) {
    InFlightDiagnostic diag = reference.emitOpError("expected the logical arguments of @")
                              << entry << ", whose unsharded reference it is";
    diag.attachNote(program.getLoc()) << "see @" << entry;
    return diag;
  }
  Evaluator evaluator(**code, options.maxCommands, options.maxSteps);
  Matcher matcher(**code);
  std::vector<ShardInfo> shards;
  if (failed(evaluator.run(0, &matcher)) || failed(findShards(reference, *logical, 0, shards)))
    return failure();
  referenceBlob = append(evaluator.tables.finish(
      0, shards, evaluator.signalSlots,
      llvm::alignTo(static_cast<uint64_t>(reference.getSymmetricBytes().value_or(0)), 64)));
  return success();
}

uint64_t Translation::programId() {
  if (options.uniform) // never run
    return 0;
  std::string text = options.producer + " " + std::to_string(code->numRanks) + "\n";
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags = OpPrintingFlags().assumeVerified().useLocalScope();
  for (auto kernel : module.getOps<hostir::KernelOp>())
    kernel->print(stream, flags);
  program->print(stream, flags);
  return XXH3_64bits(text.data(), text.size()) | 1; // 0 says that there is none
}

void Translation::writeIndex() {
  flatbuffers::FlatBufferBuilder b(4096);
  std::vector<flatbuffers::Offset<sp::Argument>> list;
  for (const ArgumentInfo &info : arguments) {
    auto name = b.CreateString(escapeName(info.name)), axes = b.CreateString(escapeName(info.axes)),
         mesh = b.CreateString(escapeName(info.mesh));
    auto shape = b.CreateVector(info.shape.data(), info.shape.size());
    flatbuffers::Offset<flatbuffers::Vector<uint32_t>> varying;
    if (!info.varying.empty())
      varying = b.CreateVector(info.varying.data(), info.varying.size());
    list.push_back(sp::CreateArgument(
        b, name, info.isResult ? sp::ArgumentRole::result : sp::ArgumentRole::input,
        static_cast<sp::DType>(info.dtype), shape, axes, mesh, info.isPartial, info.partialOp,
        info.partialTerms, varying, info.isMask));
  }
  auto name = b.CreateString(escapeName(entry.str())), target = b.CreateString(options.target),
       producer = b.CreateString(options.producer);
  auto argumentVector = b.CreateVector(list);
  auto rankVector = b.CreateVectorOfStructs(ranks);
  auto determinism = sp::Determinism::none;
  if (std::optional<StringRef> level = program.getDeterministic())
    determinism = *level == "batch" ? sp::Determinism::batch
                  : *level == "tp"  ? sp::Determinism::tp
                                    : sp::Determinism::bitwise;
  b.Finish(sp::CreateIndex(b, name, target, producer, code->numRanks, capabilities,
                           options.reducedWire || (code->receives && code->accumulatesRounded),
                           argumentVector, rankVector, &referenceBlob, determinism, programId()));
  sp::Blob blob = append({b.GetBufferPointer(), b.GetSize()});
  tandem::sp::Header header = {};
  std::copy(std::begin(tandem::sp::kMagic), std::end(tandem::sp::kMagic), header.magic);
  header.version = tandem::sp::kVersion;
  header.fileSize = file.size();
  header.indexOffset = blob.offset();
  header.indexSize = blob.size();
  header.indexHash = blob.hash();
  std::copy_n(reinterpret_cast<const char *>(&header), sizeof header, file.data());
}

FailureOr<std::string> Translation::run() {
  if (failed(findPrograms()))
    return failure();
  FailureOr<std::unique_ptr<Code>> built =
      buildCode(program, options.numRanks, architecturesOf(options.target));
  if (failed(built))
    return failure();
  code = std::move(*built);
  if (code->numRanks > kMaxRanks)
    return program.emitOpError("is for ")
           << code->numRanks << " ranks, expected at most " << kMaxRanks;
  if (failed(checkTarget(*code)))
    return failure();
  if (options.rank && *options.rank >= code->numRanks)
    return program.emitOpError("has no rank ")
           << *options.rank << ": the program is for " << code->numRanks << " ranks";
  FailureOr<std::vector<ArgumentInfo>> read = readArguments(program, code->numRanks);
  if (failed(read))
    return failure();
  arguments = std::move(*read);
  file.resize(tandem::sp::kAlignment); // space for the header
  if (failed(writeRanks()))
    return failure();
  if (reference && (options.withReference || options.withReferenceToo)) {
    size_t end = file.size();
    if (failed(writeReference()))
      return failure();
    if (!options.withReference) {
      writeIndex();
      *options.withReferenceToo = file;
      file.resize(end);
      referenceBlob = sp::Blob(0, 0, 0);
    }
  }
  writeIndex();
  stats.bytes = file.size();
  stats.numRanks = code->numRanks;
  return std::move(file);
}

} // namespace

FailureOr<std::string> translateToStreamProgram(ModuleOp module, StringRef entry,
                                                const StreamProgramOptions &options,
                                                StreamProgramStats *stats) {
  StreamProgramStats own;
  return Translation(module, entry, options, stats ? *stats : own).run();
}

} // namespace tandem
