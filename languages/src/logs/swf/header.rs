//! The header comments of a log.

use cospan_domain::units::Timestamp;

/// Useful facts from the header; `None` where the log is silent or its value is no number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwfHeader {
    /// The machine.
    pub computer: Option<String>,
    /// The place of the machine.
    pub installation: Option<String>,
    /// Whom to thank for the log, one entry per line.
    pub acknowledge: Vec<String>,
    /// Nodes of the machine.
    pub max_nodes: Option<u32>,
    /// Processors of the machine.
    pub max_procs: Option<u32>,
    /// When the log starts; submit times count from here.
    pub unix_start_time: Option<Timestamp>,
    /// Jobs in the log before it was cleaned.
    pub max_jobs: Option<u64>,
    /// Jobs that cleaning took out, if the header lists them.
    pub jobs_removed: u64,
}

impl SwfHeader {
    /// Returns the number of jobs that the log should hold: all but those removed by cleaning.
    ///
    /// Not `MaxRecords`, which some cleaned logs of the archive never adjusted.
    pub fn jobs_announced(&self) -> Option<u64> {
        self.max_jobs
            .map(|jobs| jobs.saturating_sub(self.jobs_removed))
    }

    /// Reads one comment, without its semicolon.
    pub(super) fn read_comment(&mut self, comment: &str) {
        self.jobs_removed = self.jobs_removed.saturating_add(removed_jobs(comment));
        let Some((key, value)) = comment.split_once(':') else {
            return;
        };
        let value = value.trim();
        match key.trim() {
            "Computer" => self.computer = Some(value.to_owned()),
            "Installation" => self.installation = Some(value.to_owned()),
            "Acknowledge" => self.acknowledge.push(value.to_owned()),
            "MaxNodes" => self.max_nodes = leading_number(value),
            "MaxProcs" => self.max_procs = leading_number(value),
            "MaxJobs" => self.max_jobs = leading_number(value),
            "UnixStartTime" => {
                let secs: Option<u64> = leading_number(value);
                self.unix_start_time = secs.map(|secs| Timestamp(secs.saturating_mul(1000)));
            }
            _ => {}
        }
    }
}

/// Parses the number in `338 (batch partition; 512 total)`.
fn leading_number<N: std::str::FromStr>(value: &str) -> Option<N> {
    value
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Parses the number in a line of a cleaning filter, `... (2080 jobs removed)`.
fn removed_jobs(comment: &str) -> u64 {
    let jobs = comment.trim_end().strip_suffix(" jobs removed)");
    jobs.and_then(|text| text.rsplit_once('('))
        .and_then(|(_, n)| n.parse().ok())
        .unwrap_or(0)
}
