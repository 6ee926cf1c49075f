//===- HangReport.cpp - who waits for whom ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HangReport.h"

#include "Files.h"
#include "tandem-c/Context.h"

#include "tandem/Program/Printable.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace tandem;

Status run::writeHangReport(const std::string &path, const std::vector<std::string> &states) {
  std::vector<const char *> texts;
  for (const std::string &state : states)
    texts.push_back(state.empty() ? nullptr : state.c_str());
  std::string report;
  auto keep = [](void *user, const char *json, size_t size) {
    static_cast<std::string *>(user)->assign(json, size);
  };
  if (tandem_code code = tandem_hang_report(path.c_str(), static_cast<uint32_t>(states.size()),
                                            texts.data(), keep, &report))
    return Status(static_cast<Code>(code), "--hang-report: the files of the ranks are not valid");
  const nlohmann::json parsed = nlohmann::json::parse(report);
  for (const std::string line : parsed.at("summary"))
    fmt::print(stderr, "tandem-run: {}\n", escapeControls(line));
  return writeFile(path, report).withPrefix("--hang-report: ");
}

void run::removeRecords(const std::string &path) {
  namespace fs = std::filesystem;
  const std::string start = fs::path(path).filename().string() + ".rank";
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto &entry : fs::directory_iterator(folder.empty() ? "." : folder, error))
    if (entry.path().filename().string().compare(0, start.size(), start) == 0)
      found.push_back(entry.path());
  for (const fs::path &file : found)
    fs::remove(file, error);
}
