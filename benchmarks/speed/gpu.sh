#!/usr/bin/env bash
# Everything that needs a GPU: the tests there, then training steps (text; pictures and sound; sizes
# widened inside or not), then searches.
#   benchmarks/speed/gpu.sh OUTPUT_FOLDER
# PYTHONPATH must find the package and its tests.
set -uo pipefail
out=${1:?usage: benchmarks/speed/gpu.sh OUTPUT_FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
python -m pytest -q -x --no-header -p no:cacheprovider "$here/../../tests/test_gpu.py" 2>&1 | tail -40
python "$here/train_step.py" cuda --out "$out/train_cuda.json"
python "$here/train_step.py" cuda --only sizes --out "$out/sizes_cuda.json"
python "$here/senses_step.py" cuda "$out/senses_cuda.json"
python "$here/gpu_decode.py" "$out/gpu_decode.json"
