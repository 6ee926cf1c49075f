# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The toolchain of tools/dev, for a clone that is mounted at /tandem (.devcontainer/ uses it):
#   docker build -t tandem . && docker run --rm -it -v "$PWD:/tandem" tandem tools/dev test
FROM debian:12
COPY tools/dev /opt/setup/tools/dev
RUN /opt/setup/tools/dev setup && rm -rf /var/lib/apt/lists/* && git config --system --add safe.directory /tandem
WORKDIR /tandem
