#!/usr/bin/env bash
# Install the peers that benchmarks/speed measures, each in a virtual environment of its own, with one torch for all.
#   benchmarks/speed/peers.sh [FOLDER]
# They pin old versions of torch or of small tools: they are installed without their dependencies, and what they
# really import is added. What does not install is left out of the benchmark.
set -u
folder=${1:-${DRAGOMAN_PEERS:-$HOME/.cache/dragoman/peers}}
python=${PYTHON:-python3}
torch="torch==2.13.0"
mkdir -p "$folder"

install() {  # NAME PACKAGE FURTHER...
  local name=$1 package=$2 pip="$folder/$1/bin/pip --disable-pip-version-check"
  shift 2
  [ -e "$folder/$name/.done" ] && return
  echo "$name: $package"
  "$python" -m venv "$folder/$name" &&
    $pip install -q "$torch" &&
    $pip install -q --no-deps "$package" && $pip install -q "$@" && touch "$folder/$name/.done" ||
    echo "$name does not install here: it will not be measured"
}

install opennmt OpenNMT-py==3.5.1 configargparse numpy pyyaml sentencepiece sacrebleu ctranslate2 pyonmttok six tqdm \
  tensorboard waitress flask rapidfuzz safetensors pyahocorasick spacy fasttext-wheel
install joeynmt joeynmt==2.3.0 importlib_metadata numpy pyyaml sentencepiece sacrebleu subword-nmt matplotlib \
  seaborn tensorboard datasets sacremoses packaging portalocker
install yoyodyne yoyodyne==0.5.27 lightning maxwell "jsonargparse[signatures]" numpy omegaconf pandas rich tqdm wandb
