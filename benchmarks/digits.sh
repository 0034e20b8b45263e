#!/usr/bin/env bash
# Digits that are spoken, joined and moving: accuracy, word error rate, sentences exactly right.
#   benchmarks/digits.sh DATA_FOLDER OUTPUT_FOLDER [spoken|strings|moving ...]
# DATA_FOLDER holds fsdd and mnist. STEPS sets the length of every training.
set -euo pipefail
data=$1 out=$2; shift 2
here=$(dirname "$0")
python=${PYTHON:-python}
run() { "$python" -m dragoman "$@"; }
common=(--overwrite --set train.schedule=cosine --set train.warmup=100 --set train.patience=null
  --set train.epochs=null --set train.evaluate_every=500)
for task in "${@:-spoken}"; do
  case $task in
    spoken) # one of ten words
      "$python" "$here/digits.py" spoken "$data/fsdd" "$out/spoken"
      run train "$out/spoken/train.tsv" -o "$out/spoken-model" --recipe classify "${common[@]}" \
        --set data.source.kind=sound --set data.source.rate=8000 \
        --set model.encoder.kind=sound --set model.encoder.hidden=128 --set model.encoder.front=32 \
        --set model.encoder.layers=2 --set model.encoder.halvings=0 --set model.encoder.dropout=0.3 \
        --set 'model.encoder.masking={bands: 0.2, times: 0.15}' \
        --set train.batch_size=32 --set train.lr=0.002 --set train.max_steps="${STEPS:-1500}"
      run evaluate "$out/spoken-model" "$out/spoken/test.tsv" --device auto ;;
    strings) # one to five words, by attention
      "$python" "$here/digits.py" strings "$data/fsdd" "$out/strings" --train 8000 --test 1000
      run train "$out/strings/train.tsv" -o "$out/strings-model" --recipe las-small "${common[@]}" \
        --set data.source.rate=8000 --set data.target.units=word \
        --set model.encoder.hidden=128 --set model.encoder.front=32 --set model.encoder.dropout=0.2 \
        --set train.batch_size=64 --set train.lr=0.002 --set train.max_steps="${STEPS:-3000}" \
        --set train.metric=wer
      run evaluate "$out/strings-model" "$out/strings/test.tsv" --metric wer --metric exact --device auto ;;
    moving) # what moves, and where to
      "$python" "$here/digits.py" moving "$data/mnist" "$out/moving" --train 12000 --test 1000
      run train "$out/moving/train.tsv" -o "$out/moving-model" --recipe video-attend "${common[@]}" \
        --set data.source.colour=grey --set data.source.frames=8 \
        --set data.source.height=48 --set data.source.width=48 \
        --set model.encoder.hidden=128 --set 'model.encoder.frame.widths=[32, 64, 128]' \
        --set model.encoder.frame.hidden=256 --set model.decoder.hidden=256 --set model.head.embedding=64 \
        --set train.batch_size=64 --set train.lr=0.001 --set train.max_steps="${STEPS:-3000}" \
        --set train.metric=exact
      run evaluate "$out/moving-model" "$out/moving/test.tsv" --metric exact --metric wer --device auto ;;
  esac
done
