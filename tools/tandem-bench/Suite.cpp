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
#include "Texts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using nlohmann::json;

Suite::~Suite() = default;

static constexpr std::pair<Role, const char *> kRoles[] = {
    {Role::Sequence, "sequence"}, {Role::Matmul, "matmul"}, {Role::Communication, "communication"},
    {Role::Fused, "fused"},       {Role::Link, "link"},     {Role::Probe, "probe"}};

static constexpr std::pair<RowKind, const char *> kKinds[] = {
    {RowKind::Shape, "shape"}, {RowKind::Links, "links"}, {RowKind::Probe, "probe"}};

std::string bench::toString(Role role) {
  for (auto [known, name] : kRoles)
    if (known == role)
      return name;
  return "";
}

bool bench::isGpuTarget(const std::string &target) { return target.compare(0, 4, "cuda") == 0; }

namespace {

class CompiledSuite : public Suite {
public:
  CompiledSuite(const Options &options, uint32_t ranks) : options(options), size(ranks) {}

  uint32_t ranks() const override { return size; }
  std::string target() const override { return options.target; }
  bool isProbes() const override { return options.probes; }
  size_t numRows() const override {
    return options.probes ? probes.size() : options.cases.size() + 1;
  }
  uint64_t linkBytes() const override { return options.linkBytes; }

  Expected<Row> row(size_t index) override {
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
        row.variants.push_back(compile(Role::Link, toString(work), probeText(ring, size)));
      }
      return row;
    }
    row.shape = options.cases[index - 1];
    row.variants = {
        compileFused(Role::Sequence, Schedule{"sequence", "sequence", 1, 0, "", {}, false},
                     row.shape),
        compile(Role::Matmul, "matmul", matmulText(row.shape, size)),
        compile(Role::Communication, "communication", communicationText(row.shape, size))};
    for (const Schedule &schedule : options.schedules)
      row.variants.push_back(compileFused(Role::Fused, schedule, row.shape));
    return row;
  }

private:
  Variant compileFused(Role role, const Schedule &schedule, const Case &shape) {
    auto text = fusedText(shape, size, schedule);
    if (text)
      return compile(role, schedule.text, *text);
    return {role, schedule.text, "", text.status().message()};
  }

  Variant compile(Role role, const std::string &name, const std::string &text) {
    run::CompileRequest request;
    request.path = name;
    request.text = text;
    request.target = options.target;
    request.machine = options.machine;
    request.ranks = size;
    run::CompiledProgram compiled = run::compileProgram(request);
    if (compiled.ok)
      return {role, name, std::move(compiled.bytes), ""};
    // The first line; places in a text that nobody sees help nobody.
    std::string error = compiled.errors.substr(0, compiled.errors.find('\n'));
    size_t at = error.find("error: ");
    return {role, name, "", at == std::string::npos ? error : error.substr(at + 7)};
  }

  const Options &options;
  uint32_t size;
  std::vector<Probe> probes = probesFor(size, isGpuTarget(options.target));
};

constexpr int kVersion = 1;

json toJson(const Case &shape) {
  return {{"op", toString(shape.op)},
          {"m", shape.m},
          {"n", shape.n},
          {"k", shape.k},
          {"dtype", tandem::toString(shape.dtype)}};
}

/// Throws what nlohmann's json throws.
Case caseOf(const json &value) {
  Case shape;
  auto op = parseOp(value.at("op").get<std::string>());
  auto type = value.at("dtype").get<std::string>();
  shape.op = op ? *op : Op::AllGather;
  for (DType known : {DType::F32, DType::F16, DType::BF16})
    if (type == tandem::toString(known))
      shape.dtype = known;
  shape.m = value.at("m").get<int64_t>();
  shape.n = value.at("n").get<int64_t>();
  shape.k = value.at("k").get<int64_t>();
  return shape;
}

json toJson(const Row &row) {
  json value = {{"variants", json::array()}};
  for (auto [known, name] : kKinds)
    if (known == row.kind)
      value["kind"] = name;
  if (row.kind == RowKind::Shape)
    value["shape"] = toJson(row.shape);
  for (const Variant &variant : row.variants)
    value["variants"].push_back({{"role", toString(variant.role)}, {"name", variant.name}});
  return value;
}

Row rowOf(const json &value) {
  Row row;
  auto kind = value.at("kind").get<std::string>();
  for (auto [known, name] : kKinds)
    if (kind == name)
      row.kind = known;
  if (row.kind == RowKind::Shape)
    row.shape = caseOf(value.at("shape"));
  for (const json &entry : value.at("variants")) {
    Variant variant;
    variant.name = entry.at("name").get<std::string>();
    auto role = entry.at("role").get<std::string>();
    for (auto [known, name] : kRoles)
      if (role == name)
        variant.role = known;
    if (entry.contains("refused"))
      variant.refused = entry.at("refused").get<std::string>();
    row.variants.push_back(std::move(variant));
  }
  return row;
}

class StagedSuite : public Suite {
public:
  StagedSuite(std::string folder, json list) : folder(std::move(folder)), list(std::move(list)) {}

  uint32_t ranks() const override { return list.at("ranks").get<uint32_t>(); }
  std::string target() const override { return list.at("target").get<std::string>(); }
  bool isProbes() const override { return list.at("probes").get<bool>(); }
  size_t numRows() const override { return list.at("rows").size(); }
  uint64_t linkBytes() const override { return list.at("link_bytes").get<uint64_t>(); }

  Expected<Row> row(size_t index) override {
    const json &entry = list.at("rows").at(index);
    Row row = rowOf(entry);
    for (size_t i = 0; i < row.variants.size(); ++i)
      if (row.variants[i].refused.empty()) {
        auto file = entry.at("variants").at(i).at("file").get<std::string>();
        TANDEM_ASSIGN_OR_RETURN(row.variants[i].bytes,
                                run::readFile(fmt::format("{}/{}", folder, file)));
      }
    return row;
  }

private:
  std::string folder;
  json list;
};

/// Everything that StagedSuite will ask for, so that it can no longer throw.
void touch(const json &list) {
  if (list.at("tandem_bench").get<int>() != kVersion)
    throw std::runtime_error(fmt::format("tandem_bench: expected version {}", kVersion));
  if (list.at("ranks").get<uint32_t>() < 2)
    throw std::runtime_error("ranks: expected at least 2");
  list.at("target").get<std::string>();
  list.at("link_bytes").get<uint64_t>();
  list.at("probes").get<bool>();
  if (list.at("rows").empty() || !list.at("rows").is_array())
    throw std::runtime_error("rows: expected at least one");
  for (const json &row : list.at("rows")) {
    rowOf(row);
    for (const json &variant : row.at("variants"))
      if (!variant.contains("refused"))
        variant.at("file").get<std::string>();
  }
}

} // namespace

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
  TANDEM_RETURN_IF_ERROR(run::makeFolderAnew(folder, "bench.json"));
  json list = {{"tandem_bench", kVersion},   {"ranks", suite.ranks()},
               {"target", suite.target()},   {"link_bytes", suite.linkBytes()},
               {"probes", suite.isProbes()}, {"rows", json::array()}};
  size_t written = 0, refused = 0;
  for (size_t r = 0; r < suite.numRows(); ++r) {
    TANDEM_ASSIGN_OR_RETURN(Row row, suite.row(r));
    json entry = toJson(row);
    for (size_t i = 0; i < row.variants.size(); ++i) {
      const Variant &variant = row.variants[i];
      if (!variant.refused.empty()) {
        entry["variants"][i]["refused"] = variant.refused;
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
  TANDEM_RETURN_IF_ERROR(run::writeFile(
      folder + "/bench.json", list.dump(1, ' ', false, json::error_handler_t::replace) + "\n"));
  size_t rows = suite.numRows() - (suite.isProbes() ? 0 : 1);
  return fmt::format("{}: {} programs of {} {} for {} ranks, target {} ({} refused)", folder,
                     written, rows, suite.isProbes() ? "probes" : "shapes", suite.ranks(),
                     suite.target(), refused);
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
