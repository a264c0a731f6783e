//! `cospan site add`, `site check` and `site clean`: they examine a site themselves, as the
//! server would, and need no server.

pub(crate) mod add;
pub(crate) mod check;
pub(crate) mod clean;

use cospan_sites::examination::{FindingVerdict, SiteFinding, is_any_bad};
use cospan_sites::port::SiteError;
use tempfile::TempDir;

use super::doctor::{CheckVerdict, DoctorCheck};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use cospan_server::config::OptionValue;
use cospan_server::config::sections::{Site, SiteKind};
use cospan_server::site_connection::{self, SiteConnection};
use cospan_server::site_kinds::{self, SiteExaminer};

/// The way to a site, for the duration of one command.
struct SiteSession {
    way: SiteConnection,
    /// The directory of the connection's socket.
    _place: TempDir,
}

impl SiteSession {
    fn open_session(section: &Site) -> Result<Self, CliError> {
        let place = tempfile::Builder::new().prefix("cospan-").tempdir();
        let place = place.map_err(|error| {
            CliError::usage_error(format!("no temporary directory: {error}"), "set TMPDIR")
        })?;
        let way = site_connection::open_connection(section, &place.path().join("ssh"))
            .map_err(incorrect_site_error)?;
        Ok(Self { way, _place: place })
    }

    async fn close_session(self) {
        self.way.close_connection().await;
    }
}

fn incorrect_site_error(error: SiteError) -> CliError {
    CliError::usage_error(error.to_string(), "correct the site")
}

/// Returns the section of a site.
fn find_section(context: &CommandContext, name: &str) -> Result<Site, CliError> {
    let located = context.config()?;
    let sites = &located.loaded.config.site;
    let Some(site) = sites.iter().find(|site| site.name.as_str() == name) else {
        let names: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
        let remedy = match names.len() {
            0 => "add it with `cospan site add`, or name a configuration with --config".to_owned(),
            _ => format!("the configuration names {}", names.join(", ")),
        };
        return Err(CliError::usage_error(
            format!("there is no site {name:?}"),
            remedy,
        ));
    };
    Ok(site.clone())
}

/// Returns what examines a site of this kind.
fn find_examiner(name: &str, kind: SiteKind) -> Result<&'static dyn SiteExaminer, CliError> {
    if let Some(examiner) = site_kinds::examiner_of(kind) {
        return Ok(examiner);
    }
    let kinds: Vec<String> = site_kinds::examined_kinds()
        .iter()
        .map(OptionValue::show)
        .collect();
    let kinds = kinds.join(" or ");
    Err(CliError::usage_error(
        format!("site {name} is of the kind {}", kind.show()),
        format!(
            "this looks at sites of the kind {kinds}; of others `cospan doctor` checks the root, \
             and asks the server for the state"
        ),
    ))
}

/// Converts findings into checks, and returns the exit code.
fn judge_findings(findings: &[SiteFinding]) -> (Vec<DoctorCheck>, CliExitCode) {
    (
        findings
            .iter()
            .map(|finding: &SiteFinding| DoctorCheck {
                what: finding.what,
                verdict: match finding.verdict {
                    FindingVerdict::Good => CheckVerdict::Good,
                    FindingVerdict::Odd => CheckVerdict::Odd,
                    FindingVerdict::Bad => CheckVerdict::Bad,
                },
                found: finding.found.clone(),
                remedy: (!finding.advice.is_empty()).then(|| finding.advice.clone()),
            })
            .collect(),
        if is_any_bad(findings) {
            CliExitCode::Usage
        } else {
            CliExitCode::Done
        },
    )
}

/// Runs a future that uses the network, to its end.
fn block_on_future<T>(work: impl Future<Output = T>) -> T {
    actix_web::rt::System::new().block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_examined_is_named_with_what_to_do() {
        assert!(find_examiner("there", SiteKind::Slurm).is_ok());
        let error = find_examiner("here", SiteKind::Local).err().unwrap();
        assert_eq!(error.message, "site here is of the kind \"local\"");
        let remedy = error.remedy.unwrap();
        let examined = "this looks at sites of the kind \"slurm\"";
        assert!(remedy.starts_with(examined), "{remedy}");
        assert!(remedy.contains("cospan doctor"), "{remedy}");
    }
}
