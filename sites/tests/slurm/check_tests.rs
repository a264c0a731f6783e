//! What the check of a cluster finds before jobs would.

use cospan_sites::examination::{FindingVerdict, SiteFinding, is_any_bad};

use super::fixture::SlurmSiteFixture;

fn about<'f>(findings: &'f [SiteFinding], what: &str) -> Option<&'f SiteFinding> {
    findings.iter().find(|finding| finding.what == what)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_in_order_is_found_in_order() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let findings = fixture.check(None, &[]).await;
    assert!(!is_any_bad(&findings), "{findings:?}");
    let nodes = about(&findings, "nodes").unwrap();
    assert_eq!(nodes.verdict, FindingVerdict::Good, "{nodes:?}");
    assert!(about(&findings, "programs").is_none() && about(&findings, "temporary").is_none());
    let left = std::fs::read_dir(fixture.root()).unwrap();
    let left = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("check-")
    });
    assert_eq!(left.count(), 0, "the trial leaves nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_whose_programs_cannot_be_run_is_found() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let Some(place) = SlurmSiteFixture::noexec_directory() else {
        return;
    };
    let findings = fixture.check(Some(place.clone()), &[]).await;
    let programs = about(&findings, "programs").unwrap();
    assert_eq!(programs.verdict, FindingVerdict::Bad);
    assert!(
        programs.found.contains(place.to_str().unwrap()),
        "{programs:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_for_temporary_files_that_is_not_there_is_found() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let findings = fixture.check(None, &[("TMPDIR", "/scratch/nobody")]).await;
    let temporary = about(&findings, "temporary").unwrap();
    assert_eq!(temporary.verdict, FindingVerdict::Odd);
    assert!(temporary.found.contains("/scratch/nobody"), "{temporary:?}");
}
