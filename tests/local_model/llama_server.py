"""llama.cpp's server for one GGUF file, run by a Python that has xllamacpp: WEIGHTS CONTEXT THREADS HOW.

Prints its address once it listens, and ends with its stdin. HOW it chooses words is `greedy`, always the likeliest, or
`sampled` as llama.cpp does by itself, with a fixed seed and Ollama's usual penalty for repetition.
"""

import importlib
import sys
from typing import Any


def main() -> None:
    weights, context, threads, how = sys.argv[1:]
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {"local"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx, params.n_parallel, params.n_gpu_layers = int(context), 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(threads)
    params.use_jinja, params.ui = True, False
    if how == "greedy":
        params.sampling.temp = 0.0
    else:
        params.sampling.seed, params.sampling.penalty_repeat = 1, 1.1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
