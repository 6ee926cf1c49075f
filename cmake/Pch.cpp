//===- Pch.cpp - what carries a precompiled header --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A target that owns a precompiled header needs a source file; the header itself is listed in
// TandemTargets.cmake.
//
//===----------------------------------------------------------------------===//
