//! Checks whether an account may have Slurm make reservations.

use super::findings::{bad_finding, good_finding};
use super::slurm_setting;
use crate::agent::SiteAgentAnswer;
use crate::examination::SiteFinding;

const WHAT: &str = "promises";

/// Describes the right by which the account makes reservations, if it has one.
fn reserving_right<'a>(answer: &'a SiteAgentAnswer, account: &str) -> Option<&'a str> {
    let slurms = slurm_setting(answer, "SlurmUser").and_then(|user| user.split('(').next());
    if account == "root" || slurms == Some(account) {
        return Some("it is Slurm's own");
    }
    let level = answer.values_of("level").map(str::trim);
    let mut level = level.filter(|level| matches!(*level, "Operator" | "Administrator"));
    level.next()
}

/// Checks whether the site can grant reservations; `wanted`: its configuration says so.
pub(super) fn check_reservations(
    answer: &SiteAgentAnswer,
    account: &str,
    wanted: bool,
) -> SiteFinding {
    match (reserving_right(answer, account), wanted) {
        (Some(right), true) => {
            good_finding(WHAT, format!("{account} may make reservations ({right})"))
        }
        (Some(right), false) => {
            let how = "grants_reservations = true in its [[site]] lets it grant reservations";
            good_finding(
                WHAT,
                format!("none; {account} may make reservations ({right}): {how}"),
            )
        }
        (None, true) => bad_finding(
            WHAT,
            format!("{account} may not make reservations in Slurm"),
            "drop grants_reservations, or ask the cluster's operators for AdminLevel=Operator \
             (sacctmgr modify user)",
        ),
        (None, false) => good_finding(
            WHAT,
            format!("none: {account} may not make reservations in Slurm"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examination::FindingVerdict;

    #[test]
    fn only_slurms_own_account_and_operators_may_reserve() {
        let of = |text: &str, wanted| {
            check_reservations(&SiteAgentAnswer(text.to_owned()), "alice", wanted)
        };
        let plain = "config SlurmUser               = slurm(64030)\nlevel None";
        let operator = plain.replace("None", "Operator");
        let own = plain.replace("slurm(64030)", "alice(1000)");
        for (text, may) in [(plain, false), (&operator, true), (&own, true), ("", false)] {
            let on = of(text, true);
            let off = of(text, false);
            assert_eq!(on.verdict == FindingVerdict::Good, may, "{on:?}");
            assert_eq!(
                off.verdict,
                FindingVerdict::Good,
                "nothing is wrong: {off:?}"
            );
            assert_eq!(
                off.found.contains("grants_reservations = true"),
                may,
                "{off:?}"
            );
        }
        let failed = "level_failed alice is no Operator\n";
        assert_eq!(
            of(failed, true).verdict,
            FindingVerdict::Bad,
            "that is no answer"
        );
    }
}
