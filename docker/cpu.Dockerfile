# SPDX-License-Identifier: Apache-2.0
# Hora for CPUs, with PyTorch: an image for every host of a job. From the root of the repository:
#
#   docker build -f docker/cpu.Dockerfile -t hora:cpu .
#   docker build -f docker/cpu.Dockerfile -t hora:build --target build .      # with compiler, sources and all tools
#
# TORCH is the version of PyTorch, "" for none; TORCH_INDEX is where pip finds it: builds for CPUs are a tenth as large.

FROM debian:bookworm-slim AS build
ENV DEBIAN_FRONTEND=noninteractive
WORKDIR /src

COPY docker/packages.txt docker/packages.txt
RUN apt-get update \
 && sed 's/#.*//' docker/packages.txt | xargs apt-get install -y --no-install-recommends libopenmpi-dev \
 && rm -rf /var/lib/apt/lists/*

ARG TORCH=2.11.0
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python3 -m venv /opt/hora \
 && if [ -n "$TORCH" ]; then /opt/hora/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" "torch==$TORCH"; fi

COPY . .
RUN /opt/hora/bin/pip install --no-cache-dir . && cp -r examples /opt/hora/ && rm -rf build
# The packages with the libraries that hrun and the module link, for the image below.
RUN ldd /opt/hora/bin/hrun $(find /opt/hora/lib/python3*/site-packages/hora -name '*.so*') \
    | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | grep -v '^/opt/' | sort -u | sed -E 's|.*/([^/]+/[^/]+)$|*/\1|' \
    | xargs dpkg -S | cut -d: -f1 | sort -u > /opt/hora/packages.txt

FROM debian:bookworm-slim
COPY --from=build /opt/hora /opt/hora
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends \
    openssh-client openssh-server procps python3 < /opt/hora/packages.txt \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
 && mkdir -p /run/sshd
ENV PATH=/opt/hora/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /opt/hora
CMD ["hrun", "--help"]
