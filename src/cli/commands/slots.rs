//! `cospan slots`

use crate::cli::args_reserve::SlotsArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::format_local;
use crate::cli::print::format_columns;
use cospan_api::v1::Instant;
use cospan_api::v1::slots::{SiteSlots, SlotsReport};
use cospan_client::SlotsRequest;

/// Prints the possible starts of a job.
pub(crate) fn run(context: &mut CommandContext, args: &SlotsArgs) -> Result<CliExitCode, CliError> {
    let wanted = SlotsRequest {
        processors: args.processors,
        wall_time: args.wall_time,
        components: args.components,
        earliest: args.start.map(|start| Instant(start.0)),
        within: args.within,
        site: args.site.as_deref(),
        limit: args.limit,
    };
    let slots = context.client()?.find_slots(&wanted)?;
    context
        .out
        .print_answer(&slots, |slots| format_slots(slots, args))?;
    Ok(CliExitCode::Done)
}

fn format_slots(slots: &SlotsReport, args: &SlotsArgs) -> String {
    let together = slots.together.iter().map(|together| {
        let sites = together.sites.iter().map(|(name, count)| match count {
            1 => name.clone(),
            count => format!("{name} x{count}"),
        });
        let sites = sites.collect::<Vec<_>>().join(" + ");
        window_row(
            "together",
            together.earliest,
            together.latest,
            args.components.unwrap_or(1),
            sites,
        )
    });
    // For one component, all sites together add nothing to each site.
    let together = together.filter(|_| args.components.is_some_and(|components| components > 1));
    let rows: Vec<Vec<String>> = slots
        .sites
        .iter()
        .flat_map(window_rows)
        .chain(together)
        .collect();
    let heading = ["SITE", "EARLIEST START", "LATEST", "COMPONENTS", ""];
    let mut text = format_columns(&heading, &rows);
    match slots.together.first() {
        Some(first) => {
            let start = format_local(round_up_second(first.earliest));
            text.push_str(&format!("ask for the earliest with: --start \"{start}\"\n"));
        }
        None => text.push_str("no start was found; look further ahead with --start and --within\n"),
    }
    if slots.shortened {
        text.push_str("there are more windows: --limit shows them\n");
    }
    text
}

fn window_rows(site: &SiteSlots) -> Vec<Vec<String>> {
    let told = match site.state.as_str() {
        "grants-none" => "grants no reservations".to_owned(),
        "silent" => format!("did not answer: {}", site.problem.as_deref().unwrap_or("?")),
        _ if site.starts.is_empty() => "-".to_owned(),
        _ => {
            let starts = site.starts.iter();
            let none = String::new();
            return starts
                .map(|s| window_row(&site.site, s.earliest, s.latest, s.components, none.clone()))
                .collect();
        }
    };
    vec![vec![site.site.clone(), told]]
}

fn window_row(
    site: &str,
    from: Instant,
    to: Instant,
    components: u32,
    sites: String,
) -> Vec<String> {
    vec![
        site.into(),
        format_local(round_up_second(from)),
        format_local(to),
        components.to_string(),
        sites,
    ]
}

/// Rounds up to a second, so that the printed start is not too early.
fn round_up_second(at: Instant) -> Instant {
    Instant(cospan_domain::units::Timestamp(
        at.0.0.div_ceil(1_000) * 1_000,
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cospan_domain::units::Timestamp;

    use super::*;
    use cospan_api::v1::Length;
    use cospan_api::v1::slots::{StartSlot, TogetherSlot};

    fn args(components: u32) -> SlotsArgs {
        SlotsArgs {
            processors: 8,
            wall_time: Length(cospan_domain::units::DurationMs(1)),
            components: Some(components),
            start: None,
            within: None,
            site: None,
            limit: None,
        }
    }

    #[test]
    fn starts_are_shown_by_site_and_together() {
        let at = |ms| Instant(Timestamp(ms));
        let starts = vec![StartSlot {
            earliest: at(1_500),
            latest: at(9_000),
            components: 1,
        }];
        let site = |name: &str, state: &str| SiteSlots {
            site: name.into(),
            state: state.into(),
            ..SiteSlots::default()
        };
        let sites = vec![
            SiteSlots {
                starts,
                ..site("delft", "answered")
            },
            site("leiden", "grants-none"),
            SiteSlots {
                problem: Some("no route".into()),
                ..site("vu", "silent")
            },
        ];
        let both = BTreeMap::from([("delft".to_owned(), 1), ("utrecht".to_owned(), 2)]);
        let together = vec![TogetherSlot {
            earliest: at(2_001),
            latest: at(8_000),
            sites: both,
        }];
        let slots = SlotsReport {
            sites,
            together,
            shortened: true,
        };
        let text = format_slots(&slots, &args(3));
        let second = |ms| format_local(at(ms));
        for part in [
            second(2_000),
            second(9_000),
            "grants no reservations".into(),
            "did not answer: no route".into(),
            "delft + utrecht x2".into(),
            format!("--start \"{}\"", second(3_000)),
            "--limit".into(),
        ] {
            assert!(text.contains(&part), "{part}\n{text}");
        }
        assert!(!format_slots(&slots, &args(1)).contains("utrecht"));
        let none = SlotsReport {
            together: Vec::new(),
            ..slots
        };
        assert!(format_slots(&none, &args(3)).contains("no start was found"));
    }
}
