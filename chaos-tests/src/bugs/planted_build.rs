//! A copy of the tree in which all bugs are planted, and the laboratory that is built there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::source_edits::{BugList, LIST};

/// Builds the laboratory with all bugs planted, as this program was built and beside it. Returns
/// the program.
///
/// # Errors
/// An edit does not fit, the tree is no work tree of Git, or the copy does not compile.
pub(super) fn build_planted(tree: &Path, list: &BugList) -> Result<PathBuf> {
    let this_program = std::env::current_exe()?;
    let beside = this_program.parent().context("no directory")?;
    let target = beside.parent().context("no target directory")?;
    let copy = target.join("planted");
    copy_tree(tree, &copy, list)?;
    let profile = match beside.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--profile", profile])
        .args(["-p", "cospan-chaos-tests", "--bin", "cospan-planted"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(&copy)
        .env("RUSTC_WORKSPACE_WRAPPER", copy.join(".ci/chaotic"))
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "the copy in {} does not compile: {LIST} no longer fits",
        copy.display()
    );
    Ok(beside.join("cospan-planted"))
}

/// Copies the files that Git lists, edited. They keep their times: what has not changed since is not
/// built again.
fn copy_tree(tree: &Path, copy: &Path, list: &BugList) -> Result<()> {
    let edited = list.edit_files(tree)?;
    let listed_at = tree.join(LIST).metadata()?.modified()?;
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(tree)
        .output()
        .context("cannot start git")?;
    ensure!(listed.status.success(), "git does not list the tree");
    if copy.exists() {
        std::fs::remove_dir_all(copy)?;
    }
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let from = tree.join(name);
        // What was removed is listed until that is committed.
        let Ok(about) = from.metadata() else { continue };
        let to = copy.join(name);
        std::fs::create_dir_all(to.parent().context("no directory")?)?;
        std::fs::copy(&from, &to).with_context(|| from.display().to_string())?;
        let mut changed_at = about.modified()?;
        if let Some(text) = edited.get(name) {
            std::fs::write(&to, text)?;
            changed_at = changed_at.max(listed_at);
        }
        std::fs::File::options()
            .append(true)
            .open(&to)?
            .set_modified(changed_at)?;
    }
    Ok(())
}
