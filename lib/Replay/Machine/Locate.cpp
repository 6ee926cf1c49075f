//===- Locate.cpp - where machine files are, and what they extend ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Files.h"
#include "tandem/Replay/Machine.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <link.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace tandem;
using machine::MachineFile;
using nlohmann::json;

/// The file with this code: a shared library, or the executable into which it is linked. Empty if
/// unknown.
static fs::path ownFile() {
  static const char anchor = 0;
  Dl_info info;
  void *map = nullptr;
  std::error_code error;
  // The executable's own name is empty here; in `info` it would be argv[0], which may lack a
  // folder.
  if (::dladdr1(&anchor, &info, &map, RTLD_DL_LINKMAP) && map &&
      *static_cast<link_map *>(map)->l_name)
    return fs::canonical(static_cast<link_map *>(map)->l_name, error);
  return fs::read_symlink("/proc/self/exe", error);
}

/// The build folder has the layout of an installation.
static fs::path machinesFolder() {
  if (const char *given = std::getenv("TANDEM_MACHINES"))
    return given;
  fs::path bin = ownFile().parent_path(); // or lib, or lib/x86_64-linux-gnu
  fs::path machines = bin.parent_path() / "share/tandem/machines";
  std::error_code error;
  if (fs::path above = bin.parent_path().parent_path() / "share/tandem/machines";
      !fs::is_directory(machines, error) && fs::is_directory(above, error))
    return above;
  return machines;
}

std::string tandem::machine::pathOf(const std::string &given) {
  if (given.find('/') != std::string::npos || ::access(given.c_str(), R_OK) == 0)
    return given;
  bool suffix = given.size() > 5 && given.compare(given.size() - 5, 5, ".json") == 0;
  return machinesFolder() / (suffix ? given : given + ".json");
}

std::string tandem::machine::findForGpu(const std::string &gpu, uint32_t ranks) {
  std::pair<uint32_t, std::string> found(UINT32_MAX, "");
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(machinesFolder(), error)) {
    if (entry.path().extension() != ".json")
      continue;
    auto machine = Machine::load(entry.path().string());
    if (machine && !machine->gpu.empty() && gpu.find(machine->gpu) != std::string::npos &&
        machine->nodes == 1 && machine->devicesPerNode >= ranks)
      found = std::min(found, {machine->devicesPerNode, entry.path().stem().string()});
  }
  return found.second;
}

/// The file that another one names: next to it, else of the shipped ones.
static std::string baseOf(const fs::path &file, const std::string &name) {
  fs::path base = name;
  if (base.extension() != ".json")
    base += ".json";
  fs::path near = file.parent_path() / base;
  std::error_code error;
  return base.has_parent_path() || fs::exists(near, error) ? near : machinesFolder() / base;
}

/// The value of the field `extends`; the rest of the file is not read. Null: there is none.
static json extendedBy(const std::string &text) {
  if (text.find("\"extends\"") == std::string::npos)
    return nullptr;
  struct Found {
    json value;
  };
  bool isNext = false;
  auto look = [&](int depth, json::parse_event_t event, const json &parsed) {
    if (isNext)
      throw Found{parsed.is_discarded() ? json::object() : parsed};
    isNext = depth == 1 && event == json::parse_event_t::key && parsed == "extends";
    return depth == 0 || isNext; // values of other keys are not kept
  };
  try {
    json rest = json::parse(text, look, /*allow_exceptions=*/false); // mistakes: see parse()
  } catch (const Found &found) {
    return found.value;
  }
  return nullptr;
}

static Status readInto(const std::string &path, std::vector<MachineFile> &files) {
  auto text = readWhole(path);
  if (!text)
    return text.status().withPrefix(path + ": cannot read: ");
  files.push_back({path, std::move(*text)});
  json name = extendedBy(files.back().text);
  if (name.is_null())
    return Status();
  std::string at = path + ": extends: ";
  if (!name.is_string())
    return Status(Code::InvalidArgument, at + "expected the name of a machine file");
  std::string base = baseOf(path, name.get<std::string>());
  std::error_code error;
  for (const MachineFile &file : files)
    if (fs::equivalent(file.path, base, error))
      return Status(Code::InvalidArgument,
                    fmt::format("{}a cycle: {} extends this file", at, base));
  return readInto(base, files).withPrefix(at);
}

Expected<std::vector<MachineFile>> tandem::machine::readMachine(const std::string &path) {
  std::vector<MachineFile> files;
  TANDEM_RETURN_IF_ERROR(readInto(path, files));
  return files;
}
