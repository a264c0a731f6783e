//! Draws any copy, site and file.

use std::collections::{BTreeSet, VecDeque};

use cospan_domain::catalogue::file_state::{CatalogueEntry, FileRecord};
use cospan_domain::ids::{Attempt, AttemptTag, InstanceId, JobId, KeyName, SiteName};
use cospan_domain::reservation::{ReservationSerial, StartWindow};
use cospan_domain::resources::Resources;
use cospan_domain::site::barred_owners_record::{BarredOwner, OwnProbe};
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::joint_reservation::{JointPartState, JointReservationState};
use cospan_domain::site::shared_reservation::{
    SharedReservation, SharedReservationEnd, SharedReservationStage, SharedReservationTerms,
};
use cospan_domain::site::site_state::{
    AttemptId, Breaker, CommandOrigin, ForcedState, MaintenanceWindow, OperatorSettings,
    SiteErrorRecord, SiteNotification, SiteNotificationId, SiteNotificationKind, SiteRecord,
};
use cospan_domain::transfer::copy_state::{
    CopyFaults, CopyPhase, CopyRecord, CopyTry, CopyTrySource, CopyUsage, TryNonce,
};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::DurationMs;

use super::Draw;

impl Draw {
    fn file_place(&mut self) -> FilePlace {
        match self.below(3) {
            0 => FilePlace::Store(self.digest()),
            1 => FilePlace::User(self.path()),
            _ => {
                let tag = AttemptTag {
                    instance: InstanceId::from_random(self.n64()),
                    job: JobId(self.n64()),
                    component: self.index(),
                    attempt: Attempt(self.n32()),
                };
                FilePlace::Output(tag, self.path())
            }
        }
    }

    fn copy_source(&mut self) -> CopyTrySource {
        CopyTrySource {
            site: self.name(),
            place: self.file_place(),
        }
    }

    fn order(&mut self) -> CopyTry {
        CopyTry {
            source: self.copy_source(),
            nonce: TryNonce(self.n64()),
        }
    }

    pub(crate) fn copy(&mut self) -> CopyRecord {
        let since = self.at();
        let at = self.at();
        let nonce = TryNonce(self.n64());
        CopyRecord {
            content: self.content(),
            chunk: self.maybe(Self::chunk),
            site: self.name(),
            usage: self
                .maybe(Self::at)
                .map_or(CopyUsage::Needed, |since| CopyUsage::Unneeded { since }),
            phase: match self.below(6) {
                0 => CopyPhase::Absent,
                1 => CopyPhase::Waiting {
                    since,
                    not_before: at,
                    resume: self.maybe(Self::order),
                    given_up: self.coin(),
                },
                2 => CopyPhase::Copying {
                    since,
                    order: self.order(),
                    started: self.coin(),
                },
                3 => CopyPhase::Stopping {
                    since,
                    order: self.order(),
                },
                4 => CopyPhase::Ready { at, nonce },
                _ => CopyPhase::Deleting { since, nonce },
            },
            trouble: CopyFaults {
                tries: self.n32(),
                destination: self.n32(),
                excluded: self.some(Self::name::<SiteName>),
                last_error: self.maybe(Self::text),
                at_destination: self.coin(),
            },
            latest: self.maybe(Self::order),
            leftovers: self.some(|draw| (TryNonce(draw.n64()), draw.copy_source())),
        }
    }

    fn attempt(&mut self) -> AttemptId {
        let job = JobId(self.n64());
        let attempt = Attempt(self.n32());
        AttemptId {
            job,
            component: self.index(),
            attempt,
        }
    }

    fn order_of(&mut self) -> CommandOrigin {
        CommandOrigin {
            by: self.name(),
            at: self.at(),
        }
    }

    pub(crate) fn site(&mut self) -> SiteRecord {
        let since = self.at();
        let at = self.at();
        let trips = self.n32();
        SiteRecord {
            site: self.name(),
            consecutive_errors: self.n32(),
            breaker: match self.below(3) {
                0 => Breaker::Closed,
                1 => Breaker::Open {
                    since,
                    probe_at: at,
                    trips,
                },
                _ => {
                    let running: BTreeSet<_> = self.some(Self::attempt);
                    Breaker::HalfOpen {
                        since,
                        allowed: self.n32(),
                        running,
                        trips,
                    }
                }
            },
            operator: OperatorSettings {
                draining: self.maybe(Self::order_of),
                frozen: self.maybe(Self::order_of),
                windows: self.some(|draw| MaintenanceWindow {
                    from: draw.at(),
                    until: draw.at(),
                    by: draw.name(),
                    reason: draw.text(),
                }),
                forced: self.maybe(|draw| ForcedState {
                    usable: draw.coin(),
                    until: draw.at(),
                    by: draw.name(),
                }),
                reset: self.maybe(Self::order_of),
            },
            erring_jobs: self.some(|draw| JobId(draw.n64())),
            counted: self.some(Self::attempt),
            recent_errors: self.some::<VecDeque<_>, _>(|draw| SiteErrorRecord {
                attempt: draw.attempt(),
                class: draw.one(&FailureClass::ALL),
                at: draw.at(),
                detail: draw.text(),
            }),
            owed: self.some(Self::notification),
            last_notification: SiteNotificationId(self.n64()),
            notifications_dropped: self.n64(),
            shared: self.some(Self::shared),
            last_shared: ReservationSerial(self.n32()),
            accused: self.maybe(Self::name),
            reopened_by: self.maybe(Self::name),
            own_probe: self.maybe(|draw| OwnProbe {
                number: Attempt(draw.n32()),
                owner: draw.name(),
                since: draw.at(),
            }),
            last_own_probe: Attempt(self.n32()),
            kept_off: self.some(|draw| BarredOwner {
                owner: draw.name(),
                since: draw.at(),
                until: draw.at(),
                times: draw.n32(),
            }),
        }
    }

    fn shared(&mut self) -> SharedReservation {
        let length = DurationMs(self.n64());
        let end = match self.below(6) {
            0 => SharedReservationEnd::Refused {
                next: self.maybe(Self::at),
            },
            1 => SharedReservationEnd::WrongStart,
            2 => SharedReservationEnd::Lost,
            3 => SharedReservationEnd::NoShow,
            4 => SharedReservationEnd::AskedAnew,
            _ => SharedReservationEnd::Cancelled { by: self.name() },
        };
        SharedReservation {
            wish: SharedReservationTerms {
                name: self.name(),
                allowed: self.some(Self::name::<KeyName>),
                resources: Resources::processors(self.n32()),
                window: StartWindow::new(self.at(), self.at()),
                lead: DurationMs(self.n64()),
                length,
                margin: DurationMs(self.n64()),
                parts: self.some(|draw| (draw.name(), Resources::processors(draw.n32()))),
                tolerance: DurationMs(self.n64()),
            },
            serial: ReservationSerial(self.n32()),
            by: self.name(),
            granted: self.maybe(Self::at),
            used: self.coin(),
            together: self.maybe(|draw| JointPartState {
                root: ReservationSerial(draw.n32()),
                tries: draw.n32(),
                accord: draw.one(&[
                    JointReservationState::Looking,
                    JointReservationState::Agreed,
                    JointReservationState::Kept,
                ]),
            }),
            extension: self.n32(),
            stage: match self.below(6) {
                0 => SharedReservationStage::Asked,
                1 => SharedReservationStage::Granted,
                2 => SharedReservationStage::Confirmed,
                3 => SharedReservationStage::Extending { length },
                4 => SharedReservationStage::Releasing(end),
                _ => SharedReservationStage::Ended(end),
            },
        }
    }

    fn notification(&mut self) -> SiteNotification {
        use SiteNotificationKind::{
            Answering, CredentialsExpired, NoShow, ProbeFailed, ReservationLost, Unreachable,
            Unusable, Usable,
        };
        let kinds = [
            Unusable,
            ProbeFailed,
            Usable,
            Unreachable,
            CredentialsExpired,
            Answering,
            NoShow,
            ReservationLost,
        ];
        SiteNotification {
            id: SiteNotificationId(self.n64()),
            kind: self.one(&kinds),
            at: self.at(),
            text: self.text(),
            details: self.some(Self::text),
        }
    }

    pub(crate) fn file(&mut self) -> FileRecord {
        FileRecord {
            name: self.logical(),
            entry: self.maybe(|draw| CatalogueEntry {
                content: draw.content(),
                directory: draw.coin(),
                replicas: draw.some(|draw| (draw.name(), draw.file_place())),
                registered_at: draw.at(),
                registered_by: draw.name(),
                stamps: draw.some(|draw| ((draw.name(), draw.file_place()), draw.text())),
            }),
        }
    }
}
