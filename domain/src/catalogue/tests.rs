use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::catalogue::file_command::{FileCommand, FileRejection, RequestingKey, TakingPermission};
use crate::catalogue::file_event::FileEvent;
use crate::catalogue::file_state::{FileRecord, MAX_REPLICAS};
use crate::content::Content;
use crate::ids::{Digest, KeyName, LogicalName, RelPath, SiteName};
use crate::transfer::file_place::FilePlace;
use crate::units::Bytes;

type ReplicaPlace = (SiteName, FilePlace);

struct FileTestBench {
    record: FileRecord,
    journal: Vec<FileEvent>,
}

impl FileTestBench {
    fn new() -> Self {
        let name = LogicalName::new("climate/2024.nc").unwrap();
        Self {
            record: FileRecord::new(name),
            journal: Vec::new(),
        }
    }

    fn with_registered_file() -> Self {
        let mut bench = Self::new();
        bench
            .apply_command(register_command(
                1,
                &[0],
                false,
                TakingPermission::default(),
            ))
            .unwrap();
        bench
    }

    fn apply_command(&mut self, command: FileCommand) -> Result<Vec<&'static str>, FileRejection> {
        let now = Timestamp(1_000 + self.journal.len() as u64);
        let events = FileMachine::decide(&self.record, &(), command, now)?;
        events
            .iter()
            .for_each(|event| FileMachine::evolve(&mut self.record, event));
        self.journal.extend(events.iter().cloned());
        Ok(events.iter().map(|event| event.what.name()).collect())
    }

    fn replicas(&self) -> Vec<ReplicaPlace> {
        self.record
            .entry
            .as_ref()
            .map(|entry| entry.replicas.clone())
            .unwrap_or_default()
    }
}

fn key() -> KeyName {
    KeyName::new("anna").unwrap()
}

fn requesting_key() -> RequestingKey {
    RequestingKey::for_own_files(key())
}

fn digest(id: u8) -> Digest {
    Digest([id; 32])
}

fn replica(i: usize) -> ReplicaPlace {
    let path = RelPath::new(&format!("data/{i}")).unwrap();
    (
        SiteName::new(["delft", "leiden"][i % 2]).unwrap(),
        FilePlace::User(path),
    )
}

fn content(id: u8) -> Content {
    Content {
        digest: digest(id),
        size: Bytes(u64::from(id)),
    }
}

fn register_command(
    id: u8,
    replicas: &[usize],
    replace: bool,
    grip: TakingPermission,
) -> FileCommand {
    FileCommand::Register {
        content: content(id),
        directory: false,
        replicas: replicas.iter().map(|i| replica(*i)).collect(),
        by: requesting_key(),
        replace,
        grip,
    }
}

fn add_replica_command(i: usize, id: u8) -> FileCommand {
    let (site, place) = replica(i);
    FileCommand::AddReplica {
        site,
        place,
        digest: digest(id),
        by: requesting_key(),
    }
}

fn remove_replica_command(i: usize, grip: TakingPermission) -> FileCommand {
    let (site, place) = replica(i);
    FileCommand::RemoveReplica {
        site,
        place,
        by: requesting_key(),
        grip,
    }
}

fn note_stamp_command(i: usize, id: u8, look: u8) -> FileCommand {
    let (site, place) = replica(i);
    let stamp = format!("look {look}").into();
    FileCommand::NoteStamp {
        site,
        place,
        stamp,
        content: content(id),
    }
}

fn with_asker(name: &str, reaches_all: bool, mut command: FileCommand) -> FileCommand {
    let asker = RequestingKey {
        key: KeyName::new(name).unwrap(),
        reaches_all,
    };
    match &mut command {
        FileCommand::Register { by, .. }
        | FileCommand::AddReplica { by, .. }
        | FileCommand::RemoveReplica { by, .. }
        | FileCommand::Unregister { by, .. } => *by = asker,
        FileCommand::NoteStamp { .. } => {}
    }
    command
}

fn permission_for_needed(jobs: u32) -> TakingPermission {
    TakingPermission {
        needed_by: jobs,
        force: false,
    }
}

const FORCED: TakingPermission = TakingPermission {
    needed_by: 3,
    force: true,
};

#[test]
fn a_registered_name_says_what_it_stands_for_and_who_said_so() {
    let bench = FileTestBench::with_registered_file();
    let entry = bench.record.entry.as_ref().unwrap();
    assert_eq!(
        entry.content,
        Content {
            digest: digest(1),
            size: Bytes(1)
        }
    );
    assert_eq!(entry.replicas, [replica(0)]);
    assert_eq!(
        (entry.registered_at, &entry.registered_by),
        (Timestamp(1_000), &key())
    );
}

#[test]
fn registering_the_same_again_adds_only_what_is_new() {
    let mut bench = FileTestBench::with_registered_file();
    assert_eq!(
        bench.apply_command(register_command(
            1,
            &[0],
            false,
            TakingPermission::default()
        )),
        Ok(vec![])
    );
    let again = register_command(1, &[0, 1, 2, 1], false, TakingPermission::default());
    assert_eq!(
        bench.apply_command(again),
        Ok(vec!["ReplicaAdded", "ReplicaAdded"])
    );
    assert_eq!(bench.replicas(), [replica(0), replica(2), replica(1)]);
}

#[test]
fn a_name_gets_other_content_only_by_explicit_replacement() {
    let mut bench = FileTestBench::with_registered_file();
    let refused = FileRejection::OtherContent {
        known: digest(1),
        given: digest(2),
    };
    assert_eq!(
        bench.apply_command(register_command(
            2,
            &[1],
            false,
            TakingPermission::default()
        )),
        Err(refused)
    );
    assert_eq!(
        bench.apply_command(register_command(2, &[1], true, TakingPermission::default())),
        Ok(vec!["FileRegistered"])
    );
    assert_eq!(
        bench.replicas(),
        [replica(1)],
        "replicas of the old content are forgotten"
    );
}

#[test]
fn a_file_does_not_become_a_directory_by_accident() {
    let mut bench = FileTestBench::with_registered_file();
    let FileCommand::Register {
        content,
        replicas,
        by,
        grip,
        ..
    } = register_command(1, &[0], false, TakingPermission::default())
    else {
        unreachable!()
    };
    let other = FileCommand::Register {
        content,
        directory: true,
        replicas,
        by,
        replace: false,
        grip,
    };
    let refused = bench.apply_command(other).unwrap_err();
    assert_eq!(
        refused,
        FileRejection::OtherKind {
            known_directory: false
        }
    );
    assert_eq!(
        refused.to_string(),
        "the name stands for a file; ask for replacement if it is to be a directory"
    );
}

#[test]
fn a_replica_with_another_digest_is_refused() {
    let mut bench = FileTestBench::with_registered_file();
    let refused = FileRejection::DigestDiffers {
        known: digest(1),
        found: digest(2),
    };
    assert_eq!(bench.apply_command(add_replica_command(1, 2)), Err(refused));
    assert_eq!(
        bench.apply_command(add_replica_command(1, 1)),
        Ok(vec!["ReplicaAdded"])
    );
    assert_eq!(bench.apply_command(add_replica_command(1, 1)), Ok(vec![]));
}

#[test]
fn how_a_replica_looked_is_known_only_while_it_has_this_content() {
    let mut bench = FileTestBench::with_registered_file();
    assert_eq!(
        bench.apply_command(note_stamp_command(0, 1, 1)).unwrap(),
        ["ReplicaStamped"]
    );
    assert_eq!(
        bench.apply_command(note_stamp_command(0, 1, 1)).unwrap(),
        [""; 0]
    );
    assert_eq!(
        bench.apply_command(note_stamp_command(1, 1, 1)),
        Err(FileRejection::NoSuchReplica)
    );
    assert_eq!(
        bench.apply_command(note_stamp_command(0, 9, 2)),
        Err(FileRejection::NoSuchReplica)
    );
    let stamps = |bench: &FileTestBench| bench.record.entry.as_ref().unwrap().stamps.len();
    assert_eq!(stamps(&bench), 1);
    bench
        .apply_command(register_command(2, &[0], true, TakingPermission::default()))
        .unwrap();
    assert_eq!(stamps(&bench), 0, "of other content nothing is known");
}

#[test]
fn nothing_is_taken_from_unfinished_jobs_unless_forced() {
    let unregister = |grip| FileCommand::Unregister {
        by: requesting_key(),
        grip,
    };
    for take in [
        unregister,
        |grip| remove_replica_command(0, grip),
        |grip| register_command(2, &[1], true, grip),
    ] {
        let mut bench = FileTestBench::with_registered_file();
        let refused = bench
            .apply_command(take(permission_for_needed(3)))
            .unwrap_err();
        assert_eq!(refused, FileRejection::NeededByJobs { jobs: 3 });
        assert!(refused.to_string().starts_with("3 unfinished jobs need it"));
        assert_eq!(bench.apply_command(take(FORCED)).unwrap().len(), 1);
    }
}

#[test]
fn a_file_is_changed_only_by_its_owner_or_by_who_reaches_all() {
    for command in [
        register_command(1, &[0], true, FORCED),
        register_command(1, &[1], false, FORCED),
        register_command(2, &[0], true, FORCED),
        add_replica_command(1, 1),
        remove_replica_command(0, FORCED),
        FileCommand::Unregister {
            by: requesting_key(),
            grip: FORCED,
        },
    ] {
        let mut bench = FileTestBench::with_registered_file();
        let others = with_asker("otto", false, command.clone());
        assert_eq!(
            bench.apply_command(others),
            Err(FileRejection::Anothers),
            "{command:?}"
        );
        bench
            .apply_command(with_asker("otto", true, command))
            .unwrap();
    }
    let mut bench = FileTestBench::with_registered_file();
    bench
        .apply_command(FileCommand::Unregister {
            by: requesting_key(),
            grip: FORCED,
        })
        .unwrap();
    let otto = |command| with_asker("otto", false, command);
    bench
        .apply_command(otto(register_command(2, &[0], false, FORCED)))
        .unwrap();
    assert_eq!(
        bench.apply_command(register_command(3, &[0], true, FORCED)),
        Err(FileRejection::Anothers)
    );
}

#[test]
fn a_replica_that_is_not_the_last_goes_although_jobs_need_the_file() {
    let mut bench = FileTestBench::with_registered_file();
    bench.apply_command(add_replica_command(1, 1)).unwrap();
    assert_eq!(
        bench.apply_command(remove_replica_command(0, permission_for_needed(3))),
        Ok(vec!["ReplicaRemoved"])
    );
    assert_eq!(
        bench.apply_command(remove_replica_command(0, permission_for_needed(3))),
        Err(FileRejection::NoSuchReplica)
    );
}

#[test]
fn a_name_outlives_its_last_replica_but_not_its_end() {
    let mut bench = FileTestBench::with_registered_file();
    bench
        .apply_command(remove_replica_command(0, TakingPermission::default()))
        .unwrap();
    assert!(!bench.record.is_gone());
    bench
        .apply_command(FileCommand::Unregister {
            by: requesting_key(),
            grip: TakingPermission::default(),
        })
        .unwrap();
    assert!(bench.record.is_gone());
    for command in [
        add_replica_command(0, 1),
        remove_replica_command(0, FORCED),
        FileCommand::Unregister {
            by: requesting_key(),
            grip: FORCED,
        },
    ] {
        assert_eq!(
            bench.apply_command(command),
            Err(FileRejection::NotRegistered)
        );
    }
}

#[test]
fn replicas_are_at_least_one_and_at_most_so_many() {
    let mut bench = FileTestBench::new();
    let all: Vec<_> = (0..MAX_REPLICAS).collect();
    assert_eq!(
        bench.apply_command(register_command(1, &[], false, TakingPermission::default())),
        Err(FileRejection::NoReplica)
    );
    bench
        .apply_command(register_command(
            1,
            &all,
            false,
            TakingPermission::default(),
        ))
        .unwrap();
    assert_eq!(
        bench.apply_command(add_replica_command(MAX_REPLICAS, 1)),
        Err(FileRejection::TooManyReplicas)
    );
    let more = register_command(1, &[MAX_REPLICAS], false, TakingPermission::default());
    assert_eq!(
        bench.apply_command(more),
        Err(FileRejection::TooManyReplicas)
    );
    let all: Vec<_> = (0..=MAX_REPLICAS).collect();
    let more = register_command(1, &all, true, TakingPermission::default());
    assert_eq!(
        bench.apply_command(more),
        Err(FileRejection::TooManyReplicas)
    );
}

fn any_command() -> impl Strategy<Value = FileCommand> {
    let grips = (0_u32..2, any::<bool>())
        .prop_map(|(needed_by, force)| TakingPermission { needed_by, force });
    let replicas = prop::collection::vec(0_usize..40, 0..5);
    prop_oneof![
        2 => (1_u8..3, replicas, any::<bool>(), grips.clone())
            .prop_map(|(id, replicas, replace, grip)| register_command(id, &replicas, replace, grip)),
        6 => (0_usize..40, 1_u8..3).prop_map(|(i, id)| add_replica_command(i, id)),
        3 => (0_usize..40, grips.clone()).prop_map(|(i, grip)| remove_replica_command(i, grip)),
        3 => (0_usize..40, 1_u8..3, 0_u8..3).prop_map(|(i, id, look)| note_stamp_command(i, id, look)),
        1 => grips.prop_map(|grip| FileCommand::Unregister { by: requesting_key(), grip }),
    ]
}

/// What a name stands for and where, as a user would keep it in mind.
type ExpectedEntry = Option<(u8, BTreeSet<ReplicaPlace>)>;

fn apply_to_model(model: &mut ExpectedEntry, command: &FileCommand) {
    match command {
        FileCommand::Register {
            content, replicas, ..
        } => match model {
            Some((id, known)) if digest(*id) == content.digest => known.extend(replicas.clone()),
            _ => *model = Some((content.digest.0[0], replicas.iter().cloned().collect())),
        },
        FileCommand::AddReplica { site, place, .. } => {
            model
                .iter_mut()
                .for_each(|(_, known)| _ = known.insert((site.clone(), place.clone())));
        }
        FileCommand::RemoveReplica { site, place, .. } => {
            model
                .iter_mut()
                .for_each(|(_, known)| _ = known.remove(&(site.clone(), place.clone())));
        }
        FileCommand::NoteStamp { .. } => {}
        FileCommand::Unregister { .. } => *model = None,
    }
}

proptest! {
    #[test]
    fn the_catalogue_keeps_what_was_accepted_and_nothing_else(
        commands in prop::collection::vec(any_command(), 0..80),
    ) {
        let mut bench = FileTestBench::new();
        let mut model: ExpectedEntry = None;
        for command in commands {
            let before = bench.record.clone();
            match bench.apply_command(command.clone()) {
                Ok(_) => apply_to_model(&mut model, &command),
                Err(_) => prop_assert_eq!(&before, &bench.record),
            }
            let kept = bench.record.entry.as_ref()
                .map(|e| (e.content.digest.0[0], e.replicas.iter().cloned().collect()));
            prop_assert_eq!(&kept, &model);
            let replicas = bench.replicas();
            let stamped = bench.record.entry.iter().flat_map(|entry| entry.stamps.keys());
            let mut stamped = stamped.cloned();
            prop_assert!(stamped.all(|replica| replicas.contains(&replica)), "of what is there");
            prop_assert!(replicas.len() <= MAX_REPLICAS);
            prop_assert!(replicas.is_sorted() && replicas.windows(2).all(|pair| pair[0] != pair[1]));
        }
        let mut replayed = FileTestBench::new().record;
        bench.journal.iter().for_each(|event| FileMachine::evolve(&mut replayed, event));
        prop_assert_eq!(replayed, bench.record);
    }

    #[test]
    fn what_others_ask_changes_nothing(commands in prop::collection::vec(any_command(), 0..80)) {
        let mut bench = FileTestBench::with_registered_file();
        let before = bench.record.clone();
        for command in commands {
            if !matches!(command, FileCommand::NoteStamp { .. }) {
                let told = bench.apply_command(with_asker("otto", false, command));
                prop_assert!(told.is_err());
            }
            prop_assert_eq!(&bench.record, &before);
        }
    }

    #[test]
    fn without_force_a_file_in_use_keeps_its_content_and_a_replica(
        commands in prop::collection::vec(any_command(), 0..80),
    ) {
        let mut bench = FileTestBench::with_registered_file();
        for command in commands {
            let gentle = match command {
                FileCommand::Register { content, directory, replicas, by, replace, .. } =>
                    FileCommand::Register { content, directory, replicas, by, replace, grip: permission_for_needed(1) },
                FileCommand::RemoveReplica { site, place, by, .. } =>
                    FileCommand::RemoveReplica { site, place, by, grip: permission_for_needed(1) },
                FileCommand::Unregister { by, .. } =>
                    FileCommand::Unregister { by, grip: permission_for_needed(1) },
                other @ (FileCommand::AddReplica { .. } | FileCommand::NoteStamp { .. }) => other,
            };
            let _ = bench.apply_command(gentle);
            let entry = bench.record.entry.as_ref().unwrap();
            prop_assert_eq!(entry.content.digest, digest(1));
            prop_assert!(!entry.replicas.is_empty());
        }
    }
}
