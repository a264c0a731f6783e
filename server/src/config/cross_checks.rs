//! Rules between options; each names the option that breaks it.

mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cospan_domain::ids::{PolicyName, SiteName, TargetName};
use cospan_domain::job::spec::{FlexibleBounds, RequestType};
use cospan_domain::placement::policy_for;
use cospan_domain::resources::GFLOPS;

use super::Config;
use super::config_problem::ConfigProblems;
use super::sections::{Site, SiteAcquisition};
use super::table_reader::OptionPlaces;
use super::value::OptionValue;
use crate::site_kinds;

pub(super) struct CrossChecker<'c> {
    pub(super) config: &'c Config,
    places: &'c OptionPlaces,
    problems: &'c mut ConfigProblems,
    warnings: &'c mut ConfigProblems,
}

/// Records errors and warnings that concern several options.
pub(super) fn check_options(
    config: &Config,
    places: &OptionPlaces,
    problems: &mut ConfigProblems,
    warnings: &mut ConfigProblems,
) {
    let mut check = CrossChecker {
        config,
        places,
        problems,
        warnings,
    };
    check.check_server();
    check.check_placement();
    check.check_queue();
    check.check_classes();
    check.check_claim();
    check.check_claim_times();
    check.check_sites();
    check.check_ping();
    check.check_links();
    check.check_unlinked();
    check.check_notify();
    check.check_log();
}

impl CrossChecker<'_> {
    /// The place of an option, or of its section if it is not given.
    fn option_place(&self, path: &str) -> Option<Range<usize>> {
        let section = path.rsplit_once('.').map_or(path, |(section, _)| section);
        self.places
            .get(path)
            .or_else(|| self.places.get(section))
            .cloned()
    }

    pub(super) fn add_error(
        &mut self,
        path: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems.add(self.option_place(path), message, remedy);
    }

    pub(super) fn add_warning(
        &mut self,
        path: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.warnings.add(self.option_place(path), message, remedy);
    }

    fn check_server(&mut self) {
        let server = &self.config.server;
        let tls = server.tls_certificate.is_some() && server.tls_key.is_some();
        if server.tls_certificate.is_some() != server.tls_key.is_some() {
            let (given, missing) = match server.tls_key {
                None => ("tls_certificate", "tls_key"),
                Some(_) => ("tls_key", "tls_certificate"),
            };
            let message = format!("{given} is given without {missing} in [server]");
            self.add_error(
                &format!("server.{given}"),
                message,
                format!("give {missing} too, or neither"),
            );
        }
        if tls && server.tls_ends_at_proxy {
            let message = "tls_ends_at_proxy in [server] is true, and there is a certificate";
            let remedy = "a server has TLS itself, or its proxy has: leave one of the two out";
            self.add_error("server.tls_ends_at_proxy", message, remedy);
        }
        if server.listen.is_empty() {
            let remedy = "name at least one, like \"127.0.0.1:7440\"";
            self.add_error(
                "server.listen",
                "listen in [server] names no address",
                remedy,
            );
        }
        if let Some(open) = server
            .listen
            .iter()
            .find(|address| !address.ip().is_loopback())
            && !tls
            && !server.tls_ends_at_proxy
        {
            let message = format!(
                "listen in [server]: {open} can be reached from other machines, and there is no TLS"
            );
            let remedy = "give tls_certificate and tls_key, listen on 127.0.0.1, or say \
                          tls_ends_at_proxy = true if a proxy in front of the server has TLS";
            self.add_error("server.listen", message, remedy);
        }
    }

    fn check_placement(&mut self) {
        let placement = &self.config.placement;
        let flexible = RequestType::Flexible(FlexibleBounds::default());
        let policies = [
            ("policy", &placement.policy, RequestType::NonFixed),
            ("flexible_policy", &placement.flexible_policy, flexible),
        ];
        for (key, policy, request) in policies {
            let found = PolicyName::new(policy)
                .map_err(|e| e.to_string())
                .and_then(|name| policy_for(&name, &request).map_err(|e| e.to_string()));
            if let Err(problem) = found {
                let message = format!("{key} in [placement]: {problem}");
                let remedy = "name one of those";
                self.add_error(&format!("placement.{key}"), message, remedy);
            }
        }
        let known: BTreeSet<&SiteName> = self.config.site.iter().map(|site| &site.name).collect();
        let unknown = placement
            .history_seed
            .sites()
            .into_iter()
            .find(|name| !known.contains(name));
        if let Some(name) = unknown {
            let message = format!("history_seed in [placement] names the site {name}");
            let remedy = "name sites that are configured with [[site]]";
            self.add_error("placement.history_seed", message, remedy);
        }
    }

    fn check_claim_times(&mut self) {
        let claim = &self.config.claim;
        if claim.l_min > claim.l {
            let least = claim.l_min.show();
            let first = claim.l.show();
            let message = format!("L_min = {least} is above L = {first} in [claim]");
            let path = if self.places.contains_key("claim.L_min") {
                "claim.L_min"
            } else {
                "claim.L"
            };
            self.add_error(
                path,
                message,
                "L falls from L to L_min: lower L_min, or raise L",
            );
        }
    }

    fn check_queue(&mut self) {
        let queue = &self.config.queue;
        if queue.n_h < queue.n_l {
            let message = format!(
                "N_h = {} is below N_l = {} in [queue]",
                queue.n_h, queue.n_l
            );
            let path = if self.places.contains_key("queue.N_h") {
                "queue.N_h"
            } else {
                "queue.N_l"
            };
            self.add_error(
                path,
                message,
                "the high queues need at least as many turns: raise N_h",
            );
        }
        for (low, high, low_key, high_key) in [
            (queue.n2, queue.n1, "n2", "n1"),
            (queue.n4, queue.n3, "n4", "n3"),
        ] {
            if low > high {
                let message = format!(
                    "{low_key} = {low} is above {high_key} = {high} in [queue]: \
                     the less urgent queue is scanned more often"
                );
                let remedy = format!("usually {low_key} is at most {high_key}");
                self.add_warning(&format!("queue.{low_key}"), message, remedy);
            }
        }
    }

    fn check_claim(&mut self) {
        let claim = &self.config.claim;
        if claim.hold_max < claim.hold_slack {
            self.add_error(
                "claim.hold_max",
                "hold_max is shorter than hold_slack in [claim]: a component claimed ahead of \
                 its input would give up before the input is there",
                "raise hold_max or lower hold_slack",
            );
        }
        for (first, value) in [
            ("claim_backoff", claim.claim_backoff),
            ("site_backoff", claim.site_backoff),
        ] {
            if value > claim.backoff_max {
                let message = format!("{first} is longer than backoff_max in [claim]");
                self.add_error(
                    &format!("claim.{first}"),
                    message,
                    "raise backoff_max or lower it",
                );
            }
        }
        let sites = &self.config.sites;
        if sites.probe_interval > sites.probe_interval_max {
            self.add_error(
                "sites.probe_interval",
                "probe_interval is longer than probe_interval_max in [sites]",
                "raise probe_interval_max or lower probe_interval",
            );
        }
        if sites.unreachable_after <= sites.poll_interval {
            self.add_error(
                "sites.unreachable_after",
                "unreachable_after is not longer than poll_interval in [sites]: a site would be \
                 unreachable between two queries",
                "raise unreachable_after to a few times poll_interval",
            );
        }
    }

    fn check_ping(&mut self) {
        if self.config.sites.ping.first().is_none_or(String::is_empty) {
            let remedy = "name a program and its arguments, like [\"ping\", \"-c\", \"3\"]";
            self.add_error("sites.ping", "ping in [sites] names no program", remedy);
        }
    }

    fn check_sites(&mut self) {
        let mut seen: BTreeMap<&SiteName, usize> = BTreeMap::new();
        for (i, site) in self.config.site.iter().enumerate() {
            if let Some(first) = seen.insert(&site.name, i) {
                let message = format!(
                    "site {:?} is given twice (also as number {})",
                    site.name,
                    first + 1
                );
                self.add_error(
                    &format!("site[{i}].name"),
                    message,
                    "give each site its own name",
                );
            }
            if site.root.is_relative() {
                let message = format!("root of site {:?} is {}", site.name, site.root.display());
                self.add_error(&format!("site[{i}].root"), message, "give an absolute path");
            }
            let twin = self.config.site[..i]
                .iter()
                .find(|other| (&other.root, &other.ssh) == (&site.root, &site.ssh));
            if let Some(other) = twin {
                let message = format!("sites {:?} and {:?} share a root", other.name, site.name);
                self.add_error(
                    &format!("site[{i}].root"),
                    message,
                    "give each site a directory of its own",
                );
            }
            if site.keys.as_ref().is_some_and(Vec::is_empty) {
                let message = format!(
                    "keys of site {:?} is empty: no job ever goes there",
                    site.name
                );
                self.add_warning(
                    &format!("site[{i}].keys"),
                    message,
                    "name the keys that it is for, or leave it out",
                );
            }
            self.check_keys_of_kind(i, site);
            self.check_acquisition(i, site);
            self.check_ssh(i, site);
            let reserved = ["processors", "memory_mb", "disk_mb", "gpus", GFLOPS];
            for name in site
                .resources
                .keys()
                .filter(|name| reserved.contains(&name.as_ref()))
            {
                let option = match name.trim_end_matches("_mb") {
                    GFLOPS => "gflops_per_processor",
                    option => option,
                };
                let message = format!("resources of site {:?} names {name}", site.name);
                self.add_error(
                    &format!("site[{i}].resources"),
                    message,
                    format!("use the option {option} instead"),
                );
            }
        }
    }

    fn check_acquisition(&mut self, i: usize, site: &Site) {
        if !site.queues && site.acquisition == SiteAcquisition::Queued {
            let message = format!(
                "site {:?} has acquisition = \"queued\" and queues = false: nothing could go there",
                site.name
            );
            let remedy = "drop queues, which is the older word for acquisition = \"immediate\"";
            self.add_error(&format!("site[{i}].queues"), message, remedy);
        }
        let claim = &self.config.claim;
        if site.hold_max.is_some_and(|hold| hold < claim.hold_slack) {
            let message = format!(
                "hold_max of site {:?} is shorter than hold_slack in [claim]: a component claimed \
                 ahead of its input would give up before the input is there",
                site.name
            );
            self.add_error(
                &format!("site[{i}].hold_max"),
                message,
                "raise it, or lower hold_slack",
            );
        }
    }

    fn check_ssh(&mut self, i: usize, site: &Site) {
        let host = site.ssh.as_deref();
        if host.is_some_and(|host| {
            host.is_empty()
                || host.starts_with('-')
                || host.contains(|c: char| c.is_whitespace() || c.is_control())
        }) {
            let message = format!(
                "ssh of site {:?} is {:?}",
                site.name,
                host.unwrap_or_default()
            );
            let remedy = "give a host as you would after the word ssh, without options";
            self.add_error(&format!("site[{i}].ssh"), message, remedy);
        }
        if host.is_none() && site.ssh_config.is_some() {
            let message = format!("site {:?} has ssh_config, and no ssh", site.name);
            self.add_warning(
                &format!("site[{i}].ssh_config"),
                message,
                "give ssh, or drop it",
            );
        }
    }

    /// Reports options of another kind of site, which would have no effect.
    fn check_keys_of_kind(&mut self, i: usize, site: &Site) {
        for option in site_kinds::options_of_other_kinds(site) {
            let key = option.key;
            let wanted: Vec<String> = option.kinds.iter().map(OptionValue::show).collect();
            let wanted = wanted.join(" or ");
            let given = site.kind.show();
            let message = format!(
                "{key} of site {:?} belongs to sites of the kind {wanted}; this is of the kind \
                 {given}",
                site.name
            );
            let remedy = format!("drop it, or give kind = {wanted}");
            self.add_error(&format!("site[{i}].{key}"), message, remedy);
        }
    }

    fn check_notify(&mut self) {
        if let Some(problem) = self
            .config
            .notify
            .targets
            .keys()
            .find_map(|name: &std::sync::Arc<str>| TargetName::new(name).err())
        {
            let message = format!("targets in [notify]: {problem}");
            self.add_error("notify.targets", message, "give it another name");
        }
    }

    fn check_log(&mut self) {
        let filter = &self.config.log.filter;
        let remedy = "write a level, or levels by module: info,cospan=debug";
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(filter) {
            self.add_error(
                "log.filter",
                format!("filter in [log] is {filter:?}: {error}"),
                remedy,
            );
        } else if filter.is_empty() {
            // tracing-subscriber 0.3.23 takes it for "off".
            self.add_error("log.filter", "filter in [log] is empty", remedy);
        }
    }
}
