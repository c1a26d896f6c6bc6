# One image for all that is Python in the stack: MLflow server, Ray head, Ray workers. How it is used: docs/deploy.md.
# CPU only, a third of the size: --build-arg PIP_EXTRA_INDEX_URL=(the index of torch's CPU wheels).
ARG PYTHON=3.11.14-slim-bookworm

FROM python:${PYTHON} AS build
ARG PIP_EXTRA_INDEX_URL=
ENV PATH=/opt/keel-lab/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/keel-lab
# Dependencies first: this layer of some GB stays when only our own code has changed.
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*p['dependencies'], *p['optional-dependencies']['stack'], sep='\n')" > needs.txt \
    && pip install --constraint constraints.txt --requirement needs.txt
COPY README.md LICENSE CHANGELOG.md ./
COPY keel_lab keel_lab
COPY trainers trainers
COPY analysis analysis
COPY sweeps sweeps
RUN pip install --no-deps . && pip check

FROM python:${PYTHON}
# /storage is there, and keel's: a new volume takes its owner from the image.
RUN groupadd --gid 10001 keel \
    && useradd --uid 10001 --gid keel --create-home keel \
    && install --directory --owner keel --group keel /storage
COPY --from=build /opt/keel-lab /opt/keel-lab
ENV PATH=/opt/keel-lab/bin:$PATH PYTHONUNBUFFERED=1 GIT_PYTHON_REFRESH=quiet \
    RAY_USAGE_STATS_ENABLED=0 MLFLOW_DISABLE_TELEMETRY=true
USER 10001:10001
WORKDIR /home/keel
CMD ["keel-lab", "--help"]
