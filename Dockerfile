# The chat and its servers. Build: docker build -t rkllm-chat .
# On an RK3588 board, mount Rockchip's runtime and the NPU:
#   docker run -it --rm --device /dev/dri --device /dev/dma_heap \
#     -v /usr/lib/librkllmrt.so:/usr/lib/librkllmrt.so:ro -v "$HOME/models:/models:ro" rkllm-chat --model /models/MODEL.rkllm
FROM python:3.13-slim-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends cmake=3.* g++=4:12.* make=4.* \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY docs docs
COPY packaging/metadata.py packaging/documentation.py packaging/
COPY models/tiny-tools/tiny-tools.gguf models/tiny-tools/
COPY rkllm_chat rkllm_chat
# The wheel of llama.cpp must run on other processors than that of this machine: on Arm on those with the dot products that
# models of 4 and 8 bits need, as of RK3588, RK3566 and RK3568 (Cortex-A76, A55). RK3576, RK3562 and RV1126B (A72, A53) have
# none: --build-arg CMAKE_ARGS=-DGGML_NATIVE=OFF builds it for all.
ARG CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod+fp16"
# hadolint ignore=DL3013 # the version is that of this checkout
RUN pip install --no-cache-dir --prefix /install '.[npu]'

FROM python:3.13-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap=0.* libgomp1=12.* \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 chat
COPY --from=build /install /usr/local
USER 1000
WORKDIR /home/chat
ENV LANG=C.UTF-8
# sessions, logins, tokens and the program's own log
VOLUME /home/chat/.local/state/rkllm-chat
EXPOSE 8080
ENTRYPOINT ["rkllm-chat"]
