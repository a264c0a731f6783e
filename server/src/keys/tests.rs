use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use cospan_domain::ids::KeyName;
use cospan_domain::units::Timestamp;

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn key_name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

fn file_mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn fresh_directory() -> (tempfile::TempDir, KeyDirectory) {
    let home = tempfile::tempdir().unwrap();
    let keys = KeyDirectory::new(home.path().join("keys"));
    (home, keys)
}

#[test]
fn the_first_start_makes_one_key_that_the_command_line_finds() {
    let (_home, keys) = fresh_directory();
    assert!(keys.ensure_first_key(NOW).unwrap());
    assert!(
        !keys.ensure_first_key(NOW).unwrap(),
        "a second start makes none"
    );
    let token = keys.local_token().unwrap().unwrap();
    let ring = LoadedKeys::open(keys.clone()).unwrap();
    assert_eq!(
        ring.find_by_token(token.secret().as_bytes()).unwrap().name,
        key_name(FIRST_KEY)
    );
    for path in [keys.key_file_path(), keys.token_file_path()] {
        assert_eq!(file_mode(&path), 0o600, "{}", path.display());
    }
    let text = std::fs::read_to_string(keys.key_file_path()).unwrap();
    assert!(
        !text.contains(token.secret()),
        "the secret itself is not in the key file"
    );
}

#[test]
fn a_key_lets_in_until_it_is_removed() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let ring = LoadedKeys::open(keys.clone()).unwrap();
    let token = keys
        .create_key(&key_name("alice"), KeyRoles::default(), NOW)
        .unwrap();
    assert!(
        ring.find_by_token(token.secret().as_bytes()).is_none(),
        "not before the next look"
    );
    assert!(ring.reload_if_changed().unwrap());
    assert!(!ring.reload_if_changed().unwrap(), "nothing new");
    assert_eq!(
        ring.find_by_token(token.secret().as_bytes()).unwrap().name,
        key_name("alice")
    );
    keys.remove_key(&key_name("alice")).unwrap();
    assert!(ring.reload_if_changed().unwrap());
    assert!(ring.find_by_token(token.secret().as_bytes()).is_none());
    assert_eq!(keys.list_keys().unwrap().len(), 1);
}

#[test]
fn a_wrong_token_is_let_in_by_no_means() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let ring = LoadedKeys::open(keys.clone()).unwrap();
    let token = keys.local_token().unwrap().unwrap();
    let secret = token.secret();
    let hash = token.hash().to_hex().to_string();
    for wrong in [
        "",
        "admin",
        &secret[1..],
        &secret[..secret.len() - 1],
        &hash,
        &"x".repeat(5000),
    ] {
        assert!(ring.find_by_token(wrong.as_bytes()).is_none(), "{wrong}");
    }
}

#[test]
fn names_are_unique_and_the_last_key_stays() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    assert!(matches!(
        keys.create_key(&key_name(FIRST_KEY), KeyRoles::default(), NOW),
        Err(KeyError::Exists(_))
    ));
    assert!(matches!(
        keys.remove_key(&key_name("nobody")),
        Err(KeyError::Unknown(_))
    ));
    assert!(matches!(
        keys.remove_key(&key_name(FIRST_KEY)),
        Err(KeyError::Last(_))
    ));
    keys.create_key(&key_name("bob"), KeyRoles::default(), NOW)
        .unwrap();
    keys.remove_key(&key_name(FIRST_KEY)).unwrap();
    assert!(
        keys.local_token().unwrap().is_none(),
        "its secret is gone with it"
    );
}

#[test]
fn a_file_that_others_can_read_is_refused_with_the_command_to_mend_it() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    for (path, loose) in [(keys.key_file_path(), 0o640), (keys.key_file_path(), 0o604)] {
        set_mode(&path, loose);
        let error = LoadedKeys::open(keys.clone()).unwrap_err();
        assert!(matches!(error, KeyError::Loose { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains(&format!("chmod 600 {}", path.display())),
            "{error}"
        );
        set_mode(&path, 0o600);
    }
    set_mode(&keys.token_file_path(), 0o644);
    assert!(matches!(keys.local_token(), Err(KeyError::Loose { .. })));
    let directory = keys.key_file_path().parent().unwrap().to_owned();
    set_mode(&directory, 0o777);
    assert!(matches!(
        keys.ensure_first_key(NOW),
        Err(KeyError::Loose { .. })
    ));
}

#[test]
fn a_link_or_a_directory_in_place_of_the_file_is_refused() {
    let (home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let elsewhere = home.path().join("elsewhere");
    std::fs::rename(keys.key_file_path(), &elsewhere).unwrap();
    symlink(&elsewhere, keys.key_file_path()).unwrap();
    assert!(LoadedKeys::open(keys.clone()).is_err());
    std::fs::remove_file(keys.key_file_path()).unwrap();
    std::fs::create_dir(keys.key_file_path()).unwrap();
    assert!(matches!(
        LoadedKeys::open(keys),
        Err(KeyError::WrongKind { .. })
    ));
}

#[test]
fn a_damaged_or_newer_file_is_refused_and_the_old_keys_stay() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let token = keys.local_token().unwrap().unwrap();
    let ring = LoadedKeys::open(keys.clone()).unwrap();
    let good = std::fs::read_to_string(keys.key_file_path()).unwrap();
    for bad in [
        "nonsense".to_owned(),
        good.replace("version = 2", "version = 3"),
        good.replace("blake3 = \"", "blake3 = \"zz"),
        format!("{good}\n{}", &good[good.find("[[key]]").unwrap()..]),
        good.replace("created", "creatd"),
    ] {
        std::fs::write(keys.key_file_path(), &bad).unwrap();
        assert!(
            matches!(ring.reload_if_changed(), Err(KeyError::Damaged { .. })),
            "{bad}"
        );
        assert!(ring.find_by_token(token.secret().as_bytes()).is_some());
    }
}

#[test]
fn keys_added_at_the_same_time_are_all_kept() {
    let (_home, keys) = fresh_directory();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let keys = &keys;
            scope.spawn(move || {
                for i in 0..5 {
                    keys.create_key(
                        &key_name(&format!("k{thread}-{i}")),
                        KeyRoles::default(),
                        NOW,
                    )
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(keys.list_keys().unwrap().len(), 20);
}

#[test]
fn requests_of_a_key_are_counted_by_the_second() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let token = keys.local_token().unwrap().unwrap();
    let ring = LoadedKeys::open(keys).unwrap();
    let member = ring.find_by_token(token.secret().as_bytes()).unwrap();
    let admitted = (0..10).filter(|_| member.count_request(7, 3)).count();
    assert_eq!(admitted, 3);
    assert!(member.count_request(8, 3));
}

#[test]
fn a_secret_never_appears_in_debug_output() {
    let token = SecretToken::random().unwrap();
    assert!(!format!("{token:?}").contains(token.secret()));
    assert_ne!(token, SecretToken::random().unwrap());
}

#[test]
fn only_a_key_that_was_given_a_role_has_it() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let plain = keys
        .create_key(&key_name("alice"), KeyRoles::default(), NOW)
        .unwrap();
    let drill = keys
        .create_key(
            &key_name("drill"),
            KeyRoles::of([Role::Chaos]).unwrap(),
            NOW,
        )
        .unwrap();
    let first = keys.local_token().unwrap().unwrap();
    let ring = LoadedKeys::open(keys).unwrap();
    let may = |token: &SecretToken| -> Vec<Role> {
        let member = ring.find_by_token(token.secret().as_bytes()).unwrap();
        Role::ALL
            .into_iter()
            .filter(|role| member.roles.has_role(*role))
            .collect()
    };
    assert_eq!(may(&plain), [Role::Reader, Role::User]);
    assert_eq!(may(&drill), [Role::Reader, Role::User, Role::Chaos]);
    let ranks = [
        Role::Reader,
        Role::User,
        Role::Operator,
        Role::Administrator,
    ];
    assert_eq!(
        may(&first),
        ranks,
        "the first key can do all but what is given by name"
    );
    assert_eq!(
        ring.names_with(Role::Operator),
        [key_name(FIRST_KEY)].into()
    );
}

#[test]
fn a_key_has_one_rank_which_another_replaces_and_nothing_takes_away() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    keys.create_key(&key_name("alice"), KeyRoles::default(), NOW)
        .unwrap();
    let set = |role, given| {
        keys.set_role(&key_name("alice"), role, given)
            .map(|r| r.to_string())
    };
    assert_eq!(set(Role::Operator, true).unwrap(), "operator");
    assert_eq!(set(Role::Chaos, true).unwrap(), "operator, chaos");
    assert_eq!(set(Role::Reader, true).unwrap(), "reader, chaos");
    assert!(matches!(
        set(Role::Reader, false),
        Err(KeyError::Rank(Role::Reader))
    ));
    assert!(matches!(set(Role::Operator, false), Err(KeyError::Rank(_))));
    assert_eq!(
        keys.list_keys().unwrap()[1].roles.to_string(),
        "reader, chaos"
    );
    let two = KeyRoles::of([Role::User, Role::Operator]);
    assert!(
        matches!(two, Err(KeyError::TwoRanks(Role::User, Role::Operator))),
        "{two:?}"
    );
}

#[test]
fn a_key_is_given_a_role_and_loses_it_and_stays_the_same_key() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let token = keys
        .create_key(&key_name("alice"), KeyRoles::default(), NOW)
        .unwrap();
    let ring = LoadedKeys::open(keys.clone()).unwrap();
    let has = || {
        ring.reload_if_changed().unwrap();
        ring.find_by_token(token.secret().as_bytes())
            .unwrap()
            .roles
            .has_role(Role::Chaos)
    };
    let set = |given| {
        keys.set_role(&key_name("alice"), Role::Chaos, given)
            .unwrap()
    };
    for given in [true, true, false, false] {
        assert_eq!(set(given).has_role(Role::Chaos), given);
        assert_eq!(has(), given);
    }
    let with = keys
        .list_keys()
        .unwrap()
        .into_iter()
        .filter(|key| key.roles.has_role(Role::Chaos));
    assert_eq!(with.count(), 0, "nobody else was given it");
    let unknown = keys.set_role(&key_name("bob"), Role::Chaos, true);
    assert!(matches!(unknown, Err(KeyError::Unknown(_))), "{unknown:?}");
}

#[test]
fn keys_of_before_there_were_ranks_are_administrators_until_told_otherwise() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    assert!(!keys.is_older_than_ranks().unwrap());
    let text = std::fs::read_to_string(keys.key_file_path()).unwrap();
    let old = text
        .replace("version = 2", "version = 1")
        .replace("roles = [\"administrator\"]\n", "");
    for (written, shown) in [
        ("", "administrator"),
        ("roles = [\"chaos\"]\n", "administrator, chaos"),
    ] {
        std::fs::write(keys.key_file_path(), format!("{old}{written}")).unwrap();
        assert_eq!(keys.list_keys().unwrap()[0].roles.to_string(), shown);
        assert!(keys.is_older_than_ranks().unwrap());
    }
    keys.create_key(&key_name("alice"), KeyRoles::default(), NOW)
        .unwrap();
    let roles: Vec<String> = keys
        .list_keys()
        .unwrap()
        .iter()
        .map(|key| key.roles.to_string())
        .collect();
    assert_eq!(roles, ["administrator, chaos", "user"]);
    assert!(
        !keys.is_older_than_ranks().unwrap(),
        "from now on it is written"
    );
}

#[test]
fn a_key_file_with_an_unknown_role_or_no_rank_is_refused() {
    let (_home, keys) = fresh_directory();
    keys.ensure_first_key(NOW).unwrap();
    let text = std::fs::read_to_string(keys.key_file_path()).unwrap();
    for (bad, problem) in [
        ("[\"root\"]", "no role \"root\"; there are: reader"),
        ("[]", "it has no rank"),
        ("[\"user\", \"operator\"]", "either user or operator"),
    ] {
        let damaged = text.replace("[\"administrator\"]", bad);
        std::fs::write(keys.key_file_path(), damaged).unwrap();
        let error = keys.list_keys().unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
