# The service with FFmpeg, Intel's media drivers and a PyAV built for them: docs/hardware.md
ARG DEBIAN=forky

FROM debian:${DEBIAN}-slim AS system
COPY docker/packages/run.txt /tmp/packages/
RUN apt-get update \
    && apt-get install -y --no-install-recommends $(grep -hv '^#' /tmp/packages/run.txt) \
    && rm -rf /var/lib/apt/lists/* /tmp/packages

FROM system AS build
COPY docker/packages/build.txt docker/build-pyav docker/pyav-hw-frames.patch /build/
RUN apt-get update && apt-get install -y --no-install-recommends $(grep -hv '^#' /build/build.txt)
RUN /build/build-pyav /opt/transcoder
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY pipelines pipelines
COPY transcoder transcoder
RUN /opt/transcoder/bin/pip install --no-cache-dir '.[cluster,s3]' \
    && /opt/transcoder/bin/pip uninstall -y setuptools \
    && find /opt/transcoder -type d -name tests -prune -exec rm -rf {} +

FROM system
COPY --from=build /opt/transcoder /opt/transcoder
# group render: the nodes of GPUs belong to it on the host, where its number may be another (see compose.yaml)
RUN (getent group render || groupadd --system render) \
    && useradd --uid 10001 --create-home --groups render,video transcoder \
    && install -d -o transcoder -g transcoder /data
ENV PATH=/opt/transcoder/bin:$PATH TRANSCODER_DATA_DIR=/data TRANSCODER_HOST=0.0.0.0
USER transcoder
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('TRANSCODER_PORT', '8080') + '/healthz', timeout=4)"]
ENTRYPOINT ["transcoder"]
CMD ["serve"]
