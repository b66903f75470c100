"""llama.cpp's own server out of the package xllamacpp, with those of llama-server's flags that engine.sh uses.

The package has the server as a library, so that nothing is compiled: its routes, slots and metrics are llama.cpp's.
"""

import argparse
import signal

import xllamacpp

parser = argparse.ArgumentParser(prog="llama_server.py", allow_abbrev=False)
parser.add_argument("-m", "--model", required=True)
parser.add_argument("--alias", required=True)
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("-c", "--ctx-size", type=int, default=0)
parser.add_argument("-np", "--parallel", type=int, default=1)
parser.add_argument("-b", "--batch-size", type=int, default=2048)
parser.add_argument("-ub", "--ubatch-size", type=int, default=512)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--threads-batch", type=int, default=1)
parser.add_argument("--threads-http", type=int, default=8)
parser.add_argument("--cache-ram", type=int, default=8192)
parser.add_argument("--chat-template-file")
parser.add_argument("--swa-full", action="store_true")
parser.add_argument("--no-repack", action="store_true")
parser.add_argument("--metrics", action="store_true")
parser.add_argument("--no-ui", action="store_true")
args = parser.parse_args()

params = xllamacpp.CommonParams()
params.model.path = args.model
params.model_alias = {args.alias}
params.hostnames = [args.host]
params.port = args.port
params.n_ctx = args.ctx_size
params.n_parallel = args.parallel
params.n_batch = args.batch_size
params.n_ubatch = args.ubatch_size
params.cpuparams.n_threads = args.threads
params.cpuparams_batch.n_threads = args.threads_batch
params.n_threads_http = args.threads_http
params.cache_ram_mib = args.cache_ram
params.swa_full = args.swa_full
params.no_extra_bufts = args.no_repack
params.endpoint_metrics = args.metrics
params.ui = not args.no_ui
if args.chat_template_file:
    with open(args.chat_template_file, encoding="utf-8", newline="") as f:
        params.chat_template = f.read()

# Blocked in the server's threads too, which start with it: a signal ends the process here and nowhere else.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
server = xllamacpp.Server(params)
print("listening on", server.listening_address, flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
