//! The book is whole: every link leads somewhere, no page is lost, and what is
//! said of the code is what the code says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use cospan_domain::job::spec::JobSpecLimits;
use cospan_domain::job::state_table;
use cospan_domain::units::Bytes;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn book() -> PathBuf {
    root().join("docs/src")
}

fn walk(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path);
        }
    }
}

fn pages() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    walk(&book(), &mut found);
    found
}

/// Text outside of code blocks.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut keep = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    };
    text.lines()
        .filter(|line| keep(line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Targets of `[text](target)`.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// `a/b/../c` as `a/c`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

/// Anchors of a page: its headings, as mdBook and forges write them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings = headings.lines().filter_map(|line| line.strip_prefix('#'));
    headings
        .map(|heading: &str| {
            let text = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = text
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

#[test]
fn every_link_in_the_book_and_the_readme_leads_somewhere() {
    let mut problems = Vec::new();
    let mut texts = pages();
    texts.insert(root().join("README.md"));
    for page in texts {
        let text = fs::read_to_string(&page).unwrap();
        for target in links(&text)
            .into_iter()
            .filter(|target| !is_elsewhere(target))
        {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let there = match file {
                "" => page.clone(),
                file => plain(&page.parent().unwrap().join(file)),
            };
            if !there.exists() {
                problems.push(format!("{}: {target} does not exist", page.display()));
            } else if !anchor.is_empty()
                && !anchors(&fs::read_to_string(&there).unwrap()).contains(anchor)
            {
                problems.push(format!("{}: {target}: no such heading", page.display()));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = book().join("SUMMARY.md");
    let listed = links(&fs::read_to_string(&summary).unwrap());
    let paths: BTreeSet<PathBuf> = listed.iter().map(|target| book().join(target)).collect();
    assert_eq!(paths.len(), listed.len(), "a page is listed twice");
    let mut pages = pages();
    pages.remove(&summary);
    assert_eq!(paths, pages, "left: listed in SUMMARY.md, right: on disk");
}

#[test]
fn the_book_has_its_settings() {
    let settings: toml::Table = fs::read_to_string(root().join("docs/book.toml"))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(settings["book"]["src"].as_str(), Some("src"));
    assert!(settings["book"]["title"].is_str());
}

/// `UPDATE_DOCS=1 cargo test --test docs` writes it anew.
fn table_is_current(page: &str, name: &str, current: &str) {
    let begin = format!("<!-- {name}: begin -->\n");
    let end = format!("<!-- {name}: end -->");
    let page = book().join(page);
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(&begin).unwrap();
    let (table, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, format!("{before}{begin}{current}{end}{after}")).unwrap();
    } else {
        assert_eq!(table, current, "run: UPDATE_DOCS=1 cargo test --test docs");
    }
}

#[test]
fn the_table_of_states_is_that_of_the_code() {
    table_is_current("state-machine.md", "table", &state_table::to_markdown());
}

#[test]
fn the_table_of_roles_is_that_which_the_server_heeds() {
    table_is_current(
        "reference/http.md",
        "roles",
        &cospan_server::http::access_table(),
    );
}

#[test]
fn the_page_of_the_interface_lists_every_code_and_its_remedy() {
    let page = fs::read_to_string(book().join("reference/http.md")).unwrap();
    for code in cospan_api::v1::problem::Code::ALL {
        let title = code.title();
        let remedy = code.remedy();
        let row = format!(
            "| {} | {} | {title} | {remedy} |\n",
            code.as_str(),
            code.status()
        );
        assert!(page.contains(&row), "{row}");
    }
}

/// A job file in the book that the server would refuse helps nobody.
#[test]
fn every_job_file_in_the_book_and_the_readme_is_one() {
    let mut count = 0;
    let mut texts = pages();
    texts.insert(root().join("README.md"));
    for page in texts {
        let text = fs::read_to_string(&page).unwrap();
        let blocks = text
            .split("```toml\n")
            .skip(1)
            .filter_map(|rest| rest.split_once("```"));
        for (block, _) in blocks.filter(|(block, _)| block.contains("component]]")) {
            use cospan_api::v1::parse::{JobFormat, parse_all};
            let page = page.display();
            let documents = parse_all(block, JobFormat::Toml);
            let documents = documents.unwrap_or_else(|error| panic!("{page}: {error}\n{block}"));
            for document in documents {
                let specs = document.into_specs(1_000, Bytes(u64::MAX));
                let specs = specs.unwrap_or_else(|error| panic!("{page}: {error}\n{block}"));
                specs
                    .iter()
                    .for_each(|spec| spec.validate(&JobSpecLimits::default()).unwrap());
            }
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} job files were found");
}

/// Calls of the program in a text: in transcripts and between backticks.
fn calls(text: &str) -> BTreeSet<String> {
    let typed = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("$ "));
    let piped = typed.flat_map(|line| line.split('|'));
    let quoted = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let calls = piped
        .chain(quoted)
        .map(|call: &str| {
            call.split(['#', '&', '>', '|'])
                .next()
                .unwrap()
                .trim()
                .to_owned()
        })
        .filter(|call| call.starts_with("cospan "));
    calls
        .filter(|call| !call.contains("COMMAND") && !call.contains('{'))
        .collect()
}

#[test]
fn every_command_in_the_book_and_the_readme_is_understood() {
    let mut count = 0;
    let mut texts = pages();
    texts.insert(root().join("README.md"));
    for page in texts {
        for call in calls(&fs::read_to_string(&page).unwrap()) {
            // Arguments are read up to the first wrong one; then help is all that is done.
            // What stands behind `--` is not for us.
            let words = call
                .split_whitespace()
                .skip(1)
                .take_while(|word| *word != "--");
            let words = words.chain(["--help"]);
            let binary = env!("CARGO_BIN_EXE_cospan");
            let output = std::process::Command::new(binary)
                .args(words)
                .output()
                .unwrap();
            let problem = String::from_utf8_lossy(&output.stderr);
            // An option that is only named.
            let is_known = problem.contains("a value is required for");
            let place = page.display();
            assert!(
                output.status.success() || is_known,
                "{place}: {call}\n{problem}"
            );
            count += 1;
        }
    }
    assert!(count >= 30, "only {count} commands were found");
}

#[test]
fn the_page_of_the_command_line_has_every_command_in_its_table() {
    let page = fs::read_to_string(book().join("guide/cli.md")).unwrap();
    let (_, table) = page.split_once("\n## Commands\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let cells = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed: BTreeSet<&str> = cells
        .flat_map(|cell| cell.split(['`', ',', ' ']))
        .filter(|word| !word.is_empty())
        .collect();
    for command in include_str!("cli/commands.txt").lines() {
        assert!(listed.contains(command), "{command}");
    }
}

/// `section.key` in the text is a setting that exists.
#[test]
fn every_setting_that_the_book_names_exists() {
    let reference = fs::read_to_string(book().join("reference/configuration.md")).unwrap();
    let exists = |section: &str, key: &str| {
        let (_, rest) = reference
            .split_once(&format!("## `[{section}]`\n"))
            .unwrap();
        rest.split("\n## ")
            .next()
            .unwrap()
            .contains(&format!("- **`{key}`**"))
    };
    let sections: BTreeSet<&str> = reference.split("## `[").skip(1).collect();
    let sections = sections.iter().filter_map(|rest| rest.split(']').next());
    let sections: BTreeSet<&str> = sections.filter(|name| !name.starts_with('[')).collect();
    let mut count = 0;
    for page in pages() {
        let text = prose(&fs::read_to_string(&page).unwrap());
        for word in text
            .lines()
            .flat_map(|line| line.split('`').skip(1).step_by(2))
        {
            let Some((section, key)) = word.split_once('.') else {
                continue;
            };
            if sections.contains(section) && !key.contains([' ', '(', '.']) && key != "rs" {
                assert!(
                    exists(section, key),
                    "{}: there is no {word}",
                    page.display()
                );
                count += 1;
            }
        }
    }
    assert!(count >= 15, "only {count} settings were found");
}

#[test]
fn the_unit_keeps_components_alive_over_a_restart() {
    let unit = fs::read_to_string(book().join("operations/cospan.service")).unwrap();
    let lines: BTreeSet<&str> = unit.lines().collect();
    for line in ["Type=notify", "KillMode=process", "StateDirectory=cospan"] {
        assert!(lines.contains(line), "{line}");
    }
}

#[test]
fn the_unit_is_hardened_and_starts_again_only_what_may_get_better() {
    const LINES: [&str; 20] = [
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "AmbientCapabilities=",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectControlGroups=yes",
        "ProtectClock=yes",
        "ProtectHostname=yes",
        "PrivateDevices=yes",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
        "RestrictNamespaces=yes",
        "RestrictSUIDSGID=yes",
        "LockPersonality=yes",
        "StateDirectoryMode=0700",
        "UMask=0077",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
    ];
    let unit = fs::read_to_string(book().join("operations/cospan.service")).unwrap();
    let (_, service) = unit.split_once("\n[Service]\n").unwrap();
    let lines: BTreeSet<&str> = service.split("\n[").next().unwrap().lines().collect();
    for line in LINES {
        assert!(lines.contains(line), "{line}");
    }
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("User=") && *line != "User=root")
    );
}

#[test]
fn what_runs_for_every_change_runs_the_commands_of_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let run = fs::read_to_string(root().join(".ci/run")).unwrap();
    // Where the first of them, which builds for development, puts the program.
    assert!(readme.contains("PATH=$PWD/target/debug:"));
    for command in ["cargo run -- quickstart", "cargo test --workspace"] {
        assert!(
            readme.lines().any(|line: &str| line == command),
            "README.md: {command}"
        );
        assert!(
            run.lines()
                .any(|line: &str| line.starts_with("step ") && line.ends_with(command)),
            ".ci/run: {command}"
        );
    }
}

/// A test that a page names as its proof must exist.
#[test]
fn every_test_that_the_guarantees_name_exists() {
    let page = |name: &str| fs::read_to_string(book().join(name)).unwrap();
    let text = page("invariants.md") + &page("elsewhere.md");
    let mut sources = String::new();
    for folder in [
        "src",
        "domain",
        "storage",
        "sites",
        "actors",
        "simulator",
        "server",
        "languages",
        "api",
        "client",
        "printing",
        "chaos-tests",
        "tests",
    ] {
        read_all(&root().join(folder), &mut sources);
    }
    let words = text.split('`').skip(1).step_by(2);
    let named: Vec<&str> = words
        .filter(|word: &&str| {
            word.matches('_').count() >= 4
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        })
        .collect();
    assert!(named.len() >= 15, "{named:?}");
    let missing: Vec<&&str> = named
        .iter()
        .filter(|name| !sources.contains(&format!("fn {name}(")))
        .collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

fn read_all(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
