//! The life of a payload, seen from both sides.

use super::*;
use crate::port::{FilePlace, UPLOADS, UploadStep};

/// `Absent` is an answer: the one for a tag that was never there.
pub async fn an_unknown_tag_is_absent(fixture: &impl SiteFixture) {
    let status = fixture
        .site()
        .queue()
        .status(&[attempt_tag(1), attempt_tag(2)])
        .await
        .unwrap();
    assert_eq!(status.attempts.len(), 2);
    assert!(
        status
            .attempts
            .values()
            .all(|seen| *seen == AttemptObservation::Absent),
        "{status:?}"
    );
}

/// This is the ordinary case.
pub async fn a_payload_runs_through_the_gate_and_its_exit_is_seen(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let order = submit_request(
        attempt_tag(1),
        script_program("echo begun; read nothing; exit 0"),
    );
    assert_eq!(run_to_end(&*site, &order).await, ExitCause::Code(0));
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "begun\n");
    // Its batch system may be tidying up, and tell the end only after that.
    let is_told = |seen: &AttemptObservation| !matches!(seen, AttemptObservation::Unknown(_));
    let seen = await_observation(&*site, attempt_tag(1), is_told).await;
    let AttemptObservation::Exited(exit) = seen else {
        panic!("{seen:?}")
    };
    assert!(exit.began_at <= exit.ended_at, "{exit:?}");
}

/// An exit code other than 0 is reported as it is.
pub async fn an_exit_code_is_seen_as_it_was(fixture: &impl SiteFixture) {
    let site = fixture.site();
    for (job, code) in [(1, 1), (2, 75), (3, 127), (4, 255)] {
        let order = submit_request(attempt_tag(job), script_program(&format!("exit {code}")));
        assert_eq!(run_to_end(&*site, &order).await, ExitCause::Code(code));
    }
}

/// A signal is reported as a signal.
pub async fn a_payload_killed_from_outside_is_seen_with_its_signal(fixture: &impl SiteFixture) {
    let site = fixture.site();
    assert_eq!(
        run_to_end(
            &*site,
            &submit_request(attempt_tag(1), script_program("kill -9 $$"))
        )
        .await,
        ExitCause::Signal(9)
    );
    assert_eq!(
        run_to_end(
            &*site,
            &submit_request(attempt_tag(2), script_program("kill -15 $$"))
        )
        .await,
        ExitCause::Signal(15)
    );
}

/// It is not charged to the site.
pub async fn a_program_that_is_not_there_is_the_jobs_own_error(fixture: &impl SiteFixture) {
    let site = fixture.site();
    for (job, name) in [(1, "/no/such/program"), (2, "no-such-program-at-all")] {
        let cause = run_to_end(
            &*site,
            &submit_request(attempt_tag(job), program(name, &[])),
        )
        .await;
        assert!(
            matches!(cause, ExitCause::CouldNotStart(_)),
            "{name}: {cause:?}"
        );
    }
    let mut with_setup = program("no-such-program-at-all", &[]);
    with_setup.setup = vec!["true".into()];
    let cause = run_to_end(&*site, &submit_request(attempt_tag(3), with_setup)).await;
    assert!(matches!(cause, ExitCause::CouldNotStart(_)), "{cause:?}");
}

/// It is not charged to the site either.
pub async fn a_program_that_is_not_executable_is_the_jobs_own_error(fixture: &impl SiteFixture) {
    let site = fixture.site();
    for (job, name) in [(1, "/etc/passwd"), (2, "/usr")] {
        let cause = run_to_end(
            &*site,
            &submit_request(attempt_tag(job), program(name, &[])),
        )
        .await;
        assert!(
            matches!(cause, ExitCause::CouldNotStart(_)),
            "{name}: {cause:?}"
        );
    }
}

/// Nothing on the way interprets what a user wrote.
pub async fn arguments_and_variables_arrive_byte_for_byte(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let odd = [
        "",
        " ",
        "a b",
        "'",
        "\"",
        "$HOME",
        "`id`",
        "\\",
        "\n",
        "a\nb\n",
        "*",
        "-n",
        "ä\u{81}\u{88}",
        "end x",
        "\t\r",
    ];
    let mut printer = program("/usr/bin/printf", &["<%s>"]);
    printer.arguments.extend(odd.iter().map(|a| (*a).into()));
    let mut reader = program("/usr/bin/printenv", &["ODD"]);
    for (name, value) in [
        ("ODD", &odd.concat()[..]),
        ("IFS", "x"),
        ("OPTIND", "no number"),
    ] {
        printer.environment.insert(name.into(), value.into());
        reader.environment.insert(name.into(), value.into());
    }
    assert_eq!(
        run_to_end(&*site, &submit_request(attempt_tag(1), printer)).await,
        ExitCause::Code(0)
    );
    let expected: String = odd.iter().map(|a| format!("<{a}>")).collect();
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, expected);
    assert_eq!(
        run_to_end(&*site, &submit_request(attempt_tag(2), reader)).await,
        ExitCause::Code(0)
    );
    assert_eq!(
        read_stdout(&*site, attempt_tag(2)).await,
        odd.concat() + "\n"
    );
}

/// `module load` and the like need this.
pub async fn setup_lines_share_the_environment_of_the_program(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let mut with_setup = program("greet", &["you"]);
    with_setup.setup = vec![
        "printf '#!/bin/sh\\necho \"$GREETING $1\"\\n' > greet; chmod +x greet".into(),
        "PATH=$PWD:$PATH; GREETING='hello to'".into(),
        "export PATH GREETING; set -- nobody".into(),
    ];
    assert_eq!(
        run_to_end(&*site, &submit_request(attempt_tag(1), with_setup)).await,
        ExitCause::Code(0)
    );
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "hello to you\n");
}

/// The directory is below its work directory, and is made if need be.
pub async fn a_payload_starts_in_its_directory(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let mut elsewhere = script_program("pwd");
    elsewhere.directory = Some(RelPath::new("some where/deep").unwrap());
    assert_eq!(
        run_to_end(&*site, &submit_request(attempt_tag(1), elsewhere)).await,
        ExitCause::Code(0)
    );
    assert!(
        read_stdout(&*site, attempt_tag(1))
            .await
            .ends_with("/work/some where/deep\n")
    );
}

/// It gets its rank, its siblings and its round.
pub async fn a_payload_is_told_about_its_round(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let text = "echo $COSPAN_JOB $COSPAN_COMPONENT $COSPAN_ATTEMPT $COSPAN_TAG $COSPAN_ROUND \
                $COSPAN_RANK $COSPAN_EPOCH $COSPAN_HOSTS $COSPAN_SITES $COSPAN_PROCESSORS; \
                grep -c ^peer \"$COSPAN_ROUND_FILE\"";
    assert_eq!(
        run_to_end(
            &*site,
            &submit_request(attempt_tag(42), script_program(text))
        )
        .await,
        ExitCause::Code(0)
    );
    let expected = format!(
        "42 0 1 {} 7 1 3 node-a,node-b elsewhere,elsewhere 2,2\n2\n",
        attempt_tag(42)
    );
    assert_eq!(read_stdout(&*site, attempt_tag(42)).await, expected);
}

/// Content comes from the store, under the names that the job gave it.
pub async fn inputs_and_staged_executables_are_in_place(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let text = b"#!/bin/sh\nexec cat 'in/the input'\n";
    let tool = content_of(text);
    let input = content_of(b"what is read");
    bring_content(fixture, &*site, "tool", text).await;
    bring_content(fixture, &*site, "data", b"what is read").await;
    let mut order = staged_program_request(tool);
    order.inputs = vec![(input, RelPath::new("in/the input").unwrap())];
    assert_eq!(run_to_end(&*site, &order).await, ExitCause::Code(0));
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "what is read");
}

/// An upload arrives in pieces and lies below the site's file root. A job uses it
/// like any other file there.
pub async fn a_program_that_was_uploaded_runs(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let text = b"#!/bin/sh\necho sent\n";
    let (begin, end) = text.split_at(9);
    for (offset, bytes, last) in [(0, begin, false), (0, begin, false), (9, end, true)] {
        let offset = Bytes(offset);
        let bytes = bytes.to_vec();
        let step = UploadStep::Append {
            name: "sent-1".into(),
            offset,
            bytes,
            last,
        };
        site.files().upload(&step).await.unwrap();
    }
    let path = RelPath::new(&format!("{UPLOADS}/sent-1")).unwrap();
    store_content(&*site, path.clone(), text).await;
    assert_eq!(
        run_to_end(&*site, &staged_program_request(content_of(text))).await,
        ExitCause::Code(0)
    );
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "sent\n");
    site.files()
        .upload(&UploadStep::Remove {
            name: "sent-1".into(),
        })
        .await
        .unwrap();
    let gone = site.files().inspect(&FilePlace::User(path)).await;
    assert!(matches!(gone, Err(SiteError::Refused(_))), "{gone:?}");
}

fn staged_program_request(tool: Content) -> AttemptSubmitRequest {
    let file = cospan_domain::job::spec::FileReference {
        name: cospan_domain::ids::LogicalName::new("tools/read it").unwrap(),
        bound: Some(tool),
    };
    let mut staged = program("", &[]);
    staged.executable = ExecutableSource::Staged(file);
    let mut order = submit_request(attempt_tag(1), staged);
    order.staged_executable = Some(tool.digest);
    order
}

async fn bring_content(fixture: &impl SiteFixture, site: &dyn Site, name: &str, bytes: &[u8]) {
    let path = RelPath::new(name).unwrap();
    fixture.put_user_file(&path, bytes);
    store_content(site, path, bytes).await;
}

/// Copies a file below the site's file root into its content store.
async fn store_content(site: &dyn Site, path: RelPath, bytes: &[u8]) {
    use crate::port::{CopyRequest, CopySource, CopyStatus};
    let place = FilePlace::User(path);
    let inspected = site.files().inspect(&place).await.unwrap();
    assert_eq!(inspected.content, content_of(bytes));
    let copy = CopyRequest {
        content: inspected.content,
        chunk: None,
        source: CopySource {
            site: site.name().clone(),
            place,
        },
        nonce: "contract-1".to_owned(),
        limit: None,
    };
    site.copies().start_copy(&copy).await.unwrap();
    let started = Instant::now();
    loop {
        match site.copies().copy_status(&copy).await.unwrap() {
            CopyStatus::Complete => break,
            CopyStatus::Running { .. } => {}
            other => panic!("{other:?}"),
        }
        assert!(started.elapsed() < PATIENCE, "the copy takes too long");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        site.files().has_content(inspected.content.digest).await,
        Ok(true)
    );
}
