//===- Certificate.cpp - what is proven of a program ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Certificate.h"

#include "ProgramImpl.h"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>
#include <xxhash.h>

namespace tandem {

namespace {

std::string asString(const flatbuffers::String *string) { return string ? string->str() : ""; }

std::vector<std::string>
texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *strings) {
  std::vector<std::string> result;
  for (uint32_t i = 0; i < program::sizeOfVector(strings); ++i)
    result.push_back(strings->Get(i)->str());
  return result;
}

Certificate::Loop decodeLoop(const sp::LoopChoice &from) {
  Certificate::Loop loop;
  loop.reshards = asString(from.reshards());
  loop.locations = texts(from.locations());
  loop.what = asString(from.what());
  loop.source = asString(from.source());
  for (uint32_t i = 0; i < program::sizeOfVector(from.candidates()); ++i) {
    const sp::Candidate &candidate = *from.candidates()->Get(i);
    loop.candidates.push_back({asString(candidate.what()), candidate.seconds()});
  }
  loop.communication = from.communication();
  loop.exposed = from.exposed();
  return loop;
}

flatbuffers::Offset<sp::LoopChoice> encodeLoop(flatbuffers::FlatBufferBuilder &b,
                                               const Certificate::Loop &loop) {
  std::vector<flatbuffers::Offset<sp::Candidate>> candidates;
  for (const Certificate::Candidate &candidate : loop.candidates)
    candidates.push_back(sp::CreateCandidate(b, b.CreateString(candidate.what), candidate.seconds));
  auto reshards = b.CreateString(loop.reshards), what = b.CreateString(loop.what),
       source = b.CreateString(loop.source);
  auto locations = b.CreateVectorOfStrings(loop.locations);
  auto candidateVector = b.CreateVector(candidates);
  return sp::CreateLoopChoice(b, reshards, locations, what, source, candidateVector,
                              loop.communication, loop.exposed);
}

std::string microseconds(double seconds) { return fmt::format("{:.1f} us", seconds * 1e6); }

} // namespace

std::string explainOverlap(const Certificate::Loop &loop) {
  if (loop.communication <= 0)
    return loop.source == "fallback" ? "chosen by fixed rules, without prices: with a machine "
                                       "file, it says how much is hidden"
                                     : "";
  double hidden = 1 - loop.exposed / loop.communication;
  std::string result =
      fmt::format("communicates for {}, {:.0f} % of it overlapped with compute",
                  microseconds(loop.communication), 100 * std::clamp(hidden, 0.0, 1.0));
  if (hidden < 0.9 && loop.source == "tuned")
    return result + ": the quickest of those that were measured";
  if (loop.candidates.empty())
    return result;
  auto other = std::min_element(loop.candidates.begin() + 1, loop.candidates.end(),
                                [](const auto &a, const auto &b) { return a.seconds < b.seconds; });
  const Certificate::Candidate &chosen = loop.candidates.front();
  bool isQuickest = other == loop.candidates.end() || other->seconds >= chosen.seconds;
  if (hidden >= 0.9 && isQuickest)
    return result;
  if (other == loop.candidates.end())
    result += ": no other schedule runs this loop";
  else if (isQuickest)
    result += ": the quickest of all candidates";
  else
    result += ": what " + other->what + " might gain is less than the model's error";
  return result;
}

Expected<std::optional<Certificate>> program::decodeCertificate(const Bytes &bytes,
                                                                uint64_t content) {
  flatbuffers::Verifier verifier(bytes.begin(), bytes.size, /*max_depth=*/16,
                                 /*max_tables=*/1u << 24);
  if (!verifier.VerifyBuffer<sp::Certificate>(nullptr))
    return invalid("certificate: not a valid FlatBuffer");
  const auto &from = *flatbuffers::GetRoot<sp::Certificate>(bytes.begin());
  if (from.content() != content)
    return std::optional<Certificate>();
  Certificate to;
  to.producer = asString(from.producer());
  to.properties = texts(from.properties());
  to.limits = texts(from.limits());
  to.data = asString(from.data());
  to.queues = from.queues();
  to.bufferedSends = from.buffered_sends();
  to.machine = asString(from.machine());
  to.machineHash = from.machine_hash();
  to.seconds = from.seconds();
  to.baselineSeconds = from.baseline_seconds();
  for (uint32_t i = 0; i < sizeOfVector(from.loops()); ++i)
    to.loops.push_back(decodeLoop(*from.loops()->Get(i)));
  for (uint32_t i = 0; i < sizeOfVector(from.alternatives()); ++i)
    to.alternatives.push_back(
        {asString(from.alternatives()->Get(i)->what()), from.alternatives()->Get(i)->seconds()});
  to.sms = from.sms();
  return std::optional<Certificate>(std::move(to));
}

Expected<std::string> withCertificate(std::string_view bytes, const Certificate &certificate) {
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(bytes));
  sp::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  // A certificate is the last blob.
  std::string result(
      bytes.substr(0, header.certificateOffset ? header.certificateOffset : bytes.size()));
  flatbuffers::FlatBufferBuilder b(1024);
  std::vector<flatbuffers::Offset<sp::LoopChoice>> loops;
  for (const Certificate::Loop &loop : certificate.loops)
    loops.push_back(encodeLoop(b, loop));
  std::vector<flatbuffers::Offset<sp::Candidate>> alternatives;
  for (const Certificate::Candidate &alternative : certificate.alternatives)
    alternatives.push_back(
        sp::CreateCandidate(b, b.CreateString(alternative.what), alternative.seconds));
  auto alternativeVector = b.CreateVector(alternatives);
  auto producer = b.CreateString(certificate.producer);
  auto properties = b.CreateVectorOfStrings(certificate.properties);
  auto limits = b.CreateVectorOfStrings(certificate.limits);
  auto data = b.CreateString(certificate.data), machine = b.CreateString(certificate.machine);
  auto loopVector = b.CreateVector(loops);
  b.Finish(sp::CreateCertificate(b, header.indexHash, producer, properties, limits, data,
                                 certificate.queues, certificate.bufferedSends, machine,
                                 certificate.machineHash, certificate.seconds, loopVector,
                                 certificate.baselineSeconds, alternativeVector, certificate.sms));
  result.resize((result.size() + sp::kAlignment - 1) / sp::kAlignment * sp::kAlignment);
  header.certificateOffset = result.size();
  header.certificateSize = static_cast<uint32_t>(b.GetSize());
  header.certificateHash = static_cast<uint32_t>(XXH3_64bits(b.GetBufferPointer(), b.GetSize()));
  result.append(reinterpret_cast<const char *>(b.GetBufferPointer()), b.GetSize());
  header.fileSize = result.size();
  std::memcpy(result.data(), &header, sizeof header);
  return result;
}

Status ProgramFile::requireProof() const {
  const Certificate *proof = certificate();
  if (!proof)
    return Status(
        Code::Unsupported,
        fmt::format("{}: has no certificate of its content (tandem-compile writes one)", name()));
  if (proof->properties.empty())
    return Status(Code::Unsupported, fmt::format("{}: its certificate proves nothing", name()));
  if (!proof->limits.empty())
    return Status(Code::Unsupported, fmt::format("{}: its certificate leaves open: {}", name(),
                                                 proof->limits.front()));
  return Status();
}

static std::string provenText(const Certificate &certificate) {
  std::string result = fmt::format("  cannot occur, in any number of consecutive runs: {}\n",
                                   fmt::join(certificate.properties, " "));
  result += certificate.queues == 0
                ? std::string("  each stream has its own queue")
                : fmt::format("  streams of a rank share {} queues in any way", certificate.queues);
  result += certificate.bufferedSends ? "; sends complete without their receives\n"
                                      : "; sends may wait for their receives\n";
  if (certificate.sms > 0)
    result += fmt::format("  kernels that wait leave the SMs that others need, of {} per GPU\n",
                          certificate.sms);
  return result;
}

std::string toText(const Certificate &certificate) {
  std::string result = fmt::format("certificate of {}\n", certificate.producer);
  result += certificate.properties.empty() ? "  nothing was proven\n" : provenText(certificate);
  if (!certificate.data.empty())
    result += fmt::format("  results against the unsharded reference: {}\n", certificate.data);
  for (const std::string &limit : certificate.limits)
    result += fmt::format("  not decided: {}\n", limit);
  if (!certificate.machine.empty())
    result +=
        fmt::format("  predicted: {} on {} (machine file {:016x}){}\n",
                    microseconds(certificate.seconds), certificate.machine, certificate.machineHash,
                    certificate.baselineSeconds > 0
                        ? "; without overlap " + microseconds(certificate.baselineSeconds)
                        : "");
  for (const Certificate::Candidate &alternative : certificate.alternatives)
    result +=
        fmt::format("    {:>12} with {}\n", microseconds(alternative.seconds), alternative.what);
  return result + explain(certificate);
}

std::string explain(const Certificate &certificate) {
  std::string result;
  for (const Certificate::Loop &loop : certificate.loops) {
    result += fmt::format("  {}{}: {}, by {}\n", loop.reshards,
                          loop.locations.empty() || loop.locations.front().empty()
                              ? ""
                              : " at " + fmt::format("{}", fmt::join(loop.locations, " ")),
                          loop.what, loop.source);
    if (std::string overlap = explainOverlap(loop); !overlap.empty())
      result += "    " + overlap + "\n";
    for (const Certificate::Candidate &candidate : loop.candidates)
      if (candidate.seconds > 0) // a measured choice has no price
        result += fmt::format("    {:>12} {}\n", microseconds(candidate.seconds), candidate.what);
  }
  return result;
}

} // namespace tandem
