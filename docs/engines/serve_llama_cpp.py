"""llama.cpp's server with a pair of models, from the files that `python main.py export` wrote.

python docs/engines/serve_llama_cpp.py 17M.gguf 0.7M-17M.gguf 8080
"""

import sys
import threading

import xllamacpp as llama

params, (target, draft, port) = llama.CommonParams(), sys.argv[1:]
params.model.path, params.port = target, int(port)
params.n_parallel = 1  # requests at a time
params.verbosity = 0
simple = llama.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE
params.speculative.types = [simple]
params.speculative.draft.mparams.path = draft
params.speculative.draft.n_max = 4

server = llama.Server(params)
print(f"{server.listening_address}, until Ctrl-C", flush=True)
threading.Event().wait()
