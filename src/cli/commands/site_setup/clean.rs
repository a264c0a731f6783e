//! `cospan site clean`

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};

use cospan_domain::ids::{AttemptTag, InstanceId, JobId};
use cospan_domain::units::Bytes;
use cospan_sites::examination::AttemptRemains;
use serde::Serialize;

use super::{SiteSession, block_on_future, find_examiner, find_section, incorrect_site_error};
use crate::cli::args_cluster::SiteCleanArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::print_note;
use cospan_server::site_kinds::LeftAttempts;

/// The directories that were found, and what was done with them.
#[derive(Debug, Default, Serialize)]
struct SiteCleanReport {
    removed: usize,
    removed_bytes: u64,
    /// Number with a job in the queue.
    live: usize,
    /// Number of jobs that the server still works on.
    needed: usize,
    /// Number of other servers' directories.
    foreign: usize,
    /// The directories that could not be removed, with the reasons.
    failed: Vec<String>,
    #[serde(skip)]
    batch_system: &'static str,
}

/// Removes what attempts left at a site.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &SiteCleanArgs,
) -> Result<CliExitCode, CliError> {
    let section = find_section(context, &args.site)?;
    let examiner = find_examiner(&args.site, section.kind)?;
    let needs = if args.needed_by_nobody {
        KeptAttempts::Nobody
    } else {
        ask_kept_attempts(context, &args.site)?
    };
    let cleaned = block_on_future(async {
        let session = SiteSession::open_session(&section)?;
        let left = examiner
            .open_left_attempts(&section, &session.way)
            .map_err(incorrect_site_error)?;
        let cleaned = clean_site(left.as_ref(), &needs, args).await;
        session.close_session().await;
        cleaned
    })?;
    let Some(mut cleaned) = cleaned else {
        print_note("nothing was removed");
        return Ok(CliExitCode::Done);
    };
    cleaned.batch_system = examiner.batch_system();
    context.out.print_answer(&cleaned, format_cleaned)?;
    Ok(if cleaned.failed.is_empty() {
        CliExitCode::Done
    } else {
        CliExitCode::Usage
    })
}

/// The attempts whose directories stay.
#[derive(Debug)]
enum KeptAttempts {
    /// The user says that nobody needs any.
    Nobody,
    /// All of other servers, and of this server those of these jobs.
    Server {
        instance: InstanceId,
        jobs: BTreeSet<JobId>,
    },
}

impl KeptAttempts {
    fn must_keep(&self, tag: &AttemptTag) -> bool {
        match self {
            KeptAttempts::Nobody => false,
            KeptAttempts::Server { instance, jobs } => {
                tag.instance == *instance && jobs.contains(&tag.job)
            }
        }
    }

    /// Returns true for another server's attempt: nobody here knows what that server needs.
    fn is_foreign(&self, tag: &AttemptTag) -> bool {
        matches!(self, KeptAttempts::Server { instance, .. } if tag.instance != *instance)
    }
}

/// Asks the server which of all jobs' attempts it needs.
fn ask_kept_attempts(context: &CommandContext, site: &str) -> Result<KeptAttempts, CliError> {
    let report = context
        .client()
        .and_then(|client| Ok(client.site_and_needs(site)?));
    let told = report
        .map_err(|error| unknown_needs_error(site, error.to_string()))?
        .needs;
    let told = told
        .ok_or_else(|| unknown_needs_error(site, "the server is older than this program".into()))?;
    let instance = told
        .instance
        .parse()
        .map_err(|_| unknown_needs_error(site, "the server does not name its instance".into()))?;
    Ok(KeptAttempts::Server {
        instance,
        jobs: told.jobs.into_iter().map(JobId).collect(),
    })
}

fn unknown_needs_error(site: &str, why: String) -> CliError {
    let remedy = "start the server, or name it with --server; if no server needs anything there \
                  any more, give --needed-by-nobody";
    let what = format!("nobody knows what is still needed at {site}: {why}");
    CliError::usage_error(what, remedy)
}

/// Returns `None` if the user does not agree.
async fn clean_site(
    left: &dyn LeftAttempts,
    needs: &KeptAttempts,
    args: &SiteCleanArgs,
) -> Result<Option<SiteCleanReport>, CliError> {
    let remains = left.list_remains().await.map_err(|error| {
        let remedy = format!("see `cospan site check {}`", args.site);
        CliError::usage_error(format!("{}: {error}", args.site), remedy)
    })?;
    let (live, over): (Vec<&AttemptRemains>, Vec<&AttemptRemains>) =
        remains.iter().partition(|one| one.is_live);
    let (foreign, ours): (Vec<&AttemptRemains>, Vec<&AttemptRemains>) =
        over.into_iter().partition(|one| needs.is_foreign(&one.tag));
    let (needed, going): (Vec<&AttemptRemains>, Vec<&AttemptRemains>) =
        ours.into_iter().partition(|one| needs.must_keep(&one.tag));
    let mut cleaned = SiteCleanReport {
        live: live.len(),
        needed: needed.len(),
        foreign: foreign.len(),
        ..SiteCleanReport::default()
    };
    let bytes: u64 = going.iter().map(|one| one.bytes.0).sum();
    if !going.is_empty() && !ask_user(args, going.len(), Bytes(bytes))? {
        return Ok(None);
    }
    for one in going {
        match left.remove_attempt(one.tag).await {
            Ok(()) => {
                cleaned.removed += 1;
                cleaned.removed_bytes += one.bytes.0;
            }
            Err(error) => cleaned.failed.push(format!("{}: {error}", one.tag)),
        }
    }
    Ok(Some(cleaned))
}

fn ask_user(args: &SiteCleanArgs, count: usize, bytes: Bytes) -> Result<bool, CliError> {
    let what = format!("{} at {}, {bytes},", count_directories(count), args.site);
    if args.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage_error(
            format!("{what} would be removed"),
            "add --yes to remove them",
        ));
    }
    print_note(&format!(
        "{what} would be removed, with what is in them. Remove them? [y/N]"
    ));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn count_directories(count: usize) -> String {
    match count {
        1 => "the directory of 1 attempt".to_owned(),
        _ => format!("the directories of {count} attempts"),
    }
}

fn format_cleaned(cleaned: &SiteCleanReport) -> String {
    let bytes = Bytes(cleaned.removed_bytes);
    let mut text = format!("removed {}, {bytes}\n", count_directories(cleaned.removed));
    let system = cleaned.batch_system;
    let live = format!("more with a job in {system}'s queue: not touched");
    for (count, why) in [
        (cleaned.live, live.as_str()),
        (
            cleaned.needed,
            "more of jobs that are not finished: not touched",
        ),
        (
            cleaned.foreign,
            "more of other servers, or of this one before its store was imported: not touched",
        ),
    ] {
        if count > 0 {
            text.push_str(&format!("{count} {why}\n"));
        }
    }
    cleaned
        .failed
        .iter()
        .for_each(|why| text.push_str(&format!("not removed: {why}\n")));
    text
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use cospan_domain::resources::Resources;
    use cospan_sites::exec::{
        CommandExecutor, CommandExit, CommandOutput, ExecCommand, ExecError, ProgramOrScript,
    };
    use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};

    use super::*;

    /// A cluster on which attempts left something; keeps what was removed.
    #[derive(Debug, Default)]
    struct ClusterWithLeftovers(Mutex<Vec<String>>);

    #[async_trait]
    impl CommandExecutor for ClusterWithLeftovers {
        async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError> {
            let ProgramOrScript::Script { words, .. } = &command.work else {
                unreachable!()
            };
            let words: Vec<&str> = words[3..]
                .iter()
                .map(|word| word.to_str().unwrap())
                .collect();
            let mut answer = String::new();
            match words[0] {
                "remains" => {
                    for tag in ["aaaaaaaa-1-0-1", "aaaaaaaa-2-0-1", "bbbbbbbb-2-0-1"] {
                        answer += &format!("takes 4\tattempts/c{tag}\n");
                    }
                }
                "remove" => self.0.lock().unwrap().push(words[1].to_owned()),
                verb => unreachable!("{verb}"),
            }
            let stdout = (answer + "done\n").into_bytes();
            Ok(CommandOutput {
                ended: CommandExit::Code(0),
                stdout,
                stderr: Vec::new(),
            })
        }
    }

    fn clean_with_leftovers(needs: &KeptAttempts) -> (SiteCleanReport, Vec<String>) {
        let left = Arc::new(ClusterWithLeftovers::default());
        let name = "there".parse().unwrap();
        let all = Resources::processors(1);
        let config = SlurmSiteConfig::new(name, "/root".into(), all, Vec::new());
        let site = SlurmSite::with_remote_root(config, left.clone()).unwrap();
        let args = SiteCleanArgs {
            site: "there".into(),
            yes: true,
            needed_by_nobody: false,
        };
        let cleaned = block_on_future(clean_site(&site, needs, &args))
            .unwrap()
            .unwrap();
        let removed = left.0.lock().unwrap().clone();
        (cleaned, removed)
    }

    #[test]
    fn what_any_job_of_the_server_needs_or_another_server_left_stays() {
        let jobs = [JobId(1)].into();
        let needs = KeptAttempts::Server {
            instance: "aaaaaaaa".parse().unwrap(),
            jobs,
        };
        let (cleaned, removed) = clean_with_leftovers(&needs);
        assert_eq!(removed, ["caaaaaaaa-2-0-1"]);
        assert_eq!(
            (cleaned.removed, cleaned.needed, cleaned.foreign),
            (1, 1, 1)
        );
    }

    #[test]
    fn all_of_it_goes_if_nobody_needs_it() {
        assert_eq!(clean_with_leftovers(&KeptAttempts::Nobody).1.len(), 3);
    }
}
