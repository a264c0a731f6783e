//! The version of this build.

use std::sync::LazyLock;

const PROFILE: &str = if cfg!(debug_assertions) {
    "debug build"
} else {
    "release build"
};
const CHAOS: &str = if cfg!(cospan_chaos) {
    ", WITH PLANTED FAULTS: for tests only"
} else {
    ""
};

static LONG: LazyLock<String> = LazyLock::new(|| {
    // Whoever packages the program sets it; a plain `cargo build` does not.
    let commit = option_env!("COSPAN_BUILD_COMMIT").unwrap_or("not recorded");
    let arch = std::env::consts::ARCH;
    let os = std::env::consts::OS;
    format!(
        "{}\ncommit: {commit}\nbuild: {arch}-{os}, {PROFILE}{CHAOS}",
        short()
    )
});

/// Returns the version alone.
pub(super) fn short() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns the version, and how it was built.
pub(super) fn long() -> &'static str {
    &LONG
}
