"""Submits a job, watches it and fetches what it left, by a client that is generated from the
OpenAPI document."""

import os
import time

from client import AuthenticatedClient
from client.api.events import get_events
from client.api.files import get_files_name, post_files
from client.api.jobs import (
    get_jobs,
    get_jobs_id,
    get_jobs_id_events,
    get_jobs_id_logs_component_stream,
    get_jobs_id_outputs_component_path,
    post_jobs,
    post_jobs_cancel,
)
from client.api.sites import post_sites_name_drain, post_sites_name_undrain
from client.models import (
    CheckedReport,
    ComponentDocument,
    FileRegistration,
    JobDocument,
    JobSelection,
    OutputDocument,
    Problem,
    StreamName,
    SubmittedReport,
)

PATIENCE_S = 60
server = AuthenticatedClient(
    base_url=os.environ["COSPAN_SERVER"],
    token=os.environ["COSPAN_TOKEN"],
    timeout=PATIENCE_S,
    raise_on_unexpected_status=True,
)


def job(name, script, **more):
    solver = ComponentDocument(
        name="solver",
        processors=1,
        executable="/bin/sh",
        arguments=["-c", script],
        **more,
    )
    return JobDocument(name=name, wall_time="10m", component=[solver])


def wait(job_id):
    """The job once it has ended, after every change that is told of it."""
    asked = get_events._get_kwargs(job=job_id, after=0)
    with server.get_httpx_client().stream(**asked) as changes:
        for line in changes.iter_lines():
            report = get_jobs_id.sync(job_id, client=server)
            if report.phase.state in ("finished", "failed", "cancelled"):
                return report
    raise SystemExit(f"the stream ended before job {job_id}")


# Checked first, then submitted twice under one name: one job.
hello = job(
    "hello",
    "echo hello; mkdir out; echo 42 > out/result.txt",
    output=[OutputDocument(path="out/result.txt")],
)
checked = post_jobs.sync(body=hello, client=server, dry_run=True)
assert isinstance(checked, CheckedReport), checked
assert checked.jobs[0].verdicts, checked
submitted = post_jobs.sync(body=hello, client=server, idempotency_key="first")
assert isinstance(submitted, SubmittedReport), submitted
again = post_jobs.sync(body=hello, client=server, idempotency_key="first")
assert again.jobs[0].id == submitted.jobs[0].id and again.jobs[0].repeated, again
first = submitted.jobs[0].id

report = wait(first)
assert report.phase.state == "finished", report
assert report.components[0].site in ("delft", "leiden"), report
history = get_jobs_id_events.sync(first, client=server)
assert history.events[0].event == "JobSubmitted", history
said = get_jobs_id_logs_component_stream.sync_detailed(
    first, "solver", StreamName.STDOUT, client=server
)
assert said.content == b"hello\n", said
left = get_jobs_id_outputs_component_path.sync_detailed(
    first, "solver", "out/result.txt", client=server
)
assert left.content == b"42\n", left

# An array of jobs, and an order for one of them.
several = post_jobs.sync(
    body=[job("one", "sleep 600"), job("two", "sleep 600")], client=server
)
ids = [row.id for row in several.jobs]
assert len(ids) == 2, several
cancelled = post_jobs_cancel.sync(body=JobSelection(ids=ids), client=server)
assert [row.id for row in cancelled.jobs] == ids, cancelled
assert wait(ids[0]).phase.state == "cancelled"
page = get_jobs.sync(client=server, newest=True, limit=2)
assert [row.id for row in page.jobs] == ids[::-1], page

# A site, a file, and a problem document where there is none.
assert post_sites_name_drain.sync("leiden", client=server).done
assert post_sites_name_undrain.sync("leiden", client=server).done
missing = post_files.sync(
    body=FileRegistration(name="mesh", site="delft", path="no/such"), client=server
)
assert isinstance(missing, Problem) and missing.status == 404, missing
assert get_files_name.sync("no/such", client=server).code == "C3001"
print("a generated client submitted, watched and fetched")
