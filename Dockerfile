# Plimsoll's image: agent and webhook. docker buildx build --platform linux/amd64,linux/arm64 .
#
# The first stage runs the builder that `make image` runs without Docker (tests/image): packages of Debian and wheels of
# PyPI by version and checksum, no installer's traces. The second stage takes its layers and nothing else: no shell, no
# package manager, no compiler, no pip. Security fixes come by `python -m tests.image lock`, not by a newer base: of the
# base nothing gets into the image but what its compiler makes of the C sampler.
ARG BASE=docker.io/library/debian:bookworm-20260610-slim@sha256:96e378d7e6531ac9a15ad505478fcc2e69f371b10f5cdf87857c4b8188404716

# On the machine that builds, for the machine that is built for: a compiler is all that this takes, no emulation.
# (buildah 1.28 does not say where it runs: --build-arg BUILDPLATFORM=linux/amd64.)
FROM --platform=$BUILDPLATFORM ${BASE} AS build
ARG TARGETARCH
RUN case "${TARGETARCH:?}-on-$(dpkg --print-architecture)" in \
      arm64-on-amd64) foreign="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;; \
      amd64-on-arm64) foreign="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;; \
    esac \
    && apt-get update \
    && apt-get install -y --no-install-recommends debian-archive-keyring gcc libc6-dev python3-dev python3-pip ${foreign:-}
WORKDIR /plimsoll
COPY . .
RUN python3 -m tests.image layers /layers --arch "${TARGETARCH}"

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="Plimsoll" \
      org.opencontainers.image.description="Sizes Kubernetes pods from the node: samples cgroups, recommends requests, resizes in place" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
# By how often they change: a node that has the last release fetches only the last layer of the next.
COPY --from=build /layers/debian/ /
COPY --from=build /layers/python/ /
COPY --from=build /layers/plimsoll/ /
ENV PATH=/usr/bin LANG=C.UTF-8 OPENBLAS_NUM_THREADS=1
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/usr/bin/plimsoll"]
