//! TLS through the program: a server with a certificate, and the command line beside it.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// A certificate that signed itself, for this machine under its address, and its key.
fn certificate(environment: &TestEnvironment, name: &str, is_ca: bool) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let file = |end: &str| environment.path().join(format!("{name}.{end}.pem"));
    std::fs::write(file("certificate"), certificate.pem()).unwrap();
    std::fs::write(file("key"), key.serialize_pem()).unwrap();
    (file("certificate"), file("key"))
}

/// A server that shows this certificate; not waited for.
fn with_certificate(environment: &TestEnvironment, is_ca: bool) -> ServerProcess {
    let (certificate, key) = certificate(environment, "server", is_ca);
    let text = std::fs::read_to_string(environment.config()).unwrap();
    let tls = format!("[server]\ntls_certificate = {certificate:?}\ntls_key = {key:?}");
    std::fs::write(environment.config(), text.replacen("[server]", &tls, 1)).unwrap();
    let mut server = server(environment);
    server.spawn().unwrap();
    server
}

fn ask(environment: &TestEnvironment, server: Option<String>, arguments: &[&str]) -> Output {
    command(environment, server, arguments).output().unwrap()
}

fn command(environment: &TestEnvironment, server: Option<String>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", environment.path());
    command
        .env("COSPAN_CONFIG", environment.config())
        .envs(server.map(|s| ("COSPAN_SERVER", s)));
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Not reached for this reason, and at once: it does not pass.
fn kept_out(output: &Output, words: &[&str]) {
    refused(output, words);
    let told = told(output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(
        !told.contains("cospan serve") && !told.contains("again"),
        "{told}"
    );
}

#[test]
fn a_command_line_beside_a_tls_server_finds_it_others_are_told_why_not() {
    let environment = environment();
    let _server = with_certificate(&environment, false);
    until("it answers", || {
        ask(&environment, None, &["site", "list"]).status.success()
    });
    let job = environment.path().join("job.json");
    let component = json!({ "name": "only", "processors": 1, "executable": "/bin/true" });
    let document = json!({ "wall_time": "1m", "component": [component] });
    std::fs::write(&job, document.to_string()).unwrap();
    let submit = ["submit", job.to_str().unwrap()];
    let waited = ask(
        &environment,
        None,
        &["submit", job.to_str().unwrap(), "--wait"],
    );
    assert!(waited.status.success(), "{}", told(&waited));

    let port = environment.port();
    let other_name = ask(
        &environment,
        Some(format!("https://localhost:{port}")),
        &submit,
    );
    kept_out(&other_name, &["for another name", "subjectAltName"]);
    let plain = ask(
        &environment,
        Some(format!("http://127.0.0.1:{port}")),
        &submit,
    );
    kept_out(
        &plain,
        &[
            "does not answer like a Cospan server",
            "name it with https://",
        ],
    );

    let (other, _) = certificate(&environment, "other", false);
    let mut text = std::fs::read_to_string(environment.config()).unwrap();
    text += &format!("\n[client]\nca_certificate = {other:?}\n");
    std::fs::write(environment.config(), text).unwrap();
    for arguments in [&submit[..], &["wait", "1"], &["logs", "1", "-f"]] {
        let stranger = ask(&environment, None, arguments);
        kept_out(
            &stranger,
            &["no trusted authority has signed", "--ca-certificate"],
        );
    }
    // The configuration names the wrong one; whoever asks names the right one.
    let right = environment.path().join("server.certificate.pem");
    let list = ["site", "list", "--ca-certificate", right.to_str().unwrap()];
    let asked = ask(&environment, None, &list);
    assert!(asked.status.success(), "{}", told(&asked));
    let mut command = command(&environment, None, &["site", "list"]);
    let asked = command
        .env("COSPAN_CA_CERTIFICATE", &right)
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", told(&asked));
}

#[test]
fn an_authoritys_certificate_is_named_as_why_nobody_gets_in() {
    let environment = environment();
    let _server = with_certificate(&environment, true);
    until("it listens", || {
        TcpStream::connect(port(&environment)).is_ok()
    });
    let output = ask(&environment, None, &["site", "list"]);
    kept_out(
        &output,
        &[
            "that of an authority (CA:TRUE)",
            "basicConstraints=CA:FALSE",
        ],
    );
}

#[test]
fn a_server_without_tls_is_not_talked_to_as_if_it_had_it() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    let output = ask(
        &environment,
        Some(format!("https://{}", port(&environment))),
        &["site", "list"],
    );
    kept_out(&output, &["it does not speak TLS", "http://"]);
}

#[test]
fn a_renewed_certificate_is_shown_after_a_signal_and_a_bad_one_changes_nothing() {
    let environment = environment();
    let server = with_certificate(&environment, false);
    let shown = environment.path().join("server.certificate.pem");
    let first = environment.path().join("first.pem");
    std::fs::copy(&shown, &first).unwrap();
    let trusting = |file: &Path| {
        let list = ["site", "list", "--ca-certificate", file.to_str().unwrap()];
        ask(&environment, None, &list).status.success()
    };
    until("it serves", || trusting(&first));
    let hang_up = || {
        let pid = Pid::from_raw(server.pid().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
    };
    certificate(&environment, "server", false);
    hang_up();
    until("it shows the new one", || trusting(&shown));
    assert!(!trusting(&first));
    std::fs::write(environment.path().join("server.key.pem"), "no key").unwrap();
    hang_up();
    until("it says so", || {
        let log = std::fs::read_to_string(environment.log()).unwrap();
        log.contains("the certificate stays as it was")
    });
    assert!(trusting(&shown));
}

#[test]
fn a_server_behind_a_proxy_that_has_tls_listens_for_others_without_it() {
    let environment = environment();
    let own = port(&environment);
    let open = format!("0.0.0.0:{}", environment.port());
    let checked = with_config(&environment, &[(&own, &open)], &["config", "check"]);
    refused(
        &checked,
        &["can be reached from other machines", "tls_ends_at_proxy"],
    );
    let text = std::fs::read_to_string(environment.config()).unwrap();
    let said = text.replace(&own, &open);
    let said = said.replacen("[server]", "[server]\ntls_ends_at_proxy = true", 1);
    std::fs::write(environment.config(), said).unwrap();
    let mut server = server(&environment);
    server.start().unwrap();
    let list = ["site", "list", "--server", &format!("http://{own}")];
    let listed = ask(&environment, None, &list);
    assert!(listed.status.success(), "{}", told(&listed));
}
