#!/usr/bin/env bash
# sseclient-py 1.9.0 and httpx-sse 0.4.3 (PyPI): readers of event streams (text/event-stream).
#
# One would expect: as the standard says, an event is given once the empty line after it has come; what is unfinished when the
# stream ends is thrown away; and a block without data (a new retry time, say) is no event.
# What they do: sseclient-py gives the unfinished one as well. A server that stops amid "data: 1200" and ends the answer in order
# leaves an event "120", or one whose second line is missing, and nothing tells it from a whole one. httpx-sse throws it
# away, but makes events with empty data of blocks without data; sseclient-py does not.
#
# Seen, data of the events of: 7, a retry time alone, and, cut off by the end, 120:
#   sseclient-py   '7' '120'
#   httpx-sse      '7' ''
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'sseclient-py==1.9.0' 'urllib3==2.8.0' 'httpx-sse==0.4.3' 'httpx==0.28.1'

seen=$("$dir/venv/bin/python" - <<'P'
import http.server, threading
import httpx, httpx_sse, sseclient, urllib3
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (b"data: 7\n\n", b"retry: 2000\n\n", b"data: 120", b""):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"
answer = urllib3.PoolManager().request("GET", url, preload_content=False)
print("sseclient-py:", *(repr(event.data) for event in sseclient.SSEClient(answer).events()))
with httpx.Client(trust_env=False) as client, httpx_sse.connect_sse(client, "GET", url) as source:
    print("httpx-sse:", *(repr(event.data) for event in source.iter_sse()))
P
)
expected="sseclient-py: '7' '120'
httpx-sse: '7' ''"
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
