//! Binding, TLS, limits of connections, stop, and faults inside.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;

use super::*;
use crate::http::{BindError, TlsFiles};

fn settings_at(address: SocketAddr) -> HttpSettings {
    HttpSettings {
        listen: vec![address],
        ..HttpSettings::default()
    }
}

#[test]
fn a_port_in_use_is_told_before_anything_starts() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let error = BoundListeners::bind(&settings_at(address)).err().unwrap();
    assert!(
        matches!(error, BindError::InUse(a) if a == address),
        "{error}"
    );
    assert!(error.to_string().contains("choose another address"));
}

#[test]
fn other_machines_are_let_near_only_with_tls() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let error = BoundListeners::bind(&settings_at(address.parse().unwrap()))
            .err()
            .unwrap();
        assert!(matches!(error, BindError::Exposed(_)), "{error}");
        assert!(error.to_string().contains("TLS"));
    }
    let none = HttpSettings {
        listen: Vec::new(),
        ..HttpSettings::default()
    };
    assert!(matches!(
        BoundListeners::bind(&none),
        Err(BindError::NoAddress)
    ));
}

fn write_certificate(home: &std::path::Path) -> (TlsFiles, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificates: home.join("cert.pem"),
        key: home.join("key.pem"),
    };
    std::fs::write(&files.certificates, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.pem().into_bytes())
}

#[test]
fn with_tls_it_listens_everywhere_and_speaks_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let (files, pem) = write_certificate(home.path());
    let served = TestServer::start_with(|settings| {
        settings.tls = Some(files);
        settings.listen = vec!["0.0.0.0:0".parse().unwrap()];
    });
    let trusted = ureq::tls::Certificate::from_pem(&pem).unwrap();
    let roots = ureq::tls::RootCerts::new_with_certs(&[trusted]);
    let tls = ureq::tls::TlsConfig::builder().root_certs(roots).build();
    let agent = Agent::config_builder().tls_config(tls).build().new_agent();
    let port = served.address.port();
    let url = format!("https://localhost:{port}/v1/jobs");
    let mut answer = agent
        .get(&url)
        .header("Authorization", format!("Bearer {}", served.token))
        .call()
        .unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.body_mut().read_to_string().unwrap().contains("jobs"));
    let plain = agent.get(format!("http://localhost:{port}/livez")).call();
    assert!(plain.is_err());
}

#[test]
fn a_certificate_that_cannot_be_used_is_told_with_its_file() {
    let home = tempfile::tempdir().unwrap();
    let (files, _) = write_certificate(home.path());
    let bind = |files: &TlsFiles| {
        let settings = HttpSettings {
            tls: Some(files.clone()),
            ..settings_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        };
        BoundListeners::bind(&settings).err().unwrap().to_string()
    };
    std::fs::write(&files.key, "nonsense").unwrap();
    assert!(bind(&files).contains("key.pem"));
    std::fs::remove_file(&files.certificates).unwrap();
    assert!(bind(&files).contains("cert.pem"));
}

fn exchange_raw(served: &TestServer, text: &[u8]) -> String {
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(GENEROUS)).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(text);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn what_is_not_http_is_turned_away() {
    let served = TestServer::start();
    for text in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        let answer = exchange_raw(&served, text);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    let endless = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let answer = exchange_raw(&served, endless.as_bytes());
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer:.100}"
    );
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let answer = exchange_raw(&served, many.as_bytes());
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer:.100}"
    );
    assert_eq!(served.get("/livez").status, 200);
}

#[test]
fn a_request_that_dawdles_is_given_up() {
    let served =
        TestServer::start_with(|settings| settings.head_timeout = Duration::from_millis(100));
    let answer = exchange_raw(&served, b"GET /livez HTTP/1.1\r\nHost:");
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
        "{answer}"
    );
    let served = TestServer::start_with(|settings| {
        settings.head_timeout = GENEROUS;
        settings.body_timeout = Duration::from_millis(100);
    });
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n{{",
        served.token
    );
    let answer = exchange_raw(&served, head.as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("C1005"),
        "{answer}"
    );
}

fn send_request(stream: &mut TcpStream) {
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
}

fn has_answer(stream: &mut TcpStream) -> std::io::Result<bool> {
    stream.read(&mut [0; 4096]).map(|count| count > 0)
}

#[test]
fn a_connection_beyond_the_limit_waits_until_another_one_ends() {
    let served = TestServer::start_with(|settings| {
        settings.workers = 1;
        settings.max_connections = 3;
    });
    let connect = || {
        let mut stream = TcpStream::connect(served.address).unwrap();
        send_request(&mut stream);
        stream
    };
    let mut held: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
    assert!(held.iter_mut().all(|stream| has_answer(stream).unwrap()));
    let mut late = connect();
    late.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    assert!(has_answer(&mut late).is_err(), "served beyond the limit");
    held.pop();
    late.set_read_timeout(Some(GENEROUS)).unwrap();
    assert!(has_answer(&mut late).unwrap());
}

#[test]
fn a_panic_in_one_request_leaves_the_server_alive() {
    let served = TestServer::start();
    served.fake.panics.store(true, Ordering::SeqCst);
    let body = job_document().to_string();
    let broken = ureq::post(served.url("/v1/jobs"))
        .header("Authorization", format!("Bearer {}", served.token))
        .send(&body);
    assert!(broken.is_err());
    served.fake.panics.store(false, Ordering::SeqCst);
    assert_eq!(served.submit(&body).status, 201);
}

#[test]
fn after_a_stop_nobody_is_served_and_the_port_is_free() {
    let mut served = TestServer::start();
    assert_eq!(served.get("/livez").status, 200);
    served.stop();
    assert!(TcpStream::connect(served.address).is_err());
    assert!(BoundListeners::bind(&settings_at(served.address)).is_ok());
}
