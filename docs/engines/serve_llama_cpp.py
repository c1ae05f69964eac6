"""llama.cpp's server with a pair of models, from the files that to_gguf.py wrote.

python docs/engines/serve_llama_cpp.py 17M.gguf 0.7M-17M.gguf 8080
"""

import sys
import threading

try:
    target, draft, port = sys.argv[1:]
    port = int(port)
    import xllamacpp as llama
except ModuleNotFoundError as missing:
    sys.exit(f"error: {missing.name} is not installed: pip install --group engines")
except ValueError:
    sys.exit(f"expected: {__doc__.splitlines()[-1]}")

params = llama.CommonParams()
params.model.path, params.port = target, port
params.n_parallel = 1  # requests at a time
params.verbosity = 0
simple = llama.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE
params.speculative.types = [simple]
params.speculative.draft.mparams.path = draft
params.speculative.draft.n_max = 4

server = llama.Server(params)
print(f"{server.listening_address}, until Ctrl-C", flush=True)
threading.Event().wait()
