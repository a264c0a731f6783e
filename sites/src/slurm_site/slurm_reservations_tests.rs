//! What Slurm says of reservations, in the layouts of several versions, and what is made of it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cospan_domain::reservation::{
    ReservationAnswer, ReservationRequest, ReservationTag, StartWindow, TimeSpan,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use super::occupancy::{SlurmOccupancy, SlurmReservation};
use super::queue::PartitionLoad;
use super::{SlurmSite, SlurmSiteConfig};
use crate::agent::SiteAgentAnswer;
use crate::exec::{
    CommandExecutor, CommandExit, CommandOutput, ExecCommand, ExecError, ProgramOrScript,
};
use crate::port::{SiteError, SiteReservations, TaggedReservationRequest};

const TAG: &str = "cabcdefgh-7-r1";

/// 22.05, of a part of one node, to be ended while idle.
const PART: &str = "ReservationName=cabcdefgh-7-r1 StartTime=10000 EndTime=13720 Duration=01:02:00 \
     Nodes=n0 NodeCnt=1 CoreCnt=16 Features=(null) PartitionName=normal \
     Flags=PURGE_COMP=00:30:00   NodeName=n0 CoreIDs=0-15 TRES=cpu=16 Users=me Groups=(null) \
     Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a \
     MaxStartDelay=(null)";

/// 24.05, with two threads of a core, without `Watts`, with a comment.
const THREADS: &str = "ReservationName=course StartTime=10000 EndTime=17200 Duration=02:00:00 \
     Nodes=n[0-1] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=(null) \
     Flags=SPEC_NODES,ALL_NODES TRES=cpu=32 Users=(null) Groups=course Accounts=(null) \
     Licenses=(null) State=ACTIVE BurstBuffer=(null) MaxStartDelay=(null) Comment=TRES=cpu=9";

/// 17.11, in which nothing is said of processors.
const OLD: &str = "ReservationName=maint StartTime=20000 EndTime=30000 Duration=02:46:40 \
     Nodes=n[0-3] NodeCnt=4 CoreCnt=64 Features=(null) PartitionName=normal Flags=MAINT,IGNORE_JOBS \
     Users=root Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a";

/// 64 processors on four nodes; 10 of n0 and n2 are in use until 5000, 8 within `course`.
const REST: &str = "running 20|5000|(null)|n[0,2]\nrunning 8|12000|course|n0\n\
     running 5|x|(null)|m7\nmembers normal*|1|n[0-3]\nmembers gpu|2|m[0-9]\n";

const SECOND: u64 = 1_000;

fn at_second(second: u64) -> Timestamp {
    Timestamp(second * SECOND)
}

fn answer_with_reservations(reserved: &[&str]) -> SiteAgentAnswer {
    let lines: Vec<String> = reserved
        .iter()
        .map(|line| format!("reserved {line}\n"))
        .collect();
    SiteAgentAnswer(lines.concat() + "reserved No reservations in the system\n" + REST)
}

#[test]
fn reservations_are_read_in_the_layouts_of_several_versions() {
    let bookings = SlurmOccupancy::from_answer(&answer_with_reservations(&[PART, THREADS, OLD]));
    let of = |name: &str| bookings.find_reservation(name).unwrap();
    let told = |booked: &SlurmReservation| (booked.span, booked.processors, booked.confirmed);
    assert_eq!(
        told(of(TAG)),
        (
            TimeSpan::new(at_second(10_000), at_second(13_720)),
            16,
            false
        )
    );
    assert_eq!(
        told(of("course")),
        (
            TimeSpan::new(at_second(10_000), at_second(17_200)),
            32,
            true
        )
    );
    assert_eq!(
        told(of("maint")),
        (
            TimeSpan::new(at_second(20_000), at_second(30_000)),
            64,
            true
        )
    );
    assert_eq!(bookings.reserved.len(), 3);
    assert!(of(TAG).is_ours() && !of("course").is_ours());
    assert_eq!(
        (
            bookings.processors_per_core(None),
            bookings.processors_per_core(Some("gpu"))
        ),
        (1, 2)
    );
}

#[test]
fn what_is_reserved_is_nobody_elses_and_counted_once() {
    let bookings = SlurmOccupancy::from_answer(&answer_with_reservations(&[PART, THREADS, OLD]));
    let now = at_second(11_000);
    assert_eq!(
        bookings.idle_in_reservation("course", now),
        24,
        "8 of 32 are in use"
    );
    assert_eq!(
        bookings.idle_in_reservation("course", at_second(9_000)),
        0,
        "not begun"
    );
    assert_eq!(bookings.reserved_idle(None, now), 24 + 16);
    assert_eq!(bookings.reserved_idle(Some("gpu"), now), 0, "other nodes");
    let load = PartitionLoad {
        idle: 0,
        total: 64,
        whole: 64,
    };
    let free = |now, from, to| {
        let timeline = bookings
            .forecast_timeline(None, load, &Resources::processors(64), now)
            .unwrap();
        timeline
            .least_free(TimeSpan::new(at_second(from), at_second(to)))
            .free_processor_count()
    };
    assert_eq!(
        free(at_second(4_000), 4_000, 4_001),
        64 - 20 - 8,
        "both jobs"
    );
    assert_eq!(free(at_second(4_000), 6_000, 9_999), 64 - 8);
    assert_eq!(
        free(now, 11_001, 13_700),
        64 - 32 - 16,
        "what runs inside is inside"
    );
    assert_eq!(free(now, 18_000, 19_000), 64);
    assert_eq!(free(now, 20_000, 20_001), 0);
    let idle = Resources::processors(16);
    let ebbs = bookings.idle_drops(None, load, &idle, now);
    let ebbs: Vec<(u64, u32)> = ebbs
        .iter()
        .map(|e| (e.at.0 / SECOND, e.left.processors))
        .collect();
    assert_eq!(ebbs, [(20_000, 0)], "the maintenance");
}

#[test]
fn a_line_that_does_not_say_when_or_how_much_is_no_reservation() {
    for (part, odd) in [
        ("StartTime=10000", "StartTime=2026-11-20T09:32:36"),
        ("EndTime=13720", "EndTime=9999"),
        ("EndTime=13720", ""),
        ("CoreCnt=16", "CoreCnt=1,6"),
        ("Flags=PURGE", "Flag=PURGE"),
        ("ReservationName=cabcdefgh-7-r1", "ReservationName="),
    ] {
        let line = PART.replace(part, odd);
        assert_eq!(
            SlurmOccupancy::from_answer(&answer_with_reservations(&[&line])).reserved,
            [],
            "{odd}"
        );
    }
}

/// A cluster that answers to `reserve` what it is told to, and then shows this.
#[derive(Debug, Default)]
struct ReservingCluster(Mutex<ReservingClusterState>);

#[derive(Debug, Default)]
struct ReservingClusterState {
    before: String,
    /// One for each time that it is asked to reserve; the rest is done.
    refuses: Vec<&'static str>,
    shows: String,
    is_made: bool,
    asked: Vec<String>,
}

#[async_trait]
impl CommandExecutor for ReservingCluster {
    async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError> {
        let ProgramOrScript::Script { words, .. } = &command.work else {
            unreachable!()
        };
        let words: Vec<&str> = words[3..]
            .iter()
            .map(|word| word.to_str().unwrap())
            .collect();
        let mut said = self.0.lock().unwrap();
        let load = "load normal*|up|0/64/0/64|1-0|1:00:00\n";
        let answer = match words[0] {
            "describe" => format!("{load}config SelectTypeParameters = CR_CORE\n"),
            "timetable" => {
                let shown = if said.is_made { &said.shows } else { "" };
                format!(
                    "clock 1000.0\n{load}{}{shown}members normal*|1|n[0-3]\n",
                    said.before
                )
            }
            _ => {
                said.asked.push(words.join(" "));
                match said.refuses.pop() {
                    Some(why) => format!("code 1\nsaid Error creating the reservation: {why}\n"),
                    None => {
                        said.is_made = words[0] == "reserve";
                        "code 0\n".to_owned()
                    }
                }
            }
        };
        let stdout = (answer + "done\n").into_bytes();
        Ok(CommandOutput {
            ended: CommandExit::Code(0),
            stdout,
            stderr: Vec::new(),
        })
    }
}

fn reserving_site(cluster: &Arc<ReservingCluster>) -> SlurmSite {
    let all = Resources {
        processors: 64,
        others: [("gpus".into(), 4)].into(),
    };
    let name = "there".parse().unwrap();
    let mut config = SlurmSiteConfig::new(name, "/r".into(), all, vec!["/bin/true".into()]);
    config.reservations = true;
    SlurmSite::with_remote_root(config, cluster.clone()).unwrap()
}

fn tag() -> ReservationTag {
    TAG.parse().unwrap()
}

/// 16 processors for an hour.
fn reservation_request(window: StartWindow) -> TaggedReservationRequest {
    let length = DurationMs::from_secs(3_600);
    let resources = Resources::processors(16);
    let request = ReservationRequest {
        resources,
        length,
        window,
        flexible: false,
    };
    TaggedReservationRequest {
        tag: tag(),
        number: 1,
        request,
        keep_for: DurationMs::from_secs(1_800),
    }
}

#[tokio::test]
async fn starts_are_tried_in_turn_as_what_is_promised_ends() {
    let cluster = Arc::new(ReservingCluster::default());
    {
        let mut said = cluster.0.lock().unwrap();
        said.before = format!("reserved {OLD}\n").replace("CoreCnt=64", "CoreCnt=32");
        said.refuses = vec!["Requested nodes are busy"; 2];
        said.shows = format!("reserved {PART}\n")
            .replace("=10000", "=30000")
            .replace("=13720", "=33720");
    }
    let window = StartWindow::new(at_second(10_000), at_second(40_000));
    let answer = reserving_site(&cluster)
        .request(&reservation_request(window))
        .await;
    assert_eq!(
        answer,
        Ok(ReservationAnswer::Granted {
            start: at_second(30_000)
        })
    );
    let asked = cluster.0.lock().unwrap().asked.clone();
    let with = |from: u64| {
        format!(
            "reserve {TAG} {from} {} 16 normal 00:30:00",
            from + 3_600 + 120
        )
    };
    assert_eq!(asked, [with(10_000), with(20_000), with(30_000)]);
}

#[tokio::test]
async fn a_search_in_vain_ends_and_names_a_start_after_the_window() {
    let cluster = Arc::new(ReservingCluster::default());
    cluster.0.lock().unwrap().refuses = vec!["Requested nodes are busy"; 100];
    let window = StartWindow::new(at_second(10_000), at_second(90_000));
    let answer = reserving_site(&cluster)
        .request(&reservation_request(window))
        .await;
    let Ok(ReservationAnswer::NotBefore { next }) = answer else {
        panic!("{answer:?}")
    };
    assert!(next > at_second(90_000));
    assert_eq!(cluster.0.lock().unwrap().asked.len(), 6);
}

#[tokio::test]
async fn what_cannot_be_reserved_is_refused_without_asking() {
    let cluster = Arc::new(ReservingCluster::default());
    let mut order = reservation_request(StartWindow::single_start(at_second(10_000)));
    order.request.resources.others.insert("gpus".into(), 1);
    assert_eq!(
        reserving_site(&cluster).request(&order).await,
        Ok(ReservationAnswer::Never)
    );
    assert_eq!(cluster.0.lock().unwrap().asked, [""; 0]);
}

#[tokio::test]
async fn an_account_without_the_right_is_told_what_to_do() {
    let cluster = Arc::new(ReservingCluster::default());
    cluster.0.lock().unwrap().refuses = vec!["Invalid user id"];
    let answer = reserving_site(&cluster)
        .request(&reservation_request(StartWindow::single_start(at_second(
            10_000,
        ))))
        .await;
    let Err(SiteError::Refused(why)) = &answer else {
        panic!("{answer:?}")
    };
    assert!(why.contains("AdminLevel=Operator"), "{why}");
}

/// Changes one byte of a line, drops one, or cuts it off there.
fn mutate_line(line: &str, number: u64) -> String {
    let random = number
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1)
        >> 17;
    let mut bytes = line.as_bytes().to_vec();
    let place = (random >> 8) as usize % bytes.len();
    match random % 4 {
        0 => bytes.truncate(place),
        1 => drop(bytes.remove(place)),
        _ => bytes[place] = b' ' + (random >> 32) as u8 % 95,
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_garbled_answer_never_becomes_another_grant() {
    let window = StartWindow::single_start(at_second(10_000));
    let mut granted = 0;
    let mut refused = 0;
    for number in 0..2_000 {
        let cluster = Arc::new(ReservingCluster::default());
        let shown = mutate_line(PART, number);
        let kept = SlurmOccupancy::from_answer(&answer_with_reservations(&[&shown]))
            .reserved
            .pop();
        cluster.0.lock().unwrap().shows = format!("reserved {shown}\n");
        match reserving_site(&cluster)
            .request(&reservation_request(window))
            .await
        {
            Ok(answer) => {
                assert_eq!(
                    answer,
                    ReservationAnswer::Granted {
                        start: at_second(10_000)
                    },
                    "{shown}"
                );
                let kept = kept.unwrap();
                assert!(
                    kept.processors >= 16 && kept.span.to >= at_second(13_720 - 1),
                    "{shown}"
                );
                granted += 1;
            }
            Err(SiteError::OutcomeUnknown(_)) => refused += 1,
            Err(error) => panic!("{shown}: {error:?}"),
        }
    }
    assert!(granted > 500 && refused > 500, "{granted} and {refused}");
}
