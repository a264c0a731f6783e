//! The first commands of the guide, typed in their order as they stand there.

use super::*;

/// What a page has its reader do.
enum Step {
    /// Save a file under this name.
    Save(String, String),
    /// Type this.
    Type(String),
}

/// The fenced blocks of a page: a file begins with its name, a command with the prompt.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let blocks = page.split("\n```").skip(1).step_by(2);
    for (language, block) in blocks.filter_map(|block| block.split_once('\n')) {
        let name = block
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# "));
        match (language, name) {
            ("toml", Some(name)) => steps.push(Step::Save(name.to_owned(), block.to_owned())),
            ("console", _) => {
                let typed = block.lines().filter_map(|line| line.strip_prefix("$ "));
                let typed = typed.filter(|line| !line.starts_with("cargo "));
                steps.extend(typed.map(|line| Step::Type(line.to_owned())));
            }
            _ => {}
        }
    }
    steps
}

/// What a person needs from one line to the next, the sites of a new server need to be heard.
const A_WHILE: &str = "n=0; until [ $(cospan site list 2> /dev/null | grep -c usable) = 2 ]; \
                       do n=$((n + 1)); [ $n -lt 600 ]; sleep 0.1; done";

/// Where the page has its reader find the programs.
const BUILT: &str = "$PWD/target/debug";

/// Types it all, with directory and port of its own; what was printed.
fn typed(page: &str) -> String {
    let environment = environment();
    let place = environment.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_cospan"))
        .parent()
        .unwrap()
        .display()
        .to_string();
    let here = |text: &str| {
        let listen = format!("[server]\nlisten = [{:?}]\n", port(&environment));
        let text = text.replace("/var/tmp/cospan", &place.display().to_string());
        text.replace(BUILT, &programs)
            .replace("[server]\n", &listen)
    };
    // The server ends with the shell.
    let mut script =
        "set -ex\ntrap 'kill $! 2> /dev/null || true; wait $! || true' EXIT\n".to_owned();
    let mut commands = 0;
    for step in steps(page) {
        match step {
            Step::Save(name, text) => std::fs::write(place.join(name), here(&text)).unwrap(),
            Step::Type(line) => {
                commands += 1;
                script += &format!("{}\n", here(&line));
                let is_server = line.split('#').next().unwrap().trim_end().ends_with('&');
                script += &if is_server {
                    format!("{A_WHILE}\n")
                } else {
                    String::new()
                };
            }
        }
    }
    assert!(commands >= 5, "only {commands} commands were found");
    assert!(
        page.contains(BUILT),
        "the page no longer says that the programs are in {BUILT}"
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &place);
    shell.envs(serve_permission());
    let output = shell.current_dir(environment.path()).output().unwrap();
    let (told, said) = (String::from_utf8_lossy(&output.stdout), told(&output));
    assert!(output.status.success(), "{told}\n{said}");
    told.into_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn page(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_first_steps_of_the_guide_work_as_they_are_typed() {
    let told = typed(&page("docs/src/guide/first-steps.md"));
    assert!(
        told.contains("finished") && told.contains("sum.txt"),
        "{told}"
    );
}
