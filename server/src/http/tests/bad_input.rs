//! Bad input gets a clear error.

use super::*;

#[test]
fn a_body_that_is_no_json_is_refused_with_its_place() {
    let served = TestServer::start();
    for wrong in [
        "", " ", "{", "nonsense", "{\"a\":}", "null", "3", "\"x\"", "[[]]", "{}x", "[1]",
    ] {
        served.submit(wrong).problem(400, "C1001");
    }
    let problem = served
        .submit("{\n \"wall_time\": \"1h\",\n ]")
        .problem(400, "C1001");
    assert!(problem.detail.contains("line 3"), "{problem}");
}

#[test]
fn invalid_utf_8_is_refused() {
    let served = TestServer::start();
    for place in ["wave", "10m", "/bin/true"] {
        let text = job_document().to_string();
        let at = text.find(place).unwrap();
        let mut bytes = text.into_bytes();
        bytes[at] = 0xff;
        served
            .send("POST", "/v1/jobs", Some(&bytes))
            .problem(400, "C1001");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_path_and_the_nearest_known_one() {
    let served = TestServer::start();
    let text = job_document()
        .to_string()
        .replacen("processors", "procesors", 1);
    let problem = served.submit(&text).problem(400, "C1001");
    assert_eq!(problem.key.as_deref(), Some("component[0].procesors"));
    assert_eq!(problem.nearest.as_deref(), Some("processors"));
    assert_eq!(
        problem.remedy.as_deref(),
        Some("did you mean `processors`?")
    );
}

#[test]
fn zero_negative_and_huge_numbers_are_refused() {
    let served = TestServer::start();
    for wrong in [
        "0",
        "-1",
        "4294967296",
        "1e99",
        "123456789012345678901234567890",
        "1.5",
    ] {
        let text = job_document()
            .to_string()
            .replace("\"processors\":2", &format!("\"processors\":{wrong}"));
        let problem = served.submit(&text).problem(400, "C1001");
        assert_eq!(
            problem.key.as_deref(),
            Some("component[0].processors"),
            "{problem}"
        );
    }
    for wrong in ["0s", "99999999999d", "1000000h", "-1s", "10"] {
        let text = job_document().to_string().replace("10m", wrong);
        let reply = served.submit(&text);
        assert!(matches!(reply.status, 400 | 422), "{wrong}");
    }
}

#[test]
fn too_many_components_are_refused() {
    let served = TestServer::start();
    let mut job = job_document();
    let component = job["component"][0].clone();
    job["component"] = (0..1001)
        .map(|i| {
            let mut component = component.clone();
            component["name"] = format!("c{i}").into();
            component
        })
        .collect();
    let problem = served.submit(&job.to_string()).problem(422, "C1102");
    assert!(
        problem.detail.contains("1001") && problem.detail.contains("1000"),
        "{problem}"
    );
    job["component"].as_array_mut().unwrap().pop();
    assert_eq!(served.submit(&job.to_string()).status, 201);
}

#[test]
fn an_empty_job_and_an_empty_array_are_refused() {
    let served = TestServer::start();
    served.submit("[]").problem(422, "C1106");
    let problem = served
        .submit(r#"{"wall_time":"1h","component":[]}"#)
        .problem(422, "C1101");
    assert!(problem.detail.contains("no components"), "{problem}");
}

#[test]
fn a_thousand_jobs_are_enough_for_one_request() {
    let served = TestServer::start();
    let jobs: Vec<Value> = (0..1001).map(|_| job_document()).collect();
    served
        .submit(&serde_json::to_string(&jobs).unwrap())
        .problem(422, "C1105");
    assert_eq!(
        served
            .submit(&serde_json::to_string(&jobs[..1000]).unwrap())
            .status,
        201
    );
}

#[test]
fn a_body_over_the_limit_is_refused_announced_or_not() {
    let served = TestServer::start_with(|settings| settings.max_body_bytes = 10_000);
    let long = named_job_document(&"x".repeat(20_000)).to_string();
    served.submit(&long).problem(413, "C5001");
    // Chunked, so that the length is not announced.
    let mut answer = ureq::post(served.url("/v1/jobs"))
        .config()
        .http_status_as_error(false)
        .build()
        .header("Authorization", format!("Bearer {}", served.token))
        .send(ureq::SendBody::from_reader(&mut long.as_bytes()))
        .unwrap();
    assert_eq!(answer.status(), 413);
    assert!(
        answer
            .body_mut()
            .read_to_string()
            .unwrap()
            .contains("C5001")
    );
    assert_eq!(served.submit(&job_document().to_string()).status, 201);
}

#[test]
fn deep_nesting_is_refused() {
    let served = TestServer::start();
    for deep in [
        "[".repeat(100_000),
        format!("{{\"component\":{}", "[".repeat(100_000)),
    ] {
        served.submit(&deep).problem(400, "C1001");
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let served = TestServer::start();
    for path in [
        "/v1/jobs?limit=0",
        "/v1/jobs?limit=-1",
        "/v1/jobs?limit=x",
        "/v1/jobs?after=x",
        "/v1/jobs?state=quued",
        "/v1/jobs?site=a%20b",
        "/v1/jobs?owner=%00",
        "/v1/jobs?lmit=3",
        "/v1/jobs?newest=perhaps",
        "/v1/jobs?limit=3&limit=4",
        "/v1/accounts?limit=0",
        "/v1/accounts?state=ended",
        "/v1/accounts?newest=true",
        "/v1/jobs/x",
        "/v1/jobs/-1",
        "/v1/jobs/18446744073709551616",
        "/v1/jobs/%FF",
        "/v1/files?limit=0",
        "/v1/files?after=%2Fx",
    ] {
        served.get(path).problem(400, "C1002");
    }
    let problem = served.get("/v1/jobs?state=quued").problem(400, "C1002");
    assert!(problem.detail.contains("queued"), "{problem}");
    served
        .post("/v1/jobs?dry_rn=true", &job_document().to_string())
        .problem(400, "C1002");
    assert!(served.fake.view.lock().unwrap().jobs.is_empty());
}

#[test]
fn wrong_registrations_of_files_are_refused() {
    let served = TestServer::start();
    for (body, key) in [
        (r#"{"name":"/x","site":"delft","path":"a"}"#, "name"),
        (r#"{"name":"x","site":"1delft","path":"a"}"#, "site"),
        (r#"{"name":"x","site":"delft","path":"../a"}"#, "path"),
        (r#"{"name":"x","site":"delft","path":"/a"}"#, "path"),
        (r#"{"name":"x","site":"delft","pth":"a"}"#, "pth"),
    ] {
        let problem = served.post("/v1/files", body).problem(400, "C1001");
        assert_eq!(problem.key.as_deref(), Some(key), "{problem}");
    }
}
