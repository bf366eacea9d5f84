#!/bin/sh
# Serves one checkpoint with omma and with vLLM's CPU build, one after the other, and sends both the
# same images and questions, one at a time or --concurrency at once: prints both tables per image
# size, then the ratios, and writes everything to a JSON file.
set -eu
cd "$(dirname "$0")/.."

usage() {
  cat << 'END'
usage: bench/serve_peers.sh [OPTION VALUE]... [MODEL]

MODEL is a checkpoint directory, by default build/models/qwen3-vl-2b (bench/make_random_model.py --out build/models qwen3-vl-2b).

  --omma PATH           the program (build/release/omma)
  --vllm-python PATH    Python with vllm ($VLLM_PYTHON, else build/vllm-venv/bin/python); none: ours alone
  --plugin yes|no       let vLLM load its plugins, vllm-ommatidia among them where installed (no)
  --sizes LIST          sides of the square images (256,1024)
  --prompts N           requests per size (4)
  --concurrency N       requests at once, and --max-num-seqs of both servers (1)
  --max-model-len N     context of both servers (2048)
  --threads N           of both (as many as there are CPUs)
  --out FILE            the results (build/serve-peers.json)
END
}

model=build/models/qwen3-vl-2b
omma=build/release/omma
vllm_python=${VLLM_PYTHON:-build/vllm-venv/bin/python}
plugin=no
sizes=256,1024
prompts=4
concurrency=1
max_model_len=2048
threads=$(nproc)
out=build/serve-peers.json
while [ $# -gt 0 ]; do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --omma | --vllm-python | --plugin | --sizes | --prompts | --concurrency | --max-model-len | --threads | --out)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      eval "$(echo "${1#--}" | tr - _)=\$2"
      shift 2 ;;
    -*) usage >&2; exit 2 ;;
    *) model=$1; shift ;;
  esac
done
[ -d "$model" ] || { echo "$model: no such directory; see bench/serve_peers.sh --help" >&2; exit 1; }

work=$(mktemp -d)
server=
stop_server() {
  [ -z "$server" ] || { kill "$server" && wait "$server"; } 2> /dev/null || true
  server=
}
trap 'stop_server; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# Waits for /health, or for the end of the server.
wait_until_healthy() {
  while ! python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/health', timeout=2)" 2> /dev/null; do
    kill -0 "$server" 2> /dev/null || { tail -n 20 "$work/log" >&2; echo "the server did not start" >&2; exit 1; }
    sleep 1
  done
}

# SIDE SEED PROMPTS ARGUMENT...: one run of the client. Images of another seed are others, so that
# no cache knows them.
client() {
  side=$1
  seed=$2
  n=$3
  shift 3
  "$omma" bench serve --backend openai-chat --base-url "http://127.0.0.1:$port" --model peer --tokenizer "$model" \
    --dataset-name random-mm --random-input-len 32 --random-output-len 16 --random-mm-base-items-per-request 1 \
    --random-mm-limit-mm-per-prompt '{"image": 1, "video": 0}' --random-mm-bucket-config "{($side, $side, 1): 1.0}" \
    --num-prompts "$n" --seed "$seed" --max-concurrency "$concurrency" --ignore-eos --temperature 0 --ready-check-timeout-sec 0 --disable-tqdm \
    --percentile-metrics ttft,tpot,itl,e2el "$@"
}

measure() {
  wait_until_healthy
  for side in $(echo "$sizes" | tr , ' '); do
    client "$side" 1 1 > "$work/warm-up" 2>&1 || { cat "$work/warm-up" >&2; exit 1; }
    echo "== $1, $side x $side"
    client "$side" 0 "$prompts" --save-result --result-dir "$work" --result-filename "$1-$side.json"
  done
  stop_server
}

"$omma" serve "$model" --served-model-name peer --port "$port" --max-model-len "$max_model_len" --threads "$threads" \
  --dtype bfloat16 --max-num-seqs "$concurrency" --limit-mm-per-prompt '{"image": 1}' --encoder-cache-bytes 0 > "$work/log" 2>&1 &
server=$!
measure omma

if [ -x "$vllm_python" ]; then
  [ "$plugin" = yes ] || export VLLM_PLUGINS=
  # Bound to cores, vLLM would leave one of them to its scheduler. To profile, its start would
  # encode the largest image that the model takes, which lasts most of an hour. It refuses to start
  # unless 0.92 of the machine's memory is free, which the last option lowers (it is the CPU's,
  # whatever its name).
  VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=$threads "$vllm_python" -m vllm.entrypoints.cli.main serve "$model" \
    --served-model-name peer --host 127.0.0.1 --port "$port" --max-model-len "$max_model_len" --dtype bfloat16 \
    --limit-mm-per-prompt '{"image": 1, "video": 0}' --max-num-batched-tokens "$max_model_len" --max-num-seqs "$concurrency" \
    --no-async-scheduling --no-enable-prefix-caching --mm-processor-cache-gb 0 --skip-mm-profiling \
    --gpu-memory-utilization 0.6 > "$work/log" 2>&1 &
  server=$!
  measure vllm
else
  echo "$vllm_python: not there, so omma alone was measured" >&2
fi

mkdir -p "$(dirname "$out")"
python3 - "$work" "$sizes" "$out" "$model" "$threads" "$plugin" << 'END'
import json, pathlib, sys

work, sizes, out, model, threads, plugin = sys.argv[1:]
rows = (("time to first token (ms)", "median_ttft_ms"), ("time per token (ms)", "median_tpot_ms"), ("whole request (ms)", "median_e2el_ms"),
        ("seconds of the whole run", "duration"))
result = {"model": model, "threads": int(threads), "plugin": plugin == "yes", "sizes": {}}
failed = False
print(f"\n{'median':<36}{'omma':>10}{'vLLM':>10}{'vLLM / omma':>14}")
for side in sizes.split(","):
    runs = {name: json.loads(path.read_text()) for name in ("omma", "vllm") if (path := pathlib.Path(work, f"{name}-{side}.json")).exists()}
    failed |= any(run["failed"] for run in runs.values())
    ratios = {key: runs["vllm"][key] / runs["omma"][key] for _, key in rows if "vllm" in runs and runs["omma"][key]}
    result["sizes"][side] = {**runs, "ratios": ratios}
    for title, key in rows:
        values = "".join(f"{runs[name][key]:>10.1f}" if name in runs else f"{'-':>10}" for name in ("omma", "vllm"))
        ratio = f"{ratios[key]:>14.2f}" if key in ratios else f"{'-':>14}"
        print(f"{side + ' x ' + side + ', ' + title:<36}{values}{ratio}")
pathlib.Path(out).write_text(json.dumps(result, indent=1) + "\n")
print(f"written to {out}")
sys.exit(failed)
END
