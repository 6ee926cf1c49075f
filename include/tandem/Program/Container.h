//===- Container.h - the container format of a .tsp file --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A `.tsp` file is this header, then blobs at 64-byte aligned offsets: the `Index`, the rank
// programs, the reference, the `Certificate`. stream_program.fbs describes their contents.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_CONTAINER_H
#define TANDEM_PROGRAM_CONTAINER_H

#include <cstdint>

namespace tandem::sp {

/// First eight bytes of every stream program.
inline constexpr char kMagic[8] = {'T', 'A', 'N', 'D', 'E', 'M', 'S', 'P'};

/// Incremented by every incompatible change of the schema or its meaning.
inline constexpr uint32_t kVersion = 6;

/// Absent view operand.
inline constexpr uint32_t kNoView = 0xffffffffu;

/// Absent channel.
inline constexpr uint16_t kNoChannel = 0xffffu;

/// Alignment in bytes of blobs and of buffers in arenas.
inline constexpr uint64_t kAlignment = 64;

/// The header; little-endian, 64 bytes.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;          ///< 0
  uint64_t fileSize;          ///< bytes of the whole file
  uint64_t indexOffset;       ///< from the start of the file
  uint64_t indexSize;         ///< bytes
  uint64_t indexHash;         ///< XXH3-64 of the index blob, which holds the hashes of the programs
  uint64_t certificateOffset; ///< from the start of the file; 0: there is none
  uint32_t certificateSize;   ///< bytes
  uint32_t certificateHash;   ///< the low half of its XXH3-64
};
static_assert(sizeof(Header) == kAlignment);

} // namespace tandem::sp

#endif // TANDEM_PROGRAM_CONTAINER_H
