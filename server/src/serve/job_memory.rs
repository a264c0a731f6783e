//! Bounds on the jobs' share of the server's memory.

use cospan_actors::actor_settings::JobMemoryLimits;
use cospan_domain::units::Bytes;

use crate::config::Config;
use crate::config::value::AutoOrGiven;
use crate::memory_limit;

/// The memory that the server may use.
fn server_memory(config: &Config) -> Bytes {
    config
        .server
        .memory
        .given()
        .unwrap_or_else(memory_limit::memory_limit)
}

/// Most memory of all jobs together, also when a start finds them in the store: the rest is for
/// reading them, for the store's cache and for requests under way.
pub(super) fn max_memory_at_start(config: &Config) -> Bytes {
    Bytes(server_memory(config).0 / 5 * 3)
}

/// Memory of jobs at which no more are accepted. By default that is far less than the bound at a
/// start, so that a server starts even after its memory was cut, or a bound lowered, by half. No
/// configured bound admits more than the server can start with.
pub(super) fn admission_bounds(config: &Config) -> JobMemoryLimits {
    let in_all = bound_memory(
        config,
        config.limits.max_job_memory,
        server_memory(config).0 / 4,
    );
    let per_key = bound_memory(config, config.limits.max_job_memory_per_key, in_all.0 / 2);
    JobMemoryLimits { in_all, per_key }
}

fn bound_memory(config: &Config, given: AutoOrGiven<Bytes>, auto: u64) -> Bytes {
    given
        .given()
        .map_or(Bytes(auto), |bytes| bytes.min(max_memory_at_start(config)))
}

/// The configured bound, if it is more than the server can start with.
pub(super) fn excess_bound(config: &Config) -> Option<Bytes> {
    config
        .limits
        .max_job_memory
        .given()
        .filter(|given| *given > max_memory_at_start(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(in_all: AutoOrGiven<Bytes>, per_key: AutoOrGiven<Bytes>) -> Config {
        let mut config = Config::defaults().unwrap();
        config.server.memory = AutoOrGiven::Given(Bytes(1_000));
        config.limits.max_job_memory = in_all;
        config.limits.max_job_memory_per_key = per_key;
        config
    }

    #[test]
    fn jobs_get_a_quarter_of_the_memory_and_those_of_one_key_half_of_that() {
        let by_default = config(AutoOrGiven::Auto, AutoOrGiven::Auto);
        let JobMemoryLimits { in_all, per_key } = admission_bounds(&by_default);
        assert_eq!((in_all, per_key), (Bytes(250), Bytes(125)));
        assert_eq!(excess_bound(&by_default), None);
    }

    #[test]
    fn no_bound_lets_in_more_than_a_start_takes() {
        let given = config(
            AutoOrGiven::Given(Bytes(5_000)),
            AutoOrGiven::Given(Bytes(4_000)),
        );
        let JobMemoryLimits { in_all, per_key } = admission_bounds(&given);
        assert_eq!(
            (in_all, per_key),
            (max_memory_at_start(&given), max_memory_at_start(&given))
        );
        assert_eq!(
            (max_memory_at_start(&given), excess_bound(&given)),
            (Bytes(600), Some(Bytes(5_000)))
        );
        let within = config(AutoOrGiven::Given(Bytes(600)), AutoOrGiven::Auto);
        assert_eq!(admission_bounds(&within).in_all, Bytes(600));
        assert_eq!(
            (admission_bounds(&within).per_key, excess_bound(&within)),
            (Bytes(300), None)
        );
    }
}
