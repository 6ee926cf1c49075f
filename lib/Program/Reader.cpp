//===- Reader.cpp - opening a .tsp file ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include "tandem/Program/Program.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <numeric>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

namespace tandem {
namespace program {

std::shared_ptr<std::byte> allocateAligned(uint64_t size) {
  uint64_t rounded = (size + sp::kAlignment - 1) / sp::kAlignment * sp::kAlignment;
  if (rounded < size)
    return nullptr;
  void *memory = std::aligned_alloc(sp::kAlignment, rounded ? rounded : sp::kAlignment);
  return std::shared_ptr<std::byte>(static_cast<std::byte *>(memory),
                                    [](std::byte *p) { std::free(p); });
}

std::string_view ProgramImpl::name() const { return indexTable->name()->string_view(); }

std::string_view ProgramImpl::nameText(uint32_t name) const {
  const auto *names = table->names();
  if (!names || name >= names->size())
    return "";
  return names->Get(name)->text()->string_view();
}

namespace {

/// Where the bytes of a file come from.
class Source {
public:
  ~Source() {
    if (fd >= 0)
      ::close(fd);
  }
  /// Reads a range of the file. Not mmap: a file that shrinks meanwhile must be an error, not a
  /// fault.
  Expected<Bytes> read(uint64_t offset, uint64_t length) const {
    if (fd < 0)
      return Bytes{std::shared_ptr<const std::byte>(memory, memory.get() + offset), length};
    auto data = allocateAligned(length);
    if (!data)
      return Status(Code::OutOfMemory, fmt::format("no memory for {} bytes of the file", length));
    uint64_t done = 0;
    while (done < length) {
      ssize_t n = ::pread(fd, data.get() + done, length - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return Status(Code::Io, fmt::format("cannot read {} bytes at {}: {}", length, offset,
                                            n == 0 ? "file ended" : std::strerror(errno)));
      done += static_cast<uint64_t>(n);
    }
    return Bytes{std::move(data), length};
  }

  int fd = -1;
  std::shared_ptr<const std::byte> memory;
  uint64_t size = 0;
  std::string name;
};

class ProgramFileImpl final : public ProgramFile {
public:
  ProgramFileImpl(std::unique_ptr<Source> source, const ProgramLimits &limits)
      : source(std::move(source)), limits(limits) {}

  std::string_view name() const override { return table->name()->string_view(); }
  uint32_t numRanks() const override { return table->num_ranks(); }
  bool hasRank(uint32_t rank) const override {
    return rank < numRanks() && table->ranks()->Get(rank)->size() != 0;
  }
  bool hasReference() const override {
    return table->reference() && table->reference()->size() != 0;
  }
  const sp::Index &index() const override { return *table; }
  const Certificate *certificate() const override { return proof ? &*proof : nullptr; }

  Expected<std::shared_ptr<const Program>> rankProgram(uint32_t rank) const override {
    if (rank >= numRanks())
      return Status(Code::InvalidArgument,
                    fmt::format("{}: no rank {}: the program is for {} ranks", source->name, rank,
                                numRanks()));
    if (!hasRank(rank))
      return Status(Code::InvalidArgument,
                    fmt::format("{}: the file does not hold rank {} (compiled with --rank?)",
                                source->name, rank));
    return load(*table->ranks()->Get(rank), rank, numRanks(), false);
  }

  Expected<std::shared_ptr<const Program>> reference() const override {
    if (!hasReference())
      return Status(Code::InvalidArgument,
                    fmt::format("{}: the file has no unsharded reference", source->name));
    return load(*table->reference(), 0, 1, true);
  }

  Status open() {
    Status status = readIndex();
    return status.withPrefix(source->name + ": ");
  }

private:
  Status readIndex() {
    if (source->size < sizeof(sp::Header))
      return invalid("not a stream program: {} bytes, expected at least {}", source->size,
                     sizeof(sp::Header));
    TANDEM_ASSIGN_OR_RETURN(Bytes headerBytes, source->read(0, sizeof(sp::Header)));
    sp::Header header;
    std::memcpy(&header, headerBytes.begin(), sizeof header);
    if (std::memcmp(header.magic, sp::kMagic, sizeof header.magic) != 0)
      return invalid("not a stream program: header field magic is wrong");
    if (header.version != sp::kVersion)
      return invalid("header field version: found {}, expected {}", header.version, sp::kVersion);
    if (header.reserved != 0)
      return invalid("header field reserved: expected 0, found {}", header.reserved);
    if (header.fileSize != source->size)
      return invalid("header field fileSize: says {} bytes, the file has {}", header.fileSize,
                     source->size);
    TANDEM_RETURN_IF_ERROR(
        checkRange("header field indexOffset", header.indexOffset, header.indexSize));
    TANDEM_ASSIGN_OR_RETURN(indexBytes, source->read(header.indexOffset, header.indexSize));
    uint64_t found = XXH3_64bits(indexBytes.begin(), indexBytes.size);
    if (found != header.indexHash)
      return invalid("index: content hash is {:016x}, the header says {:016x}", found,
                     header.indexHash);
    hash = header.indexHash;
    flatbuffers::Verifier verifier(indexBytes.begin(), indexBytes.size, /*max_depth=*/16,
                                   /*max_tables=*/1u << 30);
    if (!verifier.VerifyBuffer<sp::Index>(nullptr))
      return invalid("index: not a valid FlatBuffer");
    table = flatbuffers::GetRoot<sp::Index>(indexBytes.begin());
    TANDEM_RETURN_IF_ERROR(verifyIndex(*table, source->size));
    return header.certificateOffset == 0 ? Status() : readCertificate(header);
  }

  Status readCertificate(const sp::Header &header) {
    TANDEM_RETURN_IF_ERROR(checkRange("header field certificateOffset", header.certificateOffset,
                                      header.certificateSize));
    TANDEM_ASSIGN_OR_RETURN(Bytes bytes,
                            source->read(header.certificateOffset, header.certificateSize));
    auto found = static_cast<uint32_t>(XXH3_64bits(bytes.begin(), bytes.size));
    if (found != header.certificateHash)
      return invalid("certificate: content hash is {:08x}, the header says {:08x}", found,
                     header.certificateHash);
    TANDEM_ASSIGN_OR_RETURN(proof, decodeCertificate(bytes, header.indexHash));
    return Status();
  }

  Status checkRange(std::string_view what, uint64_t offset, uint64_t size) const {
    if (offset % sp::kAlignment != 0)
      return invalid("{}: {} is not a multiple of {}", what, offset, sp::kAlignment);
    if (offset < sizeof(sp::Header) || offset > source->size || size > source->size - offset)
      return invalid("{}: {} bytes at {} do not lie inside the file of {} bytes", what, size,
                     offset, source->size);
    return Status();
  }

  Expected<std::shared_ptr<const Program>> load(const sp::Blob &blob, uint32_t rank, uint32_t ranks,
                                                bool isReference) const {
    std::string where = isReference ? fmt::format("{}: reference: ", source->name)
                                    : fmt::format("{}: rank {}: ", source->name, rank);
    auto program = std::make_shared<ProgramImpl>();
    program->sourceName = source->name;
    program->thisRank = rank;
    program->ranks = ranks;
    program->reference = isReference;
    program->hash = hash;
    program->indexBytes = indexBytes;
    program->indexTable = table;
    Status status = loadInto(*program, blob);
    if (!status.ok())
      return status.withPrefix(where);
    return std::shared_ptr<const Program>(std::move(program));
  }

  Status loadInto(ProgramImpl &program, const sp::Blob &blob) const {
    TANDEM_RETURN_IF_ERROR(checkRange("blob", blob.offset(), blob.size()));
    TANDEM_ASSIGN_OR_RETURN(program.bytes, source->read(blob.offset(), blob.size()));
    uint64_t found = XXH3_64bits(program.bytes.begin(), program.bytes.size);
    if (found != blob.hash())
      return invalid("content hash is {:016x}, the index says {:016x}", found, blob.hash());
    flatbuffers::Verifier verifier(program.bytes.begin(), program.bytes.size, /*max_depth=*/16,
                                   /*max_tables=*/1u << 30);
    if (!verifier.VerifyBuffer<sp::RankProgram>(nullptr))
      return invalid("not a valid FlatBuffer");
    program.table = flatbuffers::GetRoot<sp::RankProgram>(program.bytes.begin());
    TANDEM_RETURN_IF_ERROR(verifyRankProgram(program, limits));
    const sp::RankProgram *stored = program.table;
    TANDEM_RETURN_IF_ERROR(expandExchanges(program));
    return program.table == stored ? Status() : verifyRankProgram(program, limits);
  }

  std::unique_ptr<Source> source;
  ProgramLimits limits;
  Bytes indexBytes;
  uint64_t hash = 0;
  const sp::Index *table = nullptr;
  std::optional<Certificate> proof;
};

Expected<std::shared_ptr<const ProgramFile>> openSource(std::unique_ptr<Source> source,
                                                        const ProgramLimits &limits) {
  auto file = std::make_shared<ProgramFileImpl>(std::move(source), limits);
  TANDEM_RETURN_IF_ERROR(file->open());
  return std::shared_ptr<const ProgramFile>(std::move(file));
}

} // namespace
} // namespace program

Program::~Program() = default;

uint64_t Program::id() const { return index().id() ? index().id() : contentHash(); }

ProgramFile::~ProgramFile() = default;

uint64_t ArgumentInfo::localBytes() const {
  return Layout::dense(dtype, localShape.data(), static_cast<unsigned>(localShape.size()))
      .numBytes();
}

Shard program::shardOf(const sp::Shard &stored, const std::vector<int64_t> &localShape) {
  Shard shard;
  shard.present = stored.present();
  shard.offset = stored.offset();
  shard.term = stored.term();
  if (stored.shape())
    shard.shape.assign(stored.shape()->begin(), stored.shape()->end());
  if (stored.strides())
    shard.strides.assign(stored.strides()->begin(), stored.strides()->end());
  auto count =
      std::accumulate(localShape.begin(), localShape.end(), int64_t(1), std::multiplies<>());
  if (stored.present() && shard.numElements() != count)
    shard.local = localShape;
  return shard;
}

std::vector<Shard> program::ProgramImpl::shards() const {
  std::vector<Shard> result;
  for (uint32_t i = 0; i < args.size(); ++i)
    result.push_back(shardOf(*table->shards()->Get(i), args[i].localShape));
  return result;
}

Expected<std::shared_ptr<const ProgramFile>> ProgramFile::open(const std::string &path,
                                                               const ProgramLimits &limits) {
  auto source = std::make_unique<program::Source>();
  source->name = path;
  // Opening a pipe must not wait for its writer.
  source->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info{};
  if (source->fd < 0 || ::fstat(source->fd, &info) != 0)
    return Status(Code::Io, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return Status(Code::Io, fmt::format("{}: not a regular file", path));
  source->size = static_cast<uint64_t>(info.st_size);
  return program::openSource(std::move(source), limits);
}

Expected<std::shared_ptr<const ProgramFile>> ProgramFile::fromMemory(std::string_view bytes,
                                                                     const ProgramLimits &limits) {
  auto source = std::make_unique<program::Source>();
  source->name = "memory";
  auto copy = program::allocateAligned(bytes.size());
  if (!copy)
    return Status(Code::OutOfMemory, "memory: no memory for the stream program");
  if (!bytes.empty())
    std::memcpy(copy.get(), bytes.data(), bytes.size());
  source->memory = std::move(copy);
  source->size = bytes.size();
  return program::openSource(std::move(source), limits);
}

} // namespace tandem
