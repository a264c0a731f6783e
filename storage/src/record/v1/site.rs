//! Sites: their errors, and the commands of operators.

use std::sync::Arc;

use cospan_domain::ids::{KeyName, ReservationName, SiteName};
use cospan_domain::site::barred_owners_record;
use cospan_domain::site::failure::FailureClass as DomainClass;
use cospan_domain::site::joint_reservation::{self, JointReservationState};
use cospan_domain::site::shared_reservation::{self, SharedReservationEnd, SharedReservationStage};
use cospan_domain::site::site_state::{self, Breaker as DomainBreaker, SiteNotificationKind};

use super::convert::{TextValue, wire_enum, wire_inner, wire_struct};
use super::reservation::StartWindow;
use super::spec::Resources;

wire_struct!(SiteRecord = site_state::SiteRecord {
    site: TextValue<SiteName>,
    consecutive_errors: u32,
    breaker: Breaker;
    operator: Operator,
    counted: Vec<AttemptId>,
    recent_errors: Vec<ErrorDetail>,
    owed: Vec<Notification>,
    last_notification: u64,
    notifications_dropped: u64,
    erring_jobs: Vec<u64>,
    shared: Vec<SharedReservation>,
    last_shared: u32,
    accused: Option<TextValue<KeyName>>,
    reopened_by: Option<TextValue<KeyName>>,
    own_probe: Option<OwnProbe>,
    last_own_probe: u32,
    kept_off: Vec<KeptOff>,
});

wire_struct!(OwnProbe = barred_owners_record::OwnProbe { number: u32, owner: TextValue<KeyName>, since: u64 });
wire_struct!(KeptOff = barred_owners_record::BarredOwner {
    owner: TextValue<KeyName>,
    since: u64,
    until: u64,
    times: u32,
});

wire_struct!(SharedReservation = shared_reservation::SharedReservation {
    wish: SharedWish,
    serial: u32,
    by: TextValue<KeyName>,
    stage: SharedStage;
    granted: Option<u64>,
    used: bool,
    together: Option<Together>,
    extension: u32,
});
wire_struct!(
    Together = joint_reservation::JointPartState {
        root: u32,
        tries: u32,
        accord: Accord
    }
);
wire_enum!(
    Accord = JointReservationState {
        Looking,
        Agreed,
        Kept
    }
);
wire_struct!(SharedWish = shared_reservation::SharedReservationTerms {
    name: TextValue<ReservationName>,
    resources: Resources,
    window: StartWindow,
    length: u64;
    allowed: Vec<TextValue<KeyName>>,
    lead: u64,
    margin: u64,
    parts: Vec<(TextValue<SiteName>, Resources)>,
    tolerance: u64,
});
wire_enum!(SharedStage = SharedReservationStage {
    Asked,
    Granted,
    Confirmed,
    Extending { length: u64 },
    Releasing(SharedEnd),
    Ended(SharedEnd),
});
wire_enum!(SharedEnd = SharedReservationEnd {
    Refused { next: Option<u64> },
    WrongStart,
    Lost,
    NoShow,
    Cancelled { by: TextValue<KeyName> },
    AskedAnew,
});

wire_struct!(
    AttemptId = site_state::AttemptId {
        job: u64,
        component: u32,
        attempt: u32
    }
);

wire_enum!(Breaker = DomainBreaker {
    Closed,
    Open { since: u64, probe_at: u64, trips: u32 },
    HalfOpen { since: u64, allowed: u32, running: Vec<AttemptId>, trips: u32 },
});

wire_struct!(Operator = site_state::OperatorSettings {
    ;
    draining: Option<Order>,
    frozen: Option<Order>,
    windows: Vec<Window>,
    forced: Option<Forced>,
    reset: Option<Order>,
});

impl Default for Operator {
    fn default() -> Self {
        super::WireConversion::to_wire(&site_state::OperatorSettings::default())
    }
}

wire_struct!(Order = site_state::CommandOrigin { by: TextValue<KeyName>, at: u64 });
wire_struct!(Window = site_state::MaintenanceWindow { from: u64, until: u64, by: TextValue<KeyName>, reason: Arc<str> });
wire_struct!(Forced = site_state::ForcedState { usable: bool, until: u64, by: TextValue<KeyName> });

wire_struct!(ErrorDetail = site_state::SiteErrorRecord {
    attempt: AttemptId,
    class: FailureClass,
    at: u64,
    detail: Arc<str>,
});

wire_enum!(
    FailureClass = DomainClass {
        Application,
        Site,
        SiteFull,
        ClaimLost,
        Preempted,
        WallTime,
        Cancelled,
        Unknown,
    }
);

wire_struct!(Notification = site_state::SiteNotification {
    id: u64,
    kind: NotificationKind,
    at: u64,
    text: Arc<str>;
    details: Vec<Arc<str>>,
});

wire_enum!(
    NotificationKind = SiteNotificationKind {
        Unusable,
        ProbeFailed,
        Usable,
        Unreachable,
        CredentialsExpired,
        Answering,
        NoShow,
        ReservationLost,
    }
);
