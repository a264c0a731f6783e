#!/usr/bin/env bash
# urllib3 2.8.0 (PyPI), with its defaults.
#
# One would expect: request("GET", url, timeout=1) of a server that answers 503 gives that answer, at once: no status is
# retried by default (status_forcelist is empty), and whatever is, takes not much more than the second.
# What it does: an answer of 413, 429 or 503 that has Retry-After is retried, though no status is listed. It sleeps as long as
# the answer says, three times, in the middle of the call; neither timeout nor backoff_max count. The limit is six
# hours each: a server that says "Retry-After: 21600" holds the caller for eighteen hours. POST is
# not retried; nor does requests, as it comes, which sets the count to 0.
#
# Seen, of Retry-After: 2:
#   GET, timeout=1                          503 after 6 s, 4 requests
#   GET, timeout=1, backoff_max=0           503 after 6 s, 4 requests
#   GET, respect_retry_after_header=False   503 at once, 1 request
#   POST, timeout=1                         503 at once, 1 request
#   Retry.DEFAULT_RETRY_AFTER_MAX           21600
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'urllib3==2.8.0'

seen=$("$dir/venv/bin/python" - <<'P'
import http.server, threading, time
import urllib3
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global count
        count += 1
        self.send_response(503)
        self.send_header("Retry-After", "2")
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_POST = do_GET
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"
def ask(what, method, **options):
    global count
    count, begin = 0, time.monotonic()
    status = urllib3.PoolManager().request(method, url, timeout=1, **options).status
    print(f"{what}: {status}, {'after 6 s' if time.monotonic() - begin >= 6 else 'at once'}, requests {count}")
ask("GET", "GET")
ask("GET, backoff_max=0", "GET", retries=urllib3.Retry(3, backoff_max=0))
ask("GET, header not respected", "GET", retries=urllib3.Retry(3, respect_retry_after_header=False))
ask("POST", "POST")
print("at most", urllib3.Retry.DEFAULT_RETRY_AFTER_MAX)
P
)
expected='GET: 503, after 6 s, requests 4
GET, backoff_max=0: 503, after 6 s, requests 4
GET, header not respected: 503, at once, requests 1
POST: 503, at once, requests 1
at most 21600'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
