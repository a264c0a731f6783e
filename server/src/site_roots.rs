//! Checks of the roots of the configured sites: a root must not be the data directory, another
//! site's root, or a directory that people or this machine depend on. The checks change nothing.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cospan_sites::root_place::{self, RootPlaceState, UnfitRootError};

use crate::config::Config;
use crate::config::sections::Site;
use crate::site_connection;
use crate::store_engines;

/// An invalid root.
#[derive(Debug)]
pub struct InvalidSiteRoot {
    site: String,
    root: PathBuf,
    why: RootProblem,
}

#[derive(Debug)]
enum RootProblem {
    Unfit(UnfitRootError),
    Data(DirectoryRelation, PathBuf),
    Other(DirectoryRelation, String, PathBuf),
}

/// The relation of a directory to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectoryRelation {
    At,
    Within,
    Around,
}

impl DirectoryRelation {
    fn relation_of(one: &Path, other: &Path) -> Option<Self> {
        match (one.starts_with(other), other.starts_with(one)) {
            (true, true) => Some(Self::At),
            (true, false) => Some(Self::Within),
            (false, true) => Some(Self::Around),
            (false, false) => None,
        }
    }
}

impl fmt::Display for DirectoryRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::At => "is",
            Self::Within => "lies inside",
            Self::Around => "contains",
        })
    }
}

impl fmt::Display for InvalidSiteRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { site, root, why } = self;
        write!(f, "{} cannot be the root of site {site}: ", root.display())?;
        match why {
            RootProblem::Unfit(unfit) => write!(f, "{unfit}"),
            RootProblem::Data(lies, data) => write!(
                f,
                "it {lies} the data directory {}; give the site a directory of its own, beside it",
                data.display()
            ),
            RootProblem::Other(lies, other, theirs) => write!(
                f,
                "it {lies} the root of site {other}, {}; give each site a directory of its own",
                theirs.display()
            ),
        }
    }
}

impl InvalidSiteRoot {
    /// Returns true if another account may come to a different result: it may see more, or have
    /// made the root.
    pub fn depends_on_account(&self) -> bool {
        match &self.why {
            RootProblem::Unfit(
                UnfitRootError::Foreign { .. }
                | UnfitRootError::AboveForeign { .. }
                | UnfitRootError::Closed { .. },
            ) => true,
            RootProblem::Unfit(UnfitRootError::Unseen { source, .. }) => {
                source.kind() == ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}

/// Lists the invalid roots, with one problem each. A site that is known to this data directory, or
/// bears its mark, keeps its root.
pub fn find_wrong_roots(config: &Config, data: &Path) -> Vec<InvalidSiteRoot> {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let mut kept = vec![root_place::resolve_existing(&data)];
    let store = store_engines::store_directory(&config.store, &data);
    kept.extend(store.map(|store| root_place::resolve_existing(&store)));
    let mut before: Vec<(&Site, PathBuf, bool)> = Vec::new();
    let mut all = Vec::new();
    for site in &config.site {
        let (root, is_known) = match locate_root(site, &data) {
            Ok((root, is_known)) => (root, is_known),
            Err(unfit) => {
                all.push(wrong_root(site, RootProblem::Unfit(unfit)));
                continue;
            }
        };
        let other = before.iter().find_map(|(other, theirs, knew)| {
            let may_be = site.ssh == other.ssh && !(is_known && *knew);
            let lies = DirectoryRelation::relation_of(&root, theirs).filter(|_| may_be)?;
            Some(RootProblem::Other(
                lies,
                other.name.to_string(),
                other.root.clone(),
            ))
        });
        let mut kept = kept.iter().filter(|_| site.ssh.is_none() && !is_known);
        let in_data = kept.find_map(|kept| {
            Some(RootProblem::Data(
                DirectoryRelation::relation_of(&root, kept)?,
                kept.clone(),
            ))
        });
        all.extend(in_data.or(other).map(|why| wrong_root(site, why)));
        before.push((site, root, is_known));
    }
    all
}

fn wrong_root(site: &Site, why: RootProblem) -> InvalidSiteRoot {
    InvalidSiteRoot {
        site: site.name.to_string(),
        root: site.root.clone(),
        why,
    }
}

/// Returns the path of a root, and true if it is the site's already. Roots on other machines are
/// checked there.
fn locate_root(site: &Site, data: &Path) -> Result<(PathBuf, bool), UnfitRootError> {
    let is_known = is_known_root(site, data);
    if site.ssh.is_some() {
        let root: PathBuf = site.root.components().collect();
        if !is_known {
            root_place::check_root_path(&root)?;
        }
        return Ok((root, is_known));
    }
    let is_ours =
        is_known || root_place::check_root_place(&site.root, &site.name)? == RootPlaceState::Ours;
    Ok((root_place::resolve_existing(&site.root), is_ours))
}

/// Returns true if a server has made this root before. A server does so once: a root that is
/// missing now may come back.
pub(crate) fn is_known_root(site: &Site, data: &Path) -> bool {
    let heard_of = std::fs::read(data.join("sites").join(site.name.as_str()));
    heard_of.is_ok_and(|place| place == site_connection::identify_place(site).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_root_texts(text: &str, data: &Path) -> Vec<String> {
        let config = Config::parse(Path::new("cospan.toml"), text)
            .unwrap()
            .config;
        find_wrong_roots(&config, data)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn site(name: &str, root: &Path, more: &str) -> String {
        format!("[[site]]\nname = {name:?}\nroot = {root:?}\nprocessors = 1\n{more}\n")
    }

    const LOCAL: &str = "kind = \"local\"";
    const SLURM: &str = "kind = \"slurm\"";
    const FAR: &str = "kind = \"slurm\"\nssh = \"far\"";

    #[test]
    fn no_root_is_the_data_directory_or_lies_in_it_or_around_it() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        for kind in [LOCAL, SLURM] {
            for (root, lies) in [
                (data.clone(), "is the data directory"),
                (data.join("sites/one"), "lies inside the data directory"),
                (data.join("store"), "lies inside the data directory"),
                (home.path().into(), "contains the data directory"),
            ] {
                let said = wrong_root_texts(&site("one", &root, kind), &data);
                assert!(said.len() == 1 && said[0].contains(lies), "{said:?}");
            }
            let beside = site("one", &home.path().join("one"), kind);
            assert_eq!(wrong_root_texts(&beside, &data), [""; 0]);
            let store = home.path().join("disk/store");
            let text = format!(
                "[store]\ndirectory = {store:?}\n{}",
                site("one", &store, kind)
            );
            assert_eq!(
                wrong_root_texts(&text, &data).len(),
                1,
                "the store is no root either"
            );
        }
        assert!(!data.exists(), "nothing was made");
    }

    #[test]
    fn no_root_lies_in_another_unless_both_have_long_been_there() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let outer = home.path().join("outer");
        let inner = outer.join("deep/inner");
        for kinds in [[LOCAL, LOCAL], [LOCAL, SLURM], [FAR, FAR]] {
            let [one, other] = kinds;
            let text = site("outer", &outer, one) + &site("inner", &inner, other);
            let said = wrong_root_texts(&text, &data);
            assert!(
                said.len() == 1 && said[0].contains("lies inside the root of site outer"),
                "{said:?}"
            );
            let text = site("inner", &inner, other) + &site("outer", &outer, one);
            assert!(wrong_root_texts(&text, &data)[0].contains("contains the root of site inner"));
        }
        let apart =
            site("one", &outer, FAR) + &site("two", &inner, "kind = \"slurm\"\nssh = \"other\"");
        assert_eq!(
            wrong_root_texts(&apart, &data),
            [""; 0],
            "on another machine"
        );
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(outer.join("site-id"), "cospan site outer\n").unwrap();
        std::fs::write(inner.join("site-id"), "cospan site inner\n").unwrap();
        let old = site("outer", &outer, LOCAL) + &site("inner", &inner, LOCAL);
        assert_eq!(wrong_root_texts(&old, &data), [""; 0]);
    }

    #[test]
    fn directories_of_the_system_are_refused_on_machines_that_are_not_looked_at() {
        let home = tempfile::tempdir().unwrap();
        for root in ["/", "/home", "/tmp/", "/usr/lib/new"] {
            let said = wrong_root_texts(&site("one", Path::new(root), FAR), home.path());
            assert!(
                said.len() == 1 && said[0].contains("like /"),
                "{root}: {said:?}"
            );
        }
        assert_eq!(
            wrong_root_texts(
                &site("one", Path::new("/home/you/cospan"), FAR),
                home.path()
            ),
            [""; 0]
        );
    }
}
