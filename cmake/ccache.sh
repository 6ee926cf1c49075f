#!/bin/sh
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ccache.sh CCACHE COMPILER ARGUMENT...: compiles through ccache, so that clones in different folders share the results.
# A precompiled header holds absolute paths: each clone makes its own. In its place ccache hashes what the header says,
# PCH.sum.
set -e
CCACHE_BASEDIR=$(cd "$(dirname "$0")/.." && pwd)
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
ccache=$1
shift
case " $* " in
*' -emit-pch '*) ;;
*/Unity/unity_*)
  # CMake includes the sources by absolute paths: only what they say is the same in all clones.
  unset CCACHE_DEPEND
  exec "$ccache" "$@"
  ;;
*) exec "$ccache" "$@" ;;
esac
"$@"
for argument; do
  shift
  case $argument in
  -emit-pch) argument=-E ;;
  esac
  [ "${previous-}" != -o ] || pch=$argument
  previous=$argument
  set -- "$@" "$argument"
done
# What is included, with its macros (-dD) and without its places (-P). The last -o holds.
"$@" -E -dD -P -Wno-unused-command-line-argument -MF /dev/null -o "$pch.i" || {
  rm -f "$pch" # never next to the hash of another one
  exit 1
}
sha256sum <"$pch.i" >"$pch.sum"
rm "$pch.i"
