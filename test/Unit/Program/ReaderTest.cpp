//===- ReaderTest.cpp - files that are no stream programs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SampleProgram.h"

#include "tandem/Program/Program.h"

#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tandem::test {

namespace {

/// The sample's bytes, with a field of the header changed.
template <typename F> std::string withHeader(F change) {
  std::string file = sampleProgram().encode();
  sp::Header header;
  std::memcpy(&header, file.data(), sizeof header);
  change(header);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

void expectError(const std::string &bytes, const std::string &expected) {
  auto file = ProgramFile::fromMemory(bytes);
  ASSERT_FALSE(file.ok()) << "expected: " << expected;
  EXPECT_NE(file.status().message().find(expected), std::string::npos)
      << "expected: " << expected << "\nfound:    " << file.status().message();
}

TEST(Reader, Header) {
  expectError("", "memory: not a stream program: 0 bytes, expected at least 64");
  expectError("TANDEMSP", "not a stream program: 8 bytes");
  expectError(withHeader([](sp::Header &h) { h.magic[0] = 'X'; }), "header field magic is wrong");
  expectError(withHeader([](sp::Header &h) { h.version = 7; }),
              "header field version: found 7, expected " + std::to_string(sp::kVersion));
  expectError(withHeader([](sp::Header &h) { h.reserved = 1; }),
              "header field reserved: expected 0, found 1");
  expectError(withHeader([](sp::Header &h) { h.fileSize += 1; }), "header field fileSize");
  expectError(withHeader([](sp::Header &h) { h.indexOffset += 4; }), "is not a multiple of 64");
  expectError(withHeader([](sp::Header &h) { h.indexOffset = ~uint64_t(63); }),
              "do not lie inside the file");
  expectError(withHeader([](sp::Header &h) { h.indexOffset = 0; }), "do not lie inside the file");
  expectError(withHeader([](sp::Header &h) { h.indexSize = ~uint64_t(0); }),
              "do not lie inside the file");
  expectError(withHeader([](sp::Header &h) { h.indexHash ^= 1; }), "index: content hash is");
}

Certificate sampleCertificate() {
  Certificate certificate;
  certificate.producer = "tandem 0";
  certificate.properties = {"deadlock", "race"};
  certificate.data = "checked";
  certificate.queues = 8;
  certificate.machine = "box";
  certificate.machineHash = 5;
  certificate.seconds = 2e-6;
  certificate.loops.push_back({"all-gather",
                               {"f.mlir:1:2"},
                               "push",
                               "cost",
                               {{"push", 2e-6}, {"pipeline", 3e-6}},
                               1e-6,
                               0});
  return certificate;
}

TEST(Certificate, IsReadBack) {
  std::string plain = sampleProgram().encode();
  auto without = ProgramFile::fromMemory(plain);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ((*without)->certificate(), nullptr);
  auto bytes = withCertificate(plain, sampleCertificate());
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  // A second one takes the place of the first.
  auto twice = withCertificate(*bytes, sampleCertificate());
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(*twice, *bytes);
  auto file = ProgramFile::fromMemory(*bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Certificate *certificate = (*file)->certificate();
  ASSERT_NE(certificate, nullptr);
  EXPECT_EQ(toText(*certificate), toText(sampleCertificate()));
  EXPECT_TRUE((*file)->requireProof().ok());
  // What is loaded is the same program.
  EXPECT_EQ((*(*file)->rankProgram(0))->contentHash(),
            (*(*without)->rankProgram(0))->contentHash());
}

TEST(Certificate, IsLostByAChangedProgram) {
  sp::Header header;
  std::string bytes = *withCertificate(sampleProgram().encode(), sampleCertificate());
  std::memcpy(&header, bytes.data(), sizeof header);
  // Another program, valid in itself, before the same certificate.
  ProgramSpec changed = sampleProgram();
  changed.name = "another";
  std::string other = changed.encode();
  other.resize((other.size() + sp::kAlignment - 1) / sp::kAlignment * sp::kAlignment);
  sp::Header otherHeader;
  std::memcpy(&otherHeader, other.data(), sizeof otherHeader);
  otherHeader.certificateOffset = other.size();
  otherHeader.certificateSize = header.certificateSize;
  otherHeader.certificateHash = header.certificateHash;
  other += bytes.substr(header.certificateOffset);
  otherHeader.fileSize = other.size();
  std::memcpy(other.data(), &otherHeader, sizeof otherHeader);
  auto file = ProgramFile::fromMemory(other);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->certificate(), nullptr);
  EXPECT_NE((*file)->requireProof().message().find("has no certificate of its content"),
            std::string::npos);
}

TEST(Certificate, ThatLeavesSomethingOpen) {
  Certificate certificate = sampleCertificate();
  certificate.limits = {"queues: too many mappings"};
  auto file = ProgramFile::fromMemory(*withCertificate(sampleProgram().encode(), certificate));
  ASSERT_TRUE(file.ok());
  EXPECT_NE((*file)->requireProof().message().find("leaves open: queues: too many mappings"),
            std::string::npos);
}

TEST(Certificate, Damaged) {
  std::string whole = *withCertificate(sampleProgram().encode(), sampleCertificate());
  sp::Header header;
  std::memcpy(&header, whole.data(), sizeof header);
  std::string flipped = whole;
  flipped[header.certificateOffset + 20] ^= 1;
  expectError(flipped, "certificate: content hash is");
  auto change = [&](auto how) {
    std::string bytes = whole;
    sp::Header changed = header;
    how(changed);
    std::memcpy(bytes.data(), &changed, sizeof changed);
    return bytes;
  };
  expectError(change([](sp::Header &h) { h.certificateOffset += 8; }), "is not a multiple of 64");
  expectError(change([](sp::Header &h) { h.certificateSize += 1; }), "do not lie inside the file");
  EXPECT_FALSE(withCertificate("no program", sampleCertificate()).ok());
}

TEST(Reader, Truncated) {
  std::string whole = sampleProgram().encode();
  for (size_t size = 0; size < whole.size(); size += 7)
    EXPECT_FALSE(ProgramFile::fromMemory(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(ProgramFile::fromMemory(whole + "x").ok());
}

TEST(Reader, BlobHash) {
  std::string file = sampleProgram().encode();
  file[100] = static_cast<char>(file[100] ^ 1); // in the first rank's blob
  auto opened = ProgramFile::fromMemory(file);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  auto broken = (*opened)->rankProgram(0);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.status().message().find("memory: rank 0: content hash is"), std::string::npos)
      << broken.status().message();
  // Another rank's program is not touched by it.
  EXPECT_TRUE((*opened)->rankProgram(1).ok());
}

TEST(Reader, Ranks) {
  auto file = ProgramFile::fromMemory(sampleProgram().encode());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->numRanks(), 2u);
  EXPECT_TRUE((*file)->hasRank(1));
  EXPECT_FALSE((*file)->hasRank(2));
  EXPECT_FALSE((*file)->hasReference());
  EXPECT_EQ((*file)->rankProgram(2).status().message(),
            "memory: no rank 2: the program is for 2 ranks");
  EXPECT_EQ((*file)->reference().status().message(), "memory: the file has no unsharded reference");
}

TEST(Reader, Reference) {
  ProgramSpec spec = sampleProgram();
  RankSpec reference;
  reference.shards = {{true, 0, {2, 4, 8}, {32, 8, 1}, {2, 4, 8}},
                      {true, 0, {2, 4, 8}, {32, 8, 1}, {2, 4, 8}}};
  uint32_t x = reference.argument(0, 256), y = reference.argument(1, 256);
  reference.copy(0, reference.view(y, DType::F32, {64}), reference.view(x, DType::F32, {64}));
  spec.reference = reference;
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok());
  auto program = (*file)->reference();
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->numRanks(), 1u);
  EXPECT_EQ((*program)->arguments()[0].localShape, (std::vector<int64_t>{2, 4, 8}));
}

TEST(Reader, ReferenceHasNoPeers) {
  ProgramSpec spec = sampleProgram();
  spec.reference = spec.ranks[0];
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok());
  auto program = (*file)->reference();
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("memory: reference: channels[0]: group: rank 1 of 1"),
            std::string::npos)
      << program.status().message();
}

TEST(Reader, ReferenceHasWholeTensors) {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {8});
  spec.reference = spec.ranks[0];
  spec.arguments[x].shape = {16};
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto program = (*file)->reference();
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(
      program.status().message(),
      "memory: reference: shards[0] (argument \"x\"): expected the whole tensor in the unsharded "
      "reference");
}

TEST(Reader, NoMoreTermsThanRanks) {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {8});
  spec.arguments[x].partialTerms = 2;
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().message(), "memory: index: arguments[0] (\"x\"): partial_axes_size: "
                                     "expected at most one term per rank (1), found 2");
}

TEST(Reader, Files) {
  char path[] = "/tmp/tandem-reader-XXXXXX";
  int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  std::string bytes = sampleProgram().encode();
  ASSERT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  auto file = ProgramFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE((*file)->rankProgram(0).ok());
  // It shrinks after it was opened: an error, no fault.
  ASSERT_EQ(::ftruncate(fd, 100), 0);
  auto shrunk = (*file)->rankProgram(1);
  ASSERT_FALSE(shrunk.ok());
  EXPECT_EQ(shrunk.status().code(), Code::Io) << shrunk.status().message();
  ::close(fd);
  ::unlink(path);
  auto none = ProgramFile::open(path);
  EXPECT_EQ(none.status().message(),
            std::string(path) + ": cannot open: No such file or directory");
  EXPECT_EQ(ProgramFile::open("/tmp").status().message(), "/tmp: not a regular file");
}

/// FlatBuffers' own verifier lets elements of 8 bytes begin anywhere.
TEST(Reader, Misaligned) {
  std::string file = sampleProgram().encode();
  auto opened = ProgramFile::fromMemory(file);
  ASSERT_TRUE(opened.ok());
  uint64_t at = (*opened)->index().ranks()->Get(0)->offset();
  std::vector<uint64_t> aligned(file.size() / 8 + 1);
  std::memcpy(aligned.data(), file.data(), file.size());
  auto *blob = reinterpret_cast<uint8_t *>(aligned.data()) + at;
  auto *table = flatbuffers::GetMutableRoot<flatbuffers::Table>(blob);
  // Half an element further on stands the first element's low half, 2: a vector of 2 elements, off
  // by 4 bytes.
  uint8_t *field = table->GetAddressOf(sp::RankProgram::VT_SIGNAL_SLOTS);
  uint32_t offset;
  std::memcpy(&offset, field, 4);
  offset += 4;
  std::memcpy(field, &offset, 4);
  file.assign(reinterpret_cast<const char *>(aligned.data()), file.size());
  ASSERT_TRUE(rehash(file));
  auto program = (*ProgramFile::fromMemory(file))->rankProgram(0);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(
      program.status().message(),
      "memory: rank 0: field signal_slots: not a valid FlatBuffer: the elements are not aligned");
}

/// FlatBuffers are valid without most of their fields.
TEST(Reader, WithoutAField) {
  std::vector<Dropped> all = withoutEachField(sampleProgram().encode());
  EXPECT_GT(all.size(), 50u);
  // Shape and strides of a shard may be absent together.
  for (size_t i = 0, count = all.size(); i < count; ++i)
    if (all[i].field.rfind("Shard", 0) == 0)
      for (Dropped &both : withoutEachField(all[i].bytes))
        if (both.field.rfind("Shard", 0) == 0)
          all.push_back(std::move(both));
  size_t rejected = 0;
  for (const Dropped &dropped : all) {
    auto file = ProgramFile::fromMemory(dropped.bytes);
    if (!file.ok()) {
      EXPECT_EQ(file.status().code(), Code::InvalidProgram) << dropped.field;
      ++rejected;
      continue;
    }
    EXPECT_FALSE(dumpIndex(**file).empty());
    for (uint32_t rank = 0; rank < 2; ++rank) {
      auto program = (*file)->rankProgram(rank);
      if (!program.ok()) {
        EXPECT_EQ(program.status().code(), Code::InvalidProgram) << dropped.field;
        ++rejected;
        continue;
      }
      EXPECT_EQ((*program)->shards().size(), (*program)->arguments().size());
      EXPECT_FALSE(dumpProgram(**program).empty() || dumpKernels(**program).empty());
    }
  }
  EXPECT_GT(rejected, 20u);
  ProgramSpec spec = sampleProgram();
  spec.ranks[1].commands.clear();
  EXPECT_TRUE((*ProgramFile::fromMemory(spec.encode()))->rankProgram(1).ok());
}

TEST(Reader, Limits) {
  ProgramLimits limits;
  limits.maxArenaBytes = 700;
  auto file = ProgramFile::fromMemory(sampleProgram().encode(), limits);
  ASSERT_TRUE(file.ok());
  auto program = (*file)->rankProgram(0);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("field arena_bytes: 704 is over the limit of 700"),
            std::string::npos)
      << program.status().message();
}

/// The limit that a broken file cannot talk its way past is also one that a large program can
/// raise.
TEST(Reader, LargeArena) {
  ProgramSpec spec = sampleProgram();
  spec.ranks[1].arenaBytes = uint64_t(1) << 41;
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_FALSE((*file)->rankProgram(1).ok());
  ProgramLimits limits;
  limits.maxArenaBytes = uint64_t(1) << 42;
  EXPECT_TRUE((*ProgramFile::fromMemory(spec.encode(), limits))->rankProgram(1).ok());
}

} // namespace
} // namespace tandem::test
