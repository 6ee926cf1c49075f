//===- CodeObject.cpp - what a code object of an AMD GPU says ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeObject.h"

#include <cstring>
#include <elf.h>
#include <fmt/format.h>

namespace tandem::gpu {

namespace {

constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr uint16_t kMachineAmdGpu = 224; // EM_AMDGPU
constexpr uint32_t kNoteMetadata = 32;   // NT_AMDGPU_METADATA
/// Of nested maps and arrays.
constexpr unsigned kMostDepth = 16;

/// Reads little-endian numbers; `ok` becomes false at the end of the text.
class Reader {
public:
  explicit Reader(std::string_view text) : text(text) {}

  std::string_view take(uint64_t bytes) {
    if (bytes > text.size()) {
      ok = false;
      return {};
    }
    std::string_view taken = text.substr(0, bytes);
    text.remove_prefix(bytes);
    return taken;
  }
  template <typename T> T number() {
    T value{};
    std::string_view from = take(sizeof value);
    if (ok)
      std::memcpy(&value, from.data(), from.size());
    return value;
  }
  /// Of `bytes` bytes, most significant first, as in MessagePack.
  uint64_t bigEndian(unsigned bytes) {
    uint64_t value = 0;
    for (char byte : take(bytes))
      value = value << 8 | static_cast<uint8_t>(byte);
    return value;
  }

  std::string_view text;
  bool ok = true;
};

/// A MessagePack value, as far as it is needed here.
struct Value {
  enum Kind { Other, Number, Text, Array, Map } kind = Other;
  uint64_t number = 0; ///< or, of an array or map, the number of elements or pairs
  std::string_view text;
};

/// The head of the next value; the elements of an array or map follow it.
Value next(Reader &in) {
  auto first = in.number<uint8_t>();
  auto sized = [&](Value::Kind kind, uint64_t size) { return Value{kind, size, {}}; };
  auto text = [&](uint64_t size) { return Value{Value::Text, 0, in.take(size)}; };
  auto skip = [&](uint64_t size) {
    in.take(size);
    return Value{};
  };
  if (first < 0x80)
    return sized(Value::Number, first);
  if (first < 0x90)
    return sized(Value::Map, first & 15);
  if (first < 0xa0)
    return sized(Value::Array, first & 15);
  if (first < 0xc0)
    return text(first & 31);
  switch (first) {
  case 0xc4: // binary
  case 0xc5:
  case 0xc6:
    return skip(in.bigEndian(1u << (first - 0xc4)));
  case 0xc7: // extension
  case 0xc8:
  case 0xc9:
    return skip(in.bigEndian(1u << (first - 0xc7)) + 1);
  case 0xca: // floating point
    return skip(4);
  case 0xcb:
    return skip(8);
  case 0xcc: // unsigned
  case 0xcd:
  case 0xce:
  case 0xcf:
    return sized(Value::Number, in.bigEndian(1u << (first - 0xcc)));
  case 0xd0: // signed
  case 0xd1:
  case 0xd2:
  case 0xd3:
    return skip(uint64_t(1) << (first - 0xd0));
  case 0xd4: // fixed extensions
  case 0xd5:
  case 0xd6:
  case 0xd7:
  case 0xd8:
    return skip((uint64_t(1) << (first - 0xd4)) + 1);
  case 0xd9:
  case 0xda:
  case 0xdb:
    return text(in.bigEndian(1u << (first - 0xd9)));
  case 0xdc:
  case 0xdd:
    return sized(Value::Array, in.bigEndian(2u << (first - 0xdc)));
  case 0xde:
  case 0xdf:
    return sized(Value::Map, in.bigEndian(2u << (first - 0xde)));
  default:
    return {};
  }
}

/// Skips a value and what is in it.
void skipValue(Reader &in, unsigned depth = 0) {
  Value value = next(in);
  bool holds = value.kind == Value::Array || value.kind == Value::Map;
  if (holds && depth == kMostDepth)
    in.ok = false;
  uint64_t count = !holds ? 0 : value.kind == Value::Map ? 2 * value.number : value.number;
  for (uint64_t i = 0; in.ok && i < count; ++i)
    skipValue(in, depth + 1);
}

/// Calls `body(key)` for each pair of the map that is next; `body` reads the value.
template <typename Body> void forEachPair(Reader &in, Body &&body) {
  Value map = next(in);
  in.ok = in.ok && map.kind == Value::Map;
  for (uint64_t i = 0; in.ok && i < map.number; ++i) {
    Value key = next(in);
    body(key.text);
  }
}

template <typename Body> void forEachElement(Reader &in, Body &&body) {
  Value array = next(in);
  in.ok = in.ok && array.kind == Value::Array;
  for (uint64_t i = 0; in.ok && i < array.number; ++i)
    body();
}

void readKernel(Reader &in, KernelParameters &kernels) {
  std::string name;
  std::vector<uint32_t> sizes;
  forEachPair(in, [&](std::string_view key) {
    if (key == ".name") {
      name = next(in).text;
    } else if (key == ".args") {
      forEachElement(in, [&] {
        uint64_t size = 0;
        bool hidden = false;
        forEachPair(in, [&](std::string_view what) {
          if (what == ".size")
            size = next(in).number;
          else if (what == ".value_kind")
            hidden = next(in).text.substr(0, 7) == "hidden_";
          else
            skipValue(in);
        });
        if (!hidden)
          sizes.push_back(static_cast<uint32_t>(size));
      });
    } else {
      skipValue(in);
    }
  });
  if (in.ok)
    kernels[name] = std::move(sizes);
}

Status broken(std::string_view what) {
  return Status(Code::InvalidArgument, fmt::format("code object: {}", what));
}

bool isCodeObject(std::string_view image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header)
    return false;
  std::memcpy(&header, image.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kMachineAmdGpu;
}

/// The notes of a segment; the metadata's text, or empty.
std::string_view metadataIn(std::string_view segment) {
  Reader in(segment);
  auto padded = [](uint32_t size) { return (uint64_t(size) + 3) / 4 * 4; };
  while (in.ok && !in.text.empty()) {
    auto nameSize = in.number<uint32_t>(), size = in.number<uint32_t>();
    auto type = in.number<uint32_t>();
    std::string_view name = in.take(padded(nameSize));
    std::string_view text = in.take(padded(size));
    if (in.ok && type == kNoteMetadata && name.substr(0, 6) == "AMDGPU")
      return text.substr(0, size);
  }
  return {};
}

} // namespace

Expected<std::string_view> selectCodeObject(std::string_view image, std::string_view target) {
  if (isCodeObject(image))
    return image;
  Reader in(image);
  if (in.take(kBundleMagic.size()) != kBundleMagic)
    return broken("expected an ELF file for AMD GPUs or an offload bundle");
  auto count = in.number<uint64_t>();
  std::string found;
  for (uint64_t i = 0; in.ok && i < count; ++i) {
    auto offset = in.number<uint64_t>(), size = in.number<uint64_t>();
    std::string_view id = in.take(in.number<uint64_t>());
    // "hipv4-amdgcn-amd-amdhsa--gfx942"; features may follow the processor: "gfx942:xnack-".
    std::string_view processor = id.substr(0, id.find(':'));
    processor.remove_prefix(processor.rfind('-') + 1); // npos + 1 is 0
    if (!in.ok || id.substr(0, 4) == "host")
      continue;
    if (offset > image.size() || size > image.size() - offset)
      return broken("an entry of the offload bundle lies outside it");
    if (processor == target)
      return image.substr(offset, size);
    found += (found.empty() ? "" : ", ") + std::string(processor);
  }
  if (!in.ok)
    return broken("the offload bundle ends in its table");
  return Status(Code::Unsupported, fmt::format("code object: expected one for {}, found {}", target,
                                               found.empty() ? "none" : found));
}

Expected<KernelParameters> readKernelParameters(std::string_view object) {
  if (!isCodeObject(object))
    return broken("expected an ELF file for AMD GPUs");
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    uint64_t at = header.e_phoff + uint64_t(i) * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    if (at < header.e_phoff || at > object.size() || object.size() - at < sizeof segment)
      return broken("its program headers lie outside it");
    std::memcpy(&segment, object.data() + at, sizeof segment);
    if (segment.p_type != PT_NOTE)
      continue;
    if (segment.p_offset > object.size() || segment.p_filesz > object.size() - segment.p_offset)
      return broken("its notes lie outside it");
    std::string_view text = metadataIn(object.substr(segment.p_offset, segment.p_filesz));
    if (text.empty())
      continue;
    KernelParameters kernels;
    Reader in(text);
    forEachPair(in, [&](std::string_view key) {
      if (key == "amdhsa.kernels")
        forEachElement(in, [&] { readKernel(in, kernels); });
      else
        skipValue(in);
    });
    return in.ok ? Expected<KernelParameters>(std::move(kernels))
                 : broken("its metadata are damaged");
  }
  return broken("it has no metadata");
}

} // namespace tandem::gpu
