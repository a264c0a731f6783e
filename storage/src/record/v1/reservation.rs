//! The reservations that a job asks for, and the present state of the search for them.

use std::sync::Arc;

use cospan_domain::acquisition::{self, RankingObjective};
use cospan_domain::ids::{SiteName, TargetName};
use cospan_domain::job::job_state::{self, StartNoticeKind, TermsChange};
use cospan_domain::reservation::coallocation::{
    self, AugmentingCall, PlacingStep, RankingCall, ReservationOutcome, ReservationSearchFailure,
    ReservationSearchStep,
};
use cospan_domain::reservation::{self, CandidateState, agreement};

use super::component::Placement;
use super::convert::{
    RecordProblem, TextValue, WireConversion, wire_enum, wire_inner, wire_struct,
};
use super::spec::Resources;

wire_struct!(ReservationWish = acquisition::ReservationTerms {
    window: StartWindow;
    tolerance: u64,
    flexible: bool,
    reserve_after: Option<u64>,
    unreserved: bool,
    exempt: bool,
});
wire_struct!(
    StartWindow = agreement::StartWindow {
        earliest: u64,
        latest: u64
    }
);

wire_struct!(Reservation = job_state::JobReservations {
    search: Search,
    placements: Vec<Vec<Placement>>,
    lead: u64;
    answers: u32,
    asked_since: u64,
    spent: bool,
    other: Option<Other>,
    claimed: Vec<Unreserved>,
    withheld: bool,
    notices: Notices,
    split: Option<Split>,
    refusals: u32,
});
wire_struct!(Split = job_state::JobDivision { shape: u32; refused: u32, is_last: bool });
wire_struct!(Anew = job_state::AlternativeDivision { placements: Vec<Vec<Placement>>, split: Split });
wire_struct!(Notices = job_state::StartNotices {;
    announced: Option<u64>,
    owed: Vec<StartNotice>,
    last: u32,
});

impl Default for Notices {
    fn default() -> Self {
        job_state::StartNotices::default().to_wire()
    }
}

wire_struct!(StartNotice = job_state::StartNotice {
    id: u32,
    kind: NoticeKind,
    at: u64,
    start: u64,
    told: Vec<TextValue<TargetName>>,
});
wire_enum!(
    NoticeKind = StartNoticeKind {
        StartsSoon,
        StartMoved
    }
);
wire_struct!(
    Unreserved = job_state::UnreservedComponent {
        component: u32,
        placement: Placement
    }
);

impl WireConversion<Reservation> for Box<job_state::JobReservations> {
    fn to_wire(&self) -> Reservation {
        (**self).to_wire()
    }

    fn from_wire(wire: Reservation) -> Result<Self, RecordProblem> {
        job_state::JobReservations::from_wire(wire).map(Box::new)
    }
}
wire_struct!(Other = job_state::Rescheduling {
    search: Search;
    wish: Option<ReservationWish>,
    anew: Option<Anew>,
});

impl WireConversion<Anew> for Box<job_state::AlternativeDivision> {
    fn to_wire(&self) -> Anew {
        (**self).to_wire()
    }

    fn from_wire(wire: Anew) -> Result<Self, RecordProblem> {
        job_state::AlternativeDivision::from_wire(wire).map(Box::new)
    }
}

wire_enum!(Wish = TermsChange { AsSubmitted, Changed(ReservationWish), Dropped });

wire_struct!(Coallocation = coallocation::Coallocation {
    parts: Vec<Part>,
    window: StartWindow,
    tolerance: u64,
    unit: u64,
    windows_max: u32;
    rankings: Vec<Ranking>,
});

wire_struct!(Ranking = reservation::SiteRanking {
    objective: Objective,
    since: u64,
    stage_out: u64,
    most: u32,
    candidates: Vec<Candidate>,
});
wire_struct!(Candidate = reservation::ReservationCandidate {
    site: TextValue<SiteName>;
    stage_in: Option<u64>,
    execution: Option<u64>,
    expected: Option<u64>,
    found: Found,
});
wire_enum!(
    Objective = RankingObjective {
        EarliestStart,
        EarliestCompletion
    }
);
wire_enum!(Found = CandidateState {
    NotAsked,
    TooLate,
    Granted(u64),
    Refused(Option<u64>),
    Lost,
});

impl Default for Found {
    fn default() -> Self {
        CandidateState::default().to_wire()
    }
}

impl Default for Objective {
    fn default() -> Self {
        RankingObjective::default().to_wire()
    }
}

wire_struct!(Preferences = acquisition::RankingPreferences {
    ;
    objective: Objective,
    benchmarks: Vec<Benchmark>,
    run_time: Option<u64>,
    stage_in: Option<u64>,
    stage_out: Option<u64>,
});
wire_struct!(Benchmark = acquisition::JobBenchmark { name: Arc<str>, reference: u64, run_time: u64 });

wire_struct!(Part = coallocation::CoallocationPart {
    component: u32,
    resources: Resources,
    length: u64,
    sites: Vec<TextValue<SiteName>>;
    offset: u64,
});

wire_struct!(Search = reservation::ReservationSearch {
    job: Coallocation,
    window: StartWindow,
    windows_tried: u32,
    held: Vec<Option<Held>>,
    step: Step;
    unplaced: Vec<u32>,
    best: Option<u64>,
    serials: u32,
    given_up: bool,
});

wire_struct!(Held = reservation::PartReservation { site: TextValue<SiteName>, serial: u32, start: u64 });

wire_enum!(Step = ReservationSearchStep {
    Rank { granted: Vec<Held>, at: Probing },
    Place { part: u32, at: Placing, refused: Option<u64> },
    Augment { turn: u32, at: Augmenting },
    Check { left: Vec<Held> },
    Confirm { left: Vec<Held> },
    Release { left: Vec<Held>, failure: Failure },
    Confirmed,
});

wire_enum!(Probing = RankingCall { Create(u32), Cancel(u32), Confirm, Release });

wire_enum!(Placing = PlacingStep { Move(Held), Cancel { old: Held, rank: u32 }, Create(u32) });

wire_enum!(Augmenting = AugmentingCall {
    Create(Path),
    HandOver { rest: Vec<u32>, taker: u32, giver: u32, carried: Held },
    Cancel(Held),
});

wire_struct!(Path = coallocation::AugmentingPath { takers: Vec<u32>, last: u32, end: TextValue<SiteName> });

wire_enum!(
    Failure = ReservationSearchFailure {
        Never,
        NoCommonStart,
        WindowsTried,
        LostAtTheEnd,
        GivenUp
    }
);

wire_enum!(Outcome = ReservationOutcome {
    Granted { start: u64 },
    Done,
    Refused { next: Option<u64> },
    Lost { next: Option<u64> },
});
