//===- Suite.cpp - the programs of a bench ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Suite.h"

#include "Compile.h"
#include "Files.h"
#include "Probes.h"
#include "tandem/Program/Program.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using nlohmann::json;

Suite::~Suite() = default;

static constexpr std::pair<Role, const char *> kRoles[] = {
    {Role::Sequence, "sequence"}, {Role::Matmul, "matmul"}, {Role::Communication, "communication"},
    {Role::Fused, "fused"},       {Role::Link, "link"},     {Role::Probe, "probe"}};

static constexpr std::pair<RowKind, const char *> kKinds[] = {{RowKind::Shape, "shape"},
                                                              {RowKind::Links, "links"},
                                                              {RowKind::Probe, "probe"},
                                                              {RowKind::Tuning, "tuning"}};

std::string bench::toString(Role role) {
  for (auto [known, name] : kRoles)
    if (known == role)
      return name;
  return "";
}

bool bench::isGpuTarget(const std::string &target) {
  return target.compare(0, 4, "cuda") == 0 || target.compare(0, 3, "hip") == 0;
}

/// Rings one after the other that show, less one, what a link can do.
static constexpr uint32_t kLinkRepeats = 5;

namespace {

/// The first line; places in a text that the user does not see do not help.
std::string firstError(const std::string &errors) {
  std::string error = errors.substr(0, errors.find('\n'));
  size_t at = error.find("error: ");
  return at == std::string::npos ? error : error.substr(at + 7);
}

class CompiledSuite : public Suite {
public:
  CompiledSuite(const Options &options, uint32_t ranks) : options(options), size(ranks) {}

  uint32_t ranks() const override { return size; }
  std::string target() const override { return options.target; }
  bool isProbes() const override { return options.probes; }
  bool isTuning() const override { return !options.tune.empty(); }
  size_t numRows() const override {
    if (isTuning())
      return options.programs.empty() ? options.cases.size() : options.programs.size();
    return options.probes ? probes.size() : options.cases.size() + 1;
  }
  uint64_t linkBytes() const override { return options.linkBytes; }

  Expected<Row> row(size_t index) override {
    if (isTuning())
      return tuningRow(index);
    Row row;
    if (options.probes) {
      row.kind = RowKind::Probe;
      for (const Probe &probe : {probes[index].once(), probes[index]})
        row.variants.push_back(compile(Role::Probe, probe.name(), probeText(probe, size)));
      return row;
    }
    if (index == 0) {
      row.kind = RowKind::Links;
      for (Work work : {Work::Message, Work::Put}) {
        Probe ring;
        ring.work = work;
        ring.bytes = options.linkBytes;
        ring.repeats = kLinkRepeats;
        for (const Probe &probe : {ring.once(), ring})
          row.variants.push_back(compile(Role::Link, probe.name(), probeText(probe, size)));
      }
      return row;
    }
    row.shape = options.cases[index - 1];
    Schedule sequence;
    sequence.text = sequence.name = "sequence";
    row.variants = {
        compileFused(Role::Sequence, sequence, row.shape),
        compile(Role::Matmul, "matmul", matmulText(row.shape, size)),
        compile(Role::Communication, "communication", communicationText(row.shape, size))};
    for (const Schedule &schedule : options.schedules)
      row.variants.push_back(compileFused(Role::Fused, schedule, row.shape));
    return row;
  }

  std::string label(size_t index) const override {
    if (options.probes)
      return probes[index].name();
    if (isTuning())
      return options.programs.empty() ? options.cases[index].text() : options.programs[index];
    return index == 0 ? "" : options.cases[index - 1].text();
  }

private:
  /// A program for each candidate of each loop; the other loops have their predicted best.
  Expected<Row> tuningRow(size_t index) {
    Row row;
    row.kind = RowKind::Tuning;
    row.label = label(index);
    run::CompileRequest request;
    request.path = row.label;
    request.options.target = options.target;
    request.options.machine = options.machine;
    request.options.numRanks = size;
    if (options.programs.empty()) {
      TANDEM_ASSIGN_OR_RETURN(Schedule chosen, parseSchedule("auto"));
      auto text = fusedText(options.cases[index], size, chosen);
      if (!text) {
        row.variants.push_back({Role::Fused, "auto", "", text.status().message()});
        return row;
      }
      request.text = std::move(*text);
    }
    run::CompiledProgram plain = run::compileProgram(request);
    if (!plain.ok)
      row.variants.push_back({Role::Fused, "auto", "", firstError(plain.errors)});
    std::set<std::string> seen; // equal loops get the same candidate
    for (const run::CompiledProgram::Loop &loop : plain.loops) {
      if (!seen.insert(loop.signature).second)
        continue;
      for (const std::string &candidate : loop.candidates) {
        request.options.choices = {{loop.signature, candidate}};
        run::CompiledProgram compiled = run::compileProgram(request);
        row.variants.push_back({Role::Fused, loop.signature + " " + candidate,
                                std::move(compiled.bytes),
                                compiled.ok ? "" : firstError(compiled.errors)});
      }
    }
    return row;
  }

  Variant compileFused(Role role, const Schedule &schedule, const Case &shape) {
    auto text = fusedText(shape, size, schedule);
    if (text)
      return compile(role, schedule.text, *text);
    return {role, schedule.text, "", text.status().message()};
  }

  Variant compile(Role role, const std::string &name, const std::string &text) {
    return compileVariant(role, name, text, options.target, options.machine, size);
  }

  const Options &options;
  uint32_t size;
  std::vector<Probe> probes = probesFor(size, isGpuTarget(options.target),
                                        options.probesShapes ? options.cases : std::vector<Case>());
};

constexpr int kVersion = 1;

json toJson(const Case &shape) {
  return {{"op", toString(shape.op)},
          {"m", shape.m},
          {"n", shape.n},
          {"k", shape.k},
          {"dtype", shape.types()}};
}

[[noreturn]] void expected(const char *field, const std::string &what, const json &found) {
  throw std::runtime_error(fmt::format("{}: expected {}, found {}", field, what,
                                       found.dump(-1, ' ', false, json::error_handler_t::replace)));
}

// Fields; what is missing or of another type throws, by name.
const json &fieldOf(const json &value, const char *field) {
  if (!value.is_object() || !value.contains(field))
    throw std::runtime_error(fmt::format("{}: missing", field));
  return value.at(field);
}

std::string textOf(const json &value, const char *field) {
  const json &found = fieldOf(value, field);
  if (!found.is_string())
    expected(field, "a string", found);
  return found.get<std::string>();
}

int64_t numberOf(const json &value, const char *field, int64_t least, int64_t most) {
  const json &found = fieldOf(value, field);
  bool fits = found.is_number_unsigned() ? found.get<uint64_t>() <= uint64_t(most)
                                         : found.is_number_integer();
  if (!fits || found.get<int64_t>() < least || found.get<int64_t>() > most)
    expected(field, fmt::format("a number from {} to {}", least, most), found);
  return found.get<int64_t>();
}

const json &listOf(const json &value, const char *field) {
  const json &found = fieldOf(value, field);
  if (!found.is_array() || found.empty())
    expected(field, "a list of at least one", found);
  return found;
}

template <typename Range, typename T>
void readName(const json &value, const char *field, const Range &names, T &result) {
  std::string text = textOf(value, field), all;
  for (const auto &[known, name] : names) {
    if (text == name) {
      result = known;
      return;
    }
    all += (all.empty() ? "one of " : ", ") + std::string(name);
  }
  expected(field, all, fieldOf(value, field));
}

/// Throws.
Case caseOf(const json &value) {
  static const std::pair<Op, std::string> ops[] = {{Op::AllGather, toString(Op::AllGather)},
                                                   {Op::ReduceScatter, toString(Op::ReduceScatter)},
                                                   {Op::AllReduce, toString(Op::AllReduce)}};
  Case shape;
  readName(value, "op", ops, shape.op);
  if (Status status = parseTypes(textOf(value, "dtype"), "dtype", shape); !status.ok())
    throw std::runtime_error(status.message());
  shape.m = numberOf(value, "m", 1, kMaxExtent);
  shape.n = numberOf(value, "n", 1, kMaxExtent);
  shape.k = numberOf(value, "k", 1, kMaxExtent);
  return shape;
}

json toJson(const Row &row) {
  json value = {{"variants", json::array()}};
  for (auto [known, name] : kKinds)
    if (known == row.kind)
      value["kind"] = name;
  if (row.kind == RowKind::Shape)
    value["shape"] = toJson(row.shape);
  if (row.kind == RowKind::Tuning)
    value["label"] = row.label;
  for (const Variant &variant : row.variants)
    value["variants"].push_back({{"role", toString(variant.role)}, {"name", variant.name}});
  return value;
}

/// Throws.
Row rowOf(const json &value) {
  Row row;
  readName(value, "kind", kKinds, row.kind);
  if (row.kind == RowKind::Shape)
    row.shape = caseOf(fieldOf(value, "shape"));
  if (row.kind == RowKind::Tuning)
    row.label = textOf(value, "label");
  // A program without loops has nothing to tune.
  for (const json &entry :
       row.kind == RowKind::Tuning ? fieldOf(value, "variants") : listOf(value, "variants")) {
    Variant variant;
    variant.name = textOf(entry, "name");
    readName(entry, "role", kRoles, variant.role);
    if (entry.contains("refused"))
      variant.refused = textOf(entry, "refused");
    row.variants.push_back(std::move(variant));
  }
  return row;
}

/// Whether these bytes are programs of all ranks.
Status checkProgram(const std::string &bytes, uint32_t ranks) {
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(bytes));
  if (file->numRanks() != ranks)
    return Status(Code::InvalidProgram, fmt::format("the program is for {} ranks, there are {}",
                                                    file->numRanks(), ranks));
  for (uint32_t rank = 0; rank < ranks; ++rank)
    TANDEM_RETURN_IF_ERROR(file->rankProgram(rank).status());
  return Status();
}

class StagedSuite : public Suite {
public:
  StagedSuite(std::string folder, json list) : folder(std::move(folder)), list(std::move(list)) {}

  uint32_t ranks() const override { return list.at("ranks").get<uint32_t>(); }
  std::string target() const override { return list.at("target").get<std::string>(); }
  bool isProbes() const override { return list.at("probes").get<bool>(); }
  bool isTuning() const override { return rowOf(list.at("rows").at(0)).kind == RowKind::Tuning; }
  size_t numRows() const override { return list.at("rows").size(); }
  uint64_t linkBytes() const override { return list.at("link_bytes").get<uint64_t>(); }

  Expected<Row> row(size_t index) override {
    const json &entry = list.at("rows").at(index);
    Row row = rowOf(entry);
    for (size_t i = 0; i < row.variants.size(); ++i)
      if (row.variants[i].refused.empty()) {
        std::string path = fmt::format("{}/{}", folder, textOf(entry.at("variants").at(i), "file"));
        TANDEM_ASSIGN_OR_RETURN(row.variants[i].bytes, run::readFile(path));
        TANDEM_RETURN_IF_ERROR(
            checkProgram(row.variants[i].bytes, ranks()).withPrefix(path + ": "));
      }
    return row;
  }
  std::string label(size_t index) const override {
    Row row = rowOf(list.at("rows").at(index));
    if (row.kind == RowKind::Shape)
      return row.shape.text();
    if (row.kind == RowKind::Tuning)
      return row.label;
    return row.kind == RowKind::Probe ? row.variants.back().name : "";
  }

private:
  std::string folder;
  json list;
};

/// Everything that StagedSuite will ask for, so that it can no longer throw.
void touch(const json &list) {
  if (fieldOf(list, "tandem_bench") != kVersion)
    throw std::runtime_error(fmt::format("tandem_bench: expected version {}", kVersion));
  numberOf(list, "ranks", 2, 65536);
  textOf(list, "target");
  numberOf(list, "link_bytes", 4, int64_t(1) << 34);
  if (const json &probes = fieldOf(list, "probes"); !probes.is_boolean())
    expected("probes", "true or false", probes);
  for (size_t i = 0; i < listOf(list, "rows").size(); ++i)
    try {
      const json &row = list.at("rows").at(i);
      rowOf(row);
      for (const json &variant : row.at("variants"))
        if (!variant.contains("refused"))
          textOf(variant, "file");
    } catch (const std::exception &error) {
      throw std::runtime_error(fmt::format("rows[{}]: {}", i, error.what()));
    }
}

/// bench.json, N-M.tsp, and what an interrupted writeFile() leaves of one.
bool isOfStage(const std::string &name) {
  static const std::regex ours("(bench\\.json|[0-9]+-[0-9]+\\.tsp)(\\.[0-9]+\\.tmp)?");
  return std::regex_match(name, ours);
}

/// A report may have been written as bench.json, too: it must not be removed.
Status checkStage(const std::string &folder) {
  std::string path = folder + "/bench.json";
  auto text = run::readFile(path);
  if (!text)
    return Status();
  json list = json::parse(*text, nullptr, false);
  if (list.is_object() && list.contains("tandem_bench") && list.contains("link_bytes"))
    return Status();
  return Status(
      Code::InvalidArgument,
      fmt::format("\"{}\" was not written by --stage: name an empty or new folder", path));
}

} // namespace

Variant bench::compileVariant(Role role, const std::string &name, const std::string &text,
                              const std::string &target, const std::string &machine,
                              uint32_t ranks) {
  run::CompileRequest request;
  request.path = name;
  request.text = text;
  request.options.target = target;
  request.options.machine = machine;
  request.options.numRanks = ranks;
  // Probes time single commands. Most leave results unwritten, and some race on purpose.
  request.options.check = role != Role::Link && role != Role::Probe;
  run::CompiledProgram compiled = run::compileProgram(request);
  if (compiled.ok)
    return {role, name, std::move(compiled.bytes), ""};
  return {role, name, "", firstError(compiled.errors)};
}

std::unique_ptr<Suite> bench::compileSuite(const Options &options, uint32_t ranks) {
  return std::make_unique<CompiledSuite>(options, ranks);
}

Expected<std::unique_ptr<Suite>> bench::readSuite(const std::string &folder) {
  std::string path = folder + "/bench.json";
  TANDEM_ASSIGN_OR_RETURN(std::string text, run::readFile(path));
  try {
    json list = json::parse(text);
    touch(list);
    return std::unique_ptr<Suite>(std::make_unique<StagedSuite>(folder, std::move(list)));
  } catch (const std::exception &error) {
    return Status(Code::InvalidArgument, fmt::format("{}: {}", path, error.what()));
  }
}

Expected<std::string> bench::writeSuite(Suite &suite, const std::string &folder) {
  TANDEM_RETURN_IF_ERROR(checkStage(folder));
  TANDEM_RETURN_IF_ERROR(run::makeFolderAnew(folder, isOfStage));
  json list = {{"tandem_bench", kVersion},   {"ranks", suite.ranks()},
               {"target", suite.target()},   {"link_bytes", suite.linkBytes()},
               {"probes", suite.isProbes()}, {"rows", json::array()}};
  size_t written = 0, refused = 0;
  std::string why;
  for (size_t r = 0; r < suite.numRows(); ++r) {
    TANDEM_ASSIGN_OR_RETURN(Row row, suite.row(r));
    json entry = toJson(row);
    for (size_t i = 0; i < row.variants.size(); ++i) {
      const Variant &variant = row.variants[i];
      if (!variant.refused.empty()) {
        entry["variants"][i]["refused"] = why = variant.refused;
        ++refused;
        continue;
      }
      std::string file = fmt::format("{}-{}.tsp", r, i);
      entry["variants"][i]["file"] = file;
      TANDEM_RETURN_IF_ERROR(run::writeFile(fmt::format("{}/{}", folder, file), variant.bytes));
      ++written;
    }
    list["rows"].push_back(std::move(entry));
  }
  if (!written)
    return Status(
        Code::InvalidArgument,
        fmt::format("\"{}\" holds no program, all {} were refused: {}", folder, refused, why));
  TANDEM_RETURN_IF_ERROR(run::writeFile(
      folder + "/bench.json", list.dump(1, ' ', false, json::error_handler_t::replace) + "\n"));
  bool hasLinks = !suite.isProbes() && !suite.isTuning();
  return fmt::format("{}: {} programs of {} {} for {} ranks, target {} ({} refused)", folder,
                     written, suite.numRows() - hasLinks,
                     suite.isProbes()   ? "probes"
                     : suite.isTuning() ? "programs to tune"
                                        : "shapes",
                     suite.ranks(), suite.target(), refused);
}

std::string bench::packRow(const Row &row) {
  json value = toJson(row);
  for (size_t i = 0; i < row.variants.size(); ++i) {
    const Variant &variant = row.variants[i];
    value["variants"][i]["refused"] = variant.refused;
    value["variants"][i]["bytes"] = json::binary({variant.bytes.begin(), variant.bytes.end()});
  }
  std::vector<uint8_t> packed = json::to_msgpack(value);
  return {packed.begin(), packed.end()};
}

Expected<Row> bench::unpackRow(const std::string &bytes) {
  try {
    json value = json::from_msgpack(bytes);
    Row row = rowOf(value);
    for (size_t i = 0; i < row.variants.size(); ++i) {
      const auto &binary = value.at("variants").at(i).at("bytes").get_binary();
      row.variants[i].bytes.assign(binary.begin(), binary.end());
    }
    return row;
  } catch (const std::exception &error) {
    return Status(Code::Internal, fmt::format("rank 0 has sent no row: {}", error.what()));
  }
}
