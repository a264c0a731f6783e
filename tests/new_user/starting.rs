//! Starting and stopping a server by hand.

use super::newcomer::Newcomer;

const CONFIG: &str = "\
cat > cospan.toml <<END
[server]
data_directory = \"$PWD/data\"
[[site]]
name = \"here\"
kind = \"local\"
root = \"$PWD/here\"
processors = 2
END
export COSPAN_CONFIG=$PWD/cospan.toml
";

#[test]
fn a_command_waits_for_a_server_that_is_being_started() {
    let user = Newcomer::new();
    let said = user.must(&format!(
        "{CONFIG}cospan serve 2> log &\ncospan site list\ncospan stop"
    ));
    assert!(
        said.contains("here") && said.contains("has ended"),
        "{said}"
    );
}

#[test]
fn a_server_in_the_background_is_started_once_and_stopped_once() {
    let user = Newcomer::new();
    let first = user.must(&format!("{CONFIG}cospan serve --background"));
    let log = user.home().join("data/server.log");
    let stop = "cospan stop";
    assert!(
        first.contains("the server answers at http://127.0.0.1:"),
        "{first}"
    );
    assert!(
        first.contains(&log.display().to_string()) && first.contains(stop),
        "{first}"
    );
    assert!(log.exists() && user.home().join("here/files").is_dir());
    let sites = user.must(&format!("{CONFIG}cospan site list -o json"));
    assert!(
        sites.contains("\"usable\"") && !sites.contains("\"unknown\""),
        "{sites}"
    );
    let second = user.must(&format!("{CONFIG}cospan serve --background"));
    assert!(second.contains("already runs here"), "{second}");
    let address = |said: &str| said.split(" at ").nth(1).unwrap().to_owned();
    assert_eq!(address(&first), address(&second));
    user.must(&format!("{CONFIG}cospan stop"));
    let again = user.paste(&format!("{CONFIG}cospan stop"));
    assert_eq!(again.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&again.stderr).contains("no server runs here"));
}

#[test]
fn a_server_without_sites_says_so_and_a_configuration_to_begin_with_has_one() {
    let user = Newcomer::new();
    let empty = "printf '[server]\\ndata_directory = \"%s/data\"\\n' $PWD > cospan.toml\n\
                 export COSPAN_CONFIG=$PWD/cospan.toml\n";
    let said = user.must(&format!("{empty}cospan serve --background\ncospan stop"));
    assert!(
        said.contains("has no site") && said.contains("cospan config init"),
        "{said}"
    );
    let init = "mkdir -p there && cospan config init there/cospan.toml";
    let said = user.must(init);
    assert!(said.contains("export COSPAN_CONFIG="), "{said}");
    let said = user.must(
        "export COSPAN_CONFIG=$PWD/there/cospan.toml\ncospan config check\n\
         cospan serve --background\ncospan submit --wait -- true\n\
         cospan store export saved\ncospan stop",
    );
    assert!(
        said.contains("good:") && said.contains("job 1 finished"),
        "{said}"
    );
    assert!(
        said.contains("save these as well:")
            && said.contains("there/cospan.toml, ")
            && said.contains("keys/admin.token"),
        "{said}"
    );
    assert!(!said.contains("has no site"), "{said}");
    let again = user.paste(init);
    assert_eq!(again.status.code(), Some(2));
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("stays as it is"), "{said}");
}

#[test]
fn a_server_that_cannot_start_in_the_background_says_why() {
    let user = Newcomer::new();
    std::fs::write(user.home().join("here"), "in the way").unwrap();
    let output = user.paste(&format!("{CONFIG}cospan serve --background"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the server ended while it started") && said.contains("here"),
        "{said}"
    );
}

#[test]
fn an_address_in_the_environment_that_is_none_is_refused() {
    let user = Newcomer::new();
    let output = user.paste(&format!("{CONFIG}COSPAN_LISTEN=7440 cospan serve"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("COSPAN_LISTEN is \"7440\""), "{said}");
}
