//! Every command that asks the server, as every role and without one, about what is one's own and
//! about what is another's. Addresses are asked alike in the tests of the HTTP edge.

use std::collections::BTreeSet;
use std::fs;

use super::job_fixture::{Scene, environment, scene_on, until};
use cospan_chaos_tests::test_environment::Layout;

/// From the lowest to the highest.
const RANKS: [&str; 4] = ["reader", "user", "operator", "administrator"];

/// Commands; the least rank for which they do something with what is the key's own, and with
/// what is another's.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("submit JOB --allow-unplaceable", "user", "user"),
    ("list", "reader", "reader"),
    ("report", "reader", "reader"),
    ("show ID", "reader", "administrator"),
    ("wait ID --timeout 1s", "reader", "administrator"),
    ("explain ID", "reader", "administrator"),
    ("logs ID", "reader", "administrator"),
    ("output ID --to OUT", "reader", "administrator"),
    ("freeze ID", "user", "administrator"),
    ("thaw ID", "user", "administrator"),
    ("release ID", "user", "administrator"),
    ("rerun ID", "user", "administrator"),
    ("priority ID super-low", "user", "administrator"),
    ("slots --processors 1 --for 1m", "reader", "reader"),
    ("reservation list", "reader", "reader"),
    ("reservation show ID", "reader", "administrator"),
    (
        "reservation move ID --start 2100-01-01T00:00:00Z",
        "user",
        "administrator",
    ),
    ("reservation cancel ID", "user", "administrator"),
    (CREATE, "operator", "operator"),
    ("reservation show course", "reader", "reader"),
    ("reservation extend course --for 1m", "operator", "operator"),
    (
        "reservation allow course --everybody",
        "operator",
        "operator",
    ),
    ("reservation cancel course", "operator", "operator"),
    ("site list", "reader", "reader"),
    ("site show s1", "reader", "reader"),
    ("site drain s1", "operator", "operator"),
    ("site undrain s1", "operator", "operator"),
    ("site freeze s1", "operator", "operator"),
    ("site thaw s1", "operator", "operator"),
    (
        "site maintenance s1 --from 2100-01-01T00:00:00Z --until +900000h",
        "operator",
        "operator",
    ),
    (
        "site end-maintenance s1 --from 2100-01-01T00:00:00Z",
        "operator",
        "operator",
    ),
    ("site force s1 usable --lasting 1h", "operator", "operator"),
    ("site unforce s1", "operator", "operator"),
    ("site reset s1", "operator", "operator"),
    ("file list", "reader", "reader"),
    ("file show FILE", "reader", "operator"),
    (
        "file add FILE --site s1 --path data --replace",
        "user",
        "administrator",
    ),
    (
        "file upload NEW --name FILE --site s1 --replace",
        "user",
        "administrator",
    ),
    ("file uploads", "user", "user"),
    ("store show", "reader", "reader"),
    ("store export EXPORT", "administrator", "administrator"),
    ("chaos status", "reader", "reader"),
    ("chaos report", "reader", "reader"),
    ("chaos inject PLAN --dry-run", "", ""),
    ("chaos stop", "", ""),
    ("file remove FILE", "user", "administrator"),
    ("cancel ID", "user", "administrator"),
];

const CREATE: &str =
    "reservation create course --site s1 --processors 1 --start 2100-01-01T00:00:00Z --for 1m";

/// It runs nowhere, so that nothing of it changes but by commands.
const WAITS: &str = r#"
wall_time = "1m"
[[component]]
name = "solve"
processors = 64
executable = "/bin/true"
"#;

const PLAN: &str = "for = \"1m\"\n[[inject]]\nsites = [\"s1\"]\nfault = \"frozen\"\n";

struct Keys<'a> {
    scene: &'a Scene,
    words: Vec<(&'static str, String)>,
}

impl Keys<'_> {
    /// The command with what it is about, as a token has it asked: its exit code, and all that it
    /// printed.
    fn ask(&self, token: &str, command: &str, job: &str, file: &str) -> (i32, String) {
        let words: Vec<String> = command
            .split(' ')
            .map(|word: &str| match word {
                "ID" => job.to_owned(),
                "FILE" => file.to_owned(),
                other => match self.words.iter().find(|(name, _)| *name == other) {
                    Some((_, stands_for)) => stands_for.clone(),
                    None => other.to_owned(),
                },
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = self
            .scene
            .command(&words)
            .env("COSPAN_TOKEN", token)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
        (output.status.code().unwrap(), said.concat())
    }

    /// A key of a user with a job and a file.
    fn make(&self, name: &str) -> (String, String, String) {
        let token = self.scene.must(&["key", "add", name]).trim().to_owned();
        until("the server knows the key", || {
            self.ask(&token, "list", "", "").0 == 0
        });
        let file = format!("{name}/data");
        assert_eq!(
            self.ask(&token, "file add FILE --site s1 --path data", "", &file)
                .0,
            0
        );
        let (_, said) = self.ask(&token, "submit JOB --allow-unplaceable", "", "");
        let job = said
            .split_whitespace()
            .find(|word| word.parse::<u64>().is_ok());
        (
            token,
            job.unwrap_or_else(|| panic!("no job: {said}")).to_owned(),
            file,
        )
    }
}

fn is_refused((exit, said): &(i32, String)) -> bool {
    let words = [
        "lacks the role",
        "there is no job",
        "not found",
        "there is no file",
        "another key",
    ];
    *exit == 3 && words.iter().any(|word| said.contains(word))
}

fn may(rank: &str, least: &str) -> bool {
    let height = |rank: &str| RANKS.iter().position(|other| *other == rank);
    height(least).is_some_and(|least| height(rank) >= Some(least))
}

#[test]
fn every_command_answers_every_role_as_the_table_allows_and_no_more() {
    let environment = environment(&Layout {
        sites: 1,
        processors: 4,
        ..Layout::default()
    });
    let config = fs::read_to_string(environment.config()).unwrap();
    let config = config.replacen(
        "[server]\n",
        "[server]\nmax_failures_per_minute = 10000\n",
        1,
    );
    fs::write(environment.config(), config + "\n[chaos]\nallowed = true\n").unwrap();
    let mut scene = scene_on(environment);
    let files = scene.environment.sites[0].root.join("files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("data"), "data\n").unwrap();
    let out = |name: &str| scene.environment.path().join(name).display().to_string();
    let words = vec![
        ("JOB", scene.job_file(WAITS)),
        ("PLAN", scene.file("plan.toml", PLAN)),
        ("NEW", scene.file("new.dat", "new data\n")),
        ("OUT", out("fetched")),
        ("EXPORT", out("export")),
    ];
    let keys = Keys {
        scene: &scene,
        words,
    };
    let (_, theirs, their_file) = keys.make("somebody");
    for rank in RANKS {
        let (token, own, own_file) = keys.make(rank);
        scene.must(&["key", "grant", rank, "--role", rank]);
        let drains = || !is_refused(&keys.ask(&token, "site undrain s1", "", ""));
        let submits = || !is_refused(&keys.ask(&token, "submit JOB --dry-run", "", ""));
        until("it has its rank", || {
            drains() == may(rank, "operator") && submits() == may(rank, "user")
        });
        for (command, least, least_of_others) in COMMANDS {
            let answer = keys.ask(&token, command, &own, &own_file);
            assert_eq!(
                is_refused(&answer),
                !may(rank, least),
                "{rank}: {command}: {answer:?}"
            );
            let answer = keys.ask(&token, command, &theirs, &their_file);
            let refused = !may(rank, least_of_others);
            assert_eq!(
                is_refused(&answer),
                refused,
                "{rank}, of others: {command}: {answer:?}"
            );
            if rank == "reader" {
                let (exit, said) = keys.ask("cospan_nobody", command, &own, &own_file);
                assert!(
                    exit == 3 && said.contains("no valid key"),
                    "{command}: {said}"
                );
            }
        }
    }
    let drill = scene
        .must(&["key", "add", "drill", "--role", "chaos"])
        .trim()
        .to_owned();
    until("the server knows the key", || {
        keys.ask(&drill, "list", "", "").0 == 0
    });
    for command in ["chaos inject PLAN --dry-run", "chaos stop"] {
        let answer = keys.ask(&drill, command, "", "");
        assert!(!is_refused(&answer), "{answer:?}");
    }
    scene.server.kill().unwrap();
}

#[test]
fn every_command_in_the_table_of_roles_is_asked_as_every_role() {
    let table = cospan_server::http::access_table();
    let listed = table
        .lines()
        .skip(2)
        .map(|row: &str| {
            row.trim_end_matches(" |")
                .rsplit("| ")
                .next()
                .unwrap_or("")
                .to_owned()
        })
        .collect::<Vec<_>>();
    let listed: BTreeSet<&str> = listed
        .iter()
        .flat_map(|row| row.split(", "))
        .filter(|name| !name.is_empty())
        .collect();
    // It says what it was not told, and goes on.
    let listed = listed.into_iter().filter(|name| *name != "doctor");
    let is_asked = |name: &&str| {
        COMMANDS
            .iter()
            .any(|(command, ..)| command.starts_with(name))
    };
    assert_eq!(
        listed.filter(|name| !is_asked(name)).collect::<Vec<_>>(),
        [""; 0]
    );
}
