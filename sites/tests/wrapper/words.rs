//! Every byte but NUL arrives as it was written.

use cospan_sites::port::ExitCause;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::bench::{Bench, command, shells};

/// Any bytes that a program can be given; line ends, quotes and blanks more often than by chance.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => 1_u8..=255,
        1 => prop::sample::select(b"\n\n'\"\\$` \t*-=\x7f\x81\x82\x88\xff".to_vec()),
    ];
    vec(byte, 0..40)
}

fn run(shell: &[String], command: &cospan_sites::wrapper::parameters::PayloadCommand) -> Vec<u8> {
    let bench = Bench::new(shell.to_vec());
    bench.running(command).wait();
    let trouble = std::fs::read_to_string(bench.path("trouble"));
    assert_eq!(
        bench.exit(),
        Some(ExitCause::Code(0)),
        "{shell:?} {trouble:?}"
    );
    bench.printed()
}

#[test]
fn arguments_arrive_byte_for_byte() {
    for shell in shells() {
        let mut runner = TestRunner::new(Config {
            cases: 12,
            failure_persistence: None,
            ..Config::default()
        });
        runner
            .run(&vec(word(), 1..40), |words: Vec<Vec<u8>>| {
                let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let format: &[u8] = b"%s\\0";
                let all = [&[format][..], &arguments].concat();
                let printed = run(&shell, &command("/usr/bin/printf", &all));
                prop_assert_eq!(printed, [words.join(&0), vec![0]].concat());
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn variables_arrive_byte_for_byte() {
    for shell in shells() {
        let mut runner = TestRunner::new(Config {
            cases: 12,
            failure_persistence: None,
            ..Config::default()
        });
        runner
            .run(&vec(word(), 1..40), |words: Vec<Vec<u8>>| {
                let mut command = command("/usr/bin/env", &[b"-0"]);
                let name = |index: usize| format!("VARIABLE_{index}");
                command.environment = words
                    .iter()
                    .enumerate()
                    .map(|(i, word)| (name(i), word.clone()))
                    .collect();
                let printed = run(&shell, &command);
                let seen: Vec<&[u8]> = printed.split(|b| *b == 0).collect();
                for (index, word) in words.iter().enumerate() {
                    let expected = [name(index).as_bytes(), b"=", word].concat();
                    prop_assert!(seen.contains(&&expected[..]), "{}", index);
                }
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_value_of_many_lines_arrives_whole() {
    for shell in shells() {
        let long = b"a line\n".repeat(1_000);
        let printed = run(&shell, &command("/usr/bin/printf", &[b"%s", &long]));
        assert_eq!(printed, long);
    }
}

#[test]
fn names_of_the_shells_own_variables_do_it_no_harm() {
    for shell in shells() {
        let mut command = command("/usr/bin/env", &[]);
        let hostile = [
            "PATH", "IFS", "OPTIND", "PPID", "UID", "ENV", "PS4", "CDPATH", "LC_ALL", "tag",
            "payload",
        ];
        command.environment = hostile
            .iter()
            .map(|name| ((*name).to_owned(), b"/nowhere".to_vec()))
            .collect();
        let printed = String::from_utf8(run(&shell, &command)).unwrap();
        for name in hostile {
            assert!(
                printed
                    .lines()
                    .any(|line| line == format!("{name}=/nowhere")),
                "{name}"
            );
        }
    }
}
