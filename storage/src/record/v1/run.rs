//! Components of a placed job, and what their attempts do.

use std::sync::Arc;

use cospan_domain::ids::{LrmId, SiteName};
use cospan_domain::job::state::{self, Ending as DomainEnding, Run as DomainRun};

use super::convert::{Text, wire_enum, wire_inner, wire_struct};
use super::spec::Content;

wire_struct!(Component = state::Component {
    run: Run;
    placement: Option<Placement>,
    attempt: u32,
    charge: Option<Charge>,
    avoid: Vec<Text<SiteName>>,
    collected: Vec<Collected>,
});

wire_struct!(Placement = state::Placement {
    site: Text<SiteName>,
    transfer_time: u64;
    sources: Vec<Source>,
    share: Option<u32>,
});

wire_struct!(Source = state::Source { content: Content, from: Text<SiteName> });

wire_enum!(Run = DomainRun {
    Idle,
    Intended { at: u64 },
    Uncertain { settled_at: u64, absences: u8, look_at: u64 },
    Submitted { lrm_id: Text<LrmId>, at: u64, absences: u8 },
    AtGate { lrm_id: Text<LrmId>, host: Arc<str>, since: u64 },
    Opened { lrm_id: Text<LrmId>, host: Arc<str>, at: u64 },
    Running { lrm_id: Text<LrmId>, host: Arc<str>, since: u64 },
    Ended { how: Ending, at: u64 },
});

wire_enum!(Ending = DomainEnding {
    Succeeded,
    Failed(Arc<str>),
    NeverRan(Arc<str>),
    Lost(Arc<str>),
    Killed,
    Abandoned,
});

wire_struct!(Charge = state::Charge { site: Text<SiteName>, attempt: u32, detail: Arc<str> });
wire_struct!(Collected = state::Collected { ; content: Option<Content>, done: bool });

impl Component {
    /// Leaves out where its input came from.
    pub(crate) fn shorten(&mut self) {
        if let Some(placement) = &mut self.placement {
            placement.sources.clear();
        }
    }
}
