# SPDX-License-Identifier: Apache-2.0
# Hora for NVIDIA's GPUs, with PyTorch: an image for every host of a job. From the root of the repository:
#
#   docker build -f docker/cuda.Dockerfile -t hora:cuda .
#   docker run --rm --gpus all hora:cuda hrun -np 2 python examples/04_digits.py --device cuda
#
# The host needs a driver for the CUDA of this major version, and NVIDIA's container toolkit, which brings the driver
# into the container. CUDA is the version of the toolkit that compiles the kernels; TORCH is the version of PyTorch, whose
# wheel brings NCCL and the CUDA libraries that it uses, so the image below has no others.

ARG CUDA=13.0.2
FROM nvidia/cuda:${CUDA}-devel-ubuntu24.04 AS build
ENV DEBIAN_FRONTEND=noninteractive
WORKDIR /src

COPY docker/packages.txt docker/packages.txt
RUN apt-get update \
 && sed 's/#.*//' docker/packages.txt | xargs apt-get install -y --no-install-recommends libopenmpi-dev \
 && rm -rf /var/lib/apt/lists/*

ARG TORCH=2.11.0
RUN python3 -m venv /opt/hora && /opt/hora/bin/pip install --no-cache-dir "torch==$TORCH"

COPY . .
RUN /opt/hora/bin/pip install --no-cache-dir . && cp -r examples /opt/hora/ && rm -rf build \
 && test -e /opt/hora/lib/python3*/site-packages/hora/libhora_nccl.so
# The packages with the libraries that hrun and the module link, for the image below.
RUN ldd /opt/hora/bin/hrun $(find /opt/hora/lib/python3*/site-packages/hora -name '*.so*') \
    | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | grep -v '^/opt/' | sort -u | sed -E 's|.*/([^/]+/[^/]+)$|*/\1|' \
    | xargs dpkg -S | cut -d: -f1 | sort -u > /opt/hora/packages.txt

FROM ubuntu:24.04
COPY --from=build /opt/hora /opt/hora
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends \
    openssh-client openssh-server procps python3 < /opt/hora/packages.txt \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
 && mkdir -p /run/sshd
ENV PATH=/opt/hora/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Which GPUs, and which parts of the driver, the container toolkit brings in.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /opt/hora
CMD ["hrun", "--help"]
