#!/usr/bin/env bash
# Three ways for the source to reach the decoder, at equal size: BLEU on Multi30k de→en, test 2016, lower-cased.
#   benchmarks/multi30k.sh DATA_FOLDER OUTPUT_FOLDER
# DATA_FOLDER holds train, val and test_2016_flickr with the endings .de.gz and .en.gz.
set -euo pipefail
usage="usage: benchmarks/multi30k.sh DATA_FOLDER OUTPUT_FOLDER"
data=${1:?$usage} out=${2:?$usage}
common=(--recipe bahdanau2015-small --dev "$data/val.de.gz" --dev "$data/val.en.gz"
  --set data.source.lower=true --set data.target.lower=true
  --set model.encoder.dropout=0.3 --set model.decoder.dropout=0.3
  --set train.batch_tokens=4096 --set train.max_steps=2600)
for way in initial every-step attention; do
  extra=()
  [ "$way" = attention ] || extra=(--set model.attention=null --set "model.decoder.context=$way")
  dragoman train "$data/train.de.gz" "$data/train.en.gz" -o "$out/$way" "${common[@]}" "${extra[@]}"
  for beam in 1 5; do
    echo "$way, beam $beam:"
    dragoman evaluate "$out/$way" "$data"/test_2016_flickr.{de,en}.gz --beam "$beam" --device auto
  done
done
