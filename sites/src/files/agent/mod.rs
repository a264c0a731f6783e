//! The process that copies or reads one thing.
//!
//! It takes its request from its task's directory and leaves its outcome there; it needs neither
//! parent, terminal nor network. A copy outlives whoever started it, as the next control plane goes
//! on with it; what only reads ends with the control plane that asked. It may be killed at any
//! moment: a copy that is not complete and checked is never under a name at which anybody would
//! look for it.

mod copy;
mod mover;
mod stall_watch;
mod task_error;
pub(super) mod tree_mover;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cospan_domain::content::Content;
use cospan_domain::ids::IdentifierError;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use signal_hook::consts::{SIGTERM, SIGXFSZ};

use self::copy::RunningCopy;
use self::mover::FileMover;
use self::stall_watch::{CopyThreadState, CopyWatchThread};
use self::task_error::{AgentTaskError, BlameCopyEnd};
use super::agent_messages::{CopyAgentOutcome, CopyAgentProgress, CopyAgentRequest};
use super::agent_task::AgentTaskDirectory;
use super::file_root::{INCOMING, INSPECT, OpenSiteRoot};
use super::open_beneath::DirectoryHandle;
use super::process_identity::AgentProcessIdentity;
use crate::port::InspectedFile;

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 64;
const EXIT_IO: u8 = 74;
const EXIT_NOT_OURS: u8 = 75;

/// Runs an agent: `copy <root> <task>` or `inspect <root> <task>`, with the
/// task's locked file as standard input. Not for people: sites start it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = match &arguments[..] {
        [verb, root, task] => verb.to_str().zip(task.to_str()).map(|(v, t)| (v, root, t)),
        _ => None,
    };
    let (family, root, name) = match parsed {
        Some(("copy", root, task)) => (INCOMING, root, task),
        Some(("inspect", root, task)) => (INSPECT, root, task),
        _ => return fail_with(EXIT_USAGE, "usage: copy|inspect ROOT TASK"),
    };
    match TaskAgent::take_task(Path::new(root), family, name) {
        Ok(Some(agent)) => agent.run_task(),
        Ok(None) => fail_with(
            EXIT_NOT_OURS,
            "standard input is not the lock of such a task",
        ),
        Err(error) => fail_with(EXIT_IO, error),
    }
}

fn fail_with(code: u8, why: impl std::fmt::Display) -> ExitCode {
    // If even that cannot be written, there is nothing left to do.
    let _ = writeln!(io::stderr(), "{why}");
    ExitCode::from(code)
}

/// An agent that has the lock of its task.
struct TaskAgent {
    root: OpenSiteRoot,
    task: Arc<AgentTaskDirectory>,
    name: String,
    order: CopyAgentRequest,
    stop: Arc<AtomicBool>,
}

impl TaskAgent {
    fn take_task(root: &Path, family: &str, name: &str) -> io::Result<Option<Self>> {
        let stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, stop.clone())?;
        // A limit on the size of files must be an error of writing, not a death.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let root = OpenSiteRoot::open(root)?;
        let Some(task) = AgentTaskDirectory::open_task(&root, family, name)? else {
            return Ok(None);
        };
        if !task.holds_lock(io::stdin())? {
            return Ok(None);
        }
        let Some(order) = task.read_order()? else {
            return Ok(None);
        };
        task.announce_agent(&AgentProcessIdentity::of_this_process()?)?;
        if order.leased {
            std::thread::spawn(exit_without_owner);
        }
        Ok(Some(Self {
            root,
            task: Arc::new(task),
            name: name.to_owned(),
            order,
            stop,
        }))
    }

    fn run_task(self) -> ExitCode {
        let result = self.copy_or_inspect();
        let outcome = match &result {
            Ok(None) => return ExitCode::SUCCESS,
            Ok(Some(found)) => CopyAgentOutcome::from_inspected(found),
            Err(trouble) => trouble.to_outcome(),
        };
        match self.task.set_outcome(&outcome) {
            Err(error) => fail_with(EXIT_IO, format_args!("{outcome:?}, but: {error}")),
            Ok(()) if result.is_ok() => ExitCode::SUCCESS,
            Ok(()) => ExitCode::from(EXIT_FAILED),
        }
    }

    /// Returns what was found out, or nothing if a copy is complete: the store says so itself.
    fn copy_or_inspect(&self) -> Result<Option<InspectedFile>, AgentTaskError> {
        let watch = Arc::new(CopyThreadState::new(self.stop.clone()));
        let looker = self.start_watch_thread(&watch);
        let Some(expected) = &self.order.expected else {
            return inspect_source(&self.order, watch).map(Some);
        };
        let Self {
            root,
            task,
            name,
            order,
            ..
        } = self;
        let wanted = expected
            .parse_content()
            .map_err(AgentTaskError::blaming_process)?;
        let cut = order
            .cut
            .as_ref()
            .map(|cut| Ok((cut.file.parse_content()?, cut.offset_bytes)));
        let cut = cut
            .transpose()
            .map_err(|error: IdentifierError| AgentTaskError::blaming_process(error))?;
        let copy = RunningCopy {
            root,
            task,
            name,
            order,
            wanted,
            cut,
            watch,
        };
        copy.bring_content()?;
        // From here on nobody writes to the task's directory.
        drop(looker);
        copy.commit_copy().map(|()| None)
    }

    fn start_watch_thread(&self, watch: &Arc<CopyThreadState>) -> CopyWatchThread {
        let progress = self.task.clone();
        let watched = watch.clone();
        let stalled = self.task.clone();
        CopyWatchThread::start_watching(
            watch.clone(),
            Duration::from_millis(self.order.stall_ms),
            // If progress cannot be written, only people who watch miss it.
            move |done_bytes| {
                let of_bytes = watched.size();
                drop(progress.set_progress(CopyAgentProgress {
                    done_bytes,
                    of_bytes,
                }));
            },
            move |trouble| {
                // The other thread hangs in its file system: leave it there.
                let code = match stalled.set_outcome(&trouble.to_outcome()) {
                    Ok(()) => EXIT_FAILED,
                    Err(_) => EXIT_IO,
                };
                std::process::exit(code.into());
            },
        )
    }
}

/// Waits until nobody has the other end of the pipe that is our standard output, which the kernel
/// sees to however the control plane ends, and then ends this process. Its task stays as that of an
/// agent that was killed.
fn exit_without_owner() {
    loop {
        match rustix::io::read(io::stdout(), &mut [0_u8; 1]) {
            Ok(0) => std::process::exit(EXIT_FAILED.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // It is no pipe to wait for.
            Err(_) => return,
        }
    }
}

/// The source of a copy, open for reading.
enum OpenCopySource {
    File(File),
    Directory(DirectoryHandle),
}

impl OpenCopySource {
    fn open_source(order: &CopyAgentRequest) -> Result<Self, AgentTaskError> {
        let place = FilePlace::try_from(&order.place).map_err(AgentTaskError::blaming_source)?;
        let root = OpenSiteRoot::open(&order.source_root).at_source(format_args!(
            "the site's root {}",
            order.source_root.display()
        ))?;
        let file = root
            .open_place(&order.source_attempts, &place)
            .at_source("opening it")?;
        let kind = file.metadata().at_source("looking at it")?.file_type();
        if kind.is_file() {
            Ok(Self::File(file))
        } else if kind.is_dir() {
            Ok(Self::Directory(DirectoryHandle::from_file(file)))
        } else {
            Err(AgentTaskError::blaming_source(
                "it is neither a file nor a directory",
            ))
        }
    }
}

/// Finds out what something is, and flushes it. The payload that wrote it may not have flushed it,
/// but whoever gets the digest counts on the content, also after a power cut.
fn inspect_source(
    order: &CopyAgentRequest,
    watch: Arc<CopyThreadState>,
) -> Result<InspectedFile, AgentTaskError> {
    let source = OpenCopySource::open_source(order)?;
    if let OpenCopySource::File(file) = &source {
        watch.set_size(file.metadata().at_source("measuring it")?.len());
    }
    match &source {
        OpenCopySource::File(file) => cospan_durable::sync_content(file),
        OpenCopySource::Directory(dir) => dir.sync_file_system(),
    }
    .at_source("flushing it")?;
    let mut mover = FileMover::new(watch, None, u64::MAX);
    let (moved, directory) = match source {
        OpenCopySource::File(file) => (mover.move_file(&file, None, "the file")?, false),
        OpenCopySource::Directory(dir) => (tree_mover::move_tree(&mut mover, dir, None)?, true),
    };
    let content = Content {
        digest: moved.digest,
        size: Bytes(moved.size),
    };
    Ok(InspectedFile { content, directory })
}

/// Returns digest and size of what a directory is now.
pub(super) fn directory_content(directory: DirectoryHandle) -> Result<Content, String> {
    let mut mover = FileMover::new(Arc::default(), None, u64::MAX);
    let moved =
        tree_mover::move_tree(&mut mover, directory, None).map_err(|trouble| trouble.detail)?;
    Ok(Content {
        digest: moved.digest,
        size: Bytes(moved.size),
    })
}
