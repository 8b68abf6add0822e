#!/usr/bin/env bash
# The work of the page from a shell: look, rewrite, judge, keep, do it again.
set -euo pipefail
fxopt=${FXOPT:-fxopt}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

$fxopt scan digits_transformer --most 2
$fxopt apply digits_transformer -p MergeLinears -p ChangeTrueDivToMulByInverse --save "$folder/work.json"
$fxopt compare digits_transformer --recipe "$folder/work.json" --markdown  # exit code 1: more than rounding
$fxopt reverse digits_transformer --all
$fxopt replay "$folder/work.json" --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["is_same"]'
$fxopt draw digits_transformer -p MergeLinears -o "$folder/graph.svg"
