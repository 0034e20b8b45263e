#!/usr/bin/env bash
# What less precision costs: BLEU on Multi30k de→en, test 2016, lower-cased, with fp32, bf16 and int8.
#   benchmarks/speed/int8_quality.sh DATA_FOLDER MODEL_FOLDER [STEPS]
# DATA_FOLDER holds train, val and test_2016_flickr with the endings .de.gz and .en.gz. A model that is there already
# is used as it is.
set -euo pipefail
usage="usage: benchmarks/speed/int8_quality.sh DATA_FOLDER MODEL_FOLDER [STEPS]"
data=${1:?$usage} model=${2:?$usage} steps=${3:-4000}
if [ ! -e "$model/manifest.json" ]; then
  dragoman train "$data/train.de.gz" "$data/train.en.gz" -o "$model" --recipe bahdanau2015-small \
    --dev "$data/val.de.gz" --dev "$data/val.en.gz" --set data.source.lower=true --set data.target.lower=true \
    --set model.encoder.dropout=0.3 --set model.decoder.dropout=0.3 --set train.batch_tokens=3072 \
    --set "train.max_steps=$steps" --set train.evaluate_every=250
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gunzip -c "$data/test_2016_flickr.de.gz" > "$work/source"
gunzip -c "$data/test_2016_flickr.en.gz" | tr '[:upper:]' '[:lower:]' > "$work/reference"
for beam in 1 5; do
  for precision in fp32 bf16 int8; do
    dragoman predict "$model" "$work/source" --beam "$beam" --precision "$precision" --batch-size 64 > "$work/$precision.$beam"
    bleu=$(dragoman evaluate --hyp "$work/$precision.$beam" --ref "$work/reference" --metric bleu | awk '$1 == "BLEU" {print $2; exit}')
    other=$({ diff "$work/fp32.$beam" "$work/$precision.$beam" || true; } | grep -c '^>' || true)
    echo "beam $beam, $precision: BLEU $bleu, $other of $(wc -l < "$work/source") lines differ from fp32"
  done
done
