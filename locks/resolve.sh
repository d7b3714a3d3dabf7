#!/usr/bin/env bash
# Resolve pyproject.toml into the lock files of this folder, with hashes, for Python 3.11 and newer on all platforms.
# Each file of the chain core, faiss, test, models holds only what those before it lack: they are installed on top of
# each other, without resolving again. torch, and what it brings, is in none of them: the CPU build has other files
# than the registry's; it is installed by its range in pyproject.toml. gpu.txt is whole, for the image of GPU workers.
set -euo pipefail
cd "$(dirname "$0")/.."
export UV_CUSTOM_COMPILE_COMMAND="make lock"
resolve() { "${UV:-.venv/bin/uv}" pip compile --quiet --no-emit-index-url --no-annotate --generate-hashes "$@"; }
universal() { resolve pyproject.toml --universal --python-version 3.11 "$@"; }
names() { sed -n "s/^\($1\)==.*/--no-emit-package \1/p" "${@:2}" | sort -u; }

echo "uv==0.13.9" | resolve - --universal --python-version 3.11 --output-file locks/uv.txt
new=$(mktemp -d)
trap 'rm -r "$new"' EXIT
any='[a-z0-9-]*'
extras=()
before=()
for layer in core faiss test models; do
  extras+=(--extra "${layer/core/all}")  # what a clone runs: all jobs, but no local models
  without=()
  for file in "${before[@]}"; do without+=(--constraints "$file"); done
  # shellcheck disable=SC2046
  universal "${extras[@]}" "${without[@]}" --output-file "$new/whole.txt"
  # shellcheck disable=SC2046
  universal "${extras[@]}" "${without[@]}" $([ ${#before[@]} = 0 ] || names "$any" "${before[@]}") \
    $(names 'torch\|triton\|nvidia-[a-z0-9-]*\|cuda-[a-z0-9-]*' "$new/whole.txt") --output-file "$new/$layer.txt"
  before+=("$new/$layer.txt")
  rm "$new/whole.txt"
done
mv "$new"/*.txt locks/
resolve pyproject.toml --extra all --extra gpu --extra models --python-version 3.12 --python-platform x86_64-manylinux_2_35 \
  --output-file locks/gpu.txt
