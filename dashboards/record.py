#!/usr/bin/env python3
"""Records recorded/*.prom anew: four scrapes of a busy server of its own, 15 s apart.

    dashboards/record.py target/release/cospan

Three local sites run jobs that succeed, fail and are cancelled; files are copied; all that
one site runs is killed, so that it is charged, and a webhook hears of it; faults are injected
for a while. Takes a minute and needs nothing beyond loopback. Run check_queries.py afterwards.
"""

import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
SCRAPES, STEP_S = 4, 15
SITES = {"amsterdam": 8, "berlin": 6, "cracow": 6}
PLAN = """
for = "20s"
seed = 7
[[inject]]
sites = ["amsterdam"]
fault = "late"
delay = "200ms"
calls = ["submit"]
"""


class Listener(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configuration(home, port, webhook):
    text = f'[server]\ndata_directory = "{home}/data"\nlisten = ["127.0.0.1:{port}"]\n'
    text += f'[notify]\nwebhooks = ["http://127.0.0.1:{webhook}/"]\n[chaos]\nallowed = true\n'
    text += '[sites]\npoll_interval = "1s"\nsettle = "2s"\n'
    for name, processors in SITES.items():
        text += f'[[site]]\nname = "{name}"\nkind = "local"\nroot = "{home}/{name}"\n'
        text += f"processors = {processors}\n"
    for a, b in [("amsterdam", "berlin"), ("amsterdam", "cracow"), ("berlin", "cracow")]:
        text += f'[[link]]\nfrom = "{a}"\nto = "{b}"\nbandwidth = "40Mbit/s"\n'
    return text


def job(name, seconds, sites=(None,), processors=1, reads=False, code=0, priority="low"):
    def component(number, site):
        made = {
            "name": f"part-{number}",
            "processors": processors,
            "executable": "/bin/sh",
            # One that fails ends the others, which are about to run for long.
            "arguments": ["-c", f"sleep {30 * seconds if code and number else seconds}; exit {code}"],
        }
        if site:
            made["site"] = site
        if reads:
            made["input"] = [{"file": "mesh", "path": "mesh.nc"}]
        return made

    components = [component(number, site) for number, site in enumerate(sites)]
    return {"name": name, "wall_time": "5m", "priority": priority, "component": components}


class Server:
    def __init__(self, binary, home):
        self.binary, self.home, self.port = binary, home, free_port()
        listener = http.server.HTTPServer(("127.0.0.1", 0), Listener)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        config = home / "cospan.toml"
        config.write_text(configuration(home, self.port, listener.server_port))
        self.environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        with open(home / "log", "w") as log:
            command = [binary, "serve", "--config", config]
            self.process = subprocess.Popen(command, env=self.environment, stderr=log)
        self.token = None

    def cospan(self, *arguments, **more):
        config = ["--config", self.home / "cospan.toml"]
        command = [self.binary, *arguments, *config]
        return subprocess.run(command, env=self.environment | more, check=True, text=True,
                              capture_output=True).stdout.strip()

    def ask(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def wait_for(self, what, holds):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"not within a minute: {what}; see {self.home}/log")

    def submit(self, *jobs):
        return [made["id"] for made in json.loads(self.ask("/v1/jobs", list(jobs)))["jobs"]]

    def sites(self):
        return {site["name"]: site for site in json.loads(self.ask("/v1/sites"))["sites"]}


def kill_all_at(site):
    """Kills what runs below a site's directory, wrappers and payloads alike."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text() + os.readlink(process / "cwd")
            if f"{site}/" in command:
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            pass  # It has ended, or is not ours.


def begin(server):
    server.wait_for("it serves", lambda: server.ask("/readyz"))
    server.token = (server.home / "data/keys/admin.token").read_text().strip()
    server.cospan("key", "grant", "admin", "--role", "chaos")
    usable = lambda: all(site["state"] == "usable" for site in server.sites().values())
    server.wait_for("all sites are usable", usable)
    files = server.home / "amsterdam/files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "mesh.nc").write_bytes(os.urandom(20_000_000))
    server.ask("/v1/files", {"name": "mesh", "site": "amsterdam", "path": "mesh.nc"})


def trouble(server, number):
    """What happens before the scrape with this number, beside the jobs."""
    if number == 1:
        (server.home / "plan.toml").write_text(PLAN)
        server.cospan("chaos", "inject", server.home / "plan.toml")
        server.submit(job("fails", 1, [None, None], code=3))
        again = job("goes on", 1, [None, None], code=3)
        server.submit(again | {"restart_scope": "component", "max_retries": 2})
    if number == 2:
        ids = server.submit(*(job("lost", 60, ["cracow"]) for _ in range(4)))
        phase = lambda id: json.loads(server.ask(f"/v1/jobs/{id}"))["phase"]["state"]
        server.wait_for("jobs run at cracow", lambda: all(phase(id) == "running" for id in ids))
        kill_all_at(server.home / "cracow")
        unusable = lambda: server.sites()["cracow"]["state"] != "usable"
        server.wait_for("cracow is not usable", unusable)
        server.ask("/v1/jobs:cancel", {"ids": ids})


def record(server):
    begin(server)
    two = ["amsterdam", "berlin"]
    for number in range(SCRAPES):
        since = time.monotonic()
        server.submit(*(job("small", 1) for _ in range(6)),
                      job("together", 3, two, processors=2, priority="high"),
                      job("reads", 2, ["berlin"], reads=True))
        trouble(server, number)
        time.sleep(max(0, STEP_S - (time.monotonic() - since)))
        text = server.ask("/metrics")
        (HERE / "recorded" / f"{number + 1}.prom").write_text(text)


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="cospan-record-") as home:
        server = Server(binary, pathlib.Path(home))
        try:
            record(server)
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
