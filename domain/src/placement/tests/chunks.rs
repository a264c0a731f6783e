//! Components that read chunks of a file: what is estimated and what is copied.

use std::collections::BTreeMap;

use crate::content::{ComponentFilePart, Content, FileChunk};
use crate::ids::PolicyName;
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placement::testing::*;
use crate::placement::*;
use crate::units::{Bytes, DurationMs};

fn chunk_of_part(of: Content, before: u64, own: u64, total: u64) -> FileChunk {
    FileChunk::for_part(of, ComponentFilePart { before, own, total })
}

fn component_reading_chunk(processors: u32, chunk: FileChunk) -> ComponentRequest {
    ComponentRequest {
        chunks: BTreeMap::from([(chunk.as_content(), chunk)]),
        ..component(processors)
    }
}

fn chunk_sources(plan: &PlacementPlan) -> Vec<(u64, u64, &str)> {
    let sources = plan
        .placements
        .iter()
        .flat_map(|placement| &placement.sources);
    let told = sources.map(|source| {
        let offset = source.chunk.map_or(0, |chunk| chunk.offset.0);
        (
            offset / GB,
            source.content.size.0 / GB,
            source.from.as_str(),
        )
    });
    told.collect()
}

#[test]
fn a_component_waits_for_its_own_chunk_only() {
    let whole = content_of_gigabytes(1, 16);
    let sites = [open_site("A", 12), open_site("B", 4), open_site("F", 0)];
    let links = [("F", "A", 100), ("F", "B", 100)];
    let grid = grid_with(sites, &[(whole, "F")], &links);
    let parts = vec![
        component_reading_chunk(12, chunk_of_part(whole, 0, 12, 16)),
        component_reading_chunk(4, chunk_of_part(whole, 12, 4, 16)),
    ];
    let plan = place_on_grid(&request(parts), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["A", "B"]);
    assert_eq!(chunk_sources(&plan), [(0, 12, "F"), (12, 4, "F")]);
    let times: Vec<DurationMs> = plan.placements.iter().map(|p| p.transfer_time).collect();
    // 12 GB and 4 GB at 100 Mbit/s.
    assert_eq!(
        times,
        [DurationMs::from_secs(960), DurationMs::from_secs(320)]
    );
    let digests: Vec<_> = plan
        .placements
        .iter()
        .map(|p| p.sources[0].content.digest)
        .collect();
    assert!(
        digests[0] != digests[1] && !digests.contains(&whole.digest),
        "{digests:?}"
    );
}

#[test]
fn close_to_files_runs_where_the_file_is_that_a_chunk_is_cut_from() {
    let whole = content_of_gigabytes(1, 16);
    let sites = [open_site("A", 40), open_site("F", 8)];
    let grid = grid_with(sites, &[(whole, "F")], &[("F", "A", 100)]);
    let parts = request(vec![
        component_reading_chunk(4, chunk_of_part(whole, 0, 4, 8)),
        component_reading_chunk(4, chunk_of_part(whole, 4, 4, 8)),
    ]);
    let plan = place_on_grid(&with_policy("close-to-files", &parts), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["F", "F"]);
    assert_eq!(plan.transfer_time, DurationMs::ZERO);
}

fn flexible_request_reading(
    policy: &str,
    total: u32,
    of: Content,
    bounds: FlexibleBounds,
) -> PlacementRequest {
    let whole = component_reading_chunk(total, chunk_of_part(of, 0, total.into(), total.into()));
    let policy = PolicyName::new(policy).unwrap();
    PlacementRequest::new(policy, RequestType::Flexible(bounds), true, vec![whole])
}

#[test]
fn the_chunks_of_a_flexible_job_follow_its_shares() {
    let whole = content_of_gigabytes(1, 20);
    let sites = || [open_site("A", 12), open_site("B", 8), open_site("F", 0)];
    let links = [
        ("F", "A", 100),
        ("F", "B", 100),
        ("A", "B", 1),
        ("B", "A", 1),
    ];
    let grid = grid_with(sites(), &[(whole, "F")], &links);
    for policy in [
        "flexible-cluster-minimization",
        "connected-flexible-cluster-minimization",
    ] {
        let plan = place_on_grid(
            &flexible_request_reading(policy, 20, whole, FlexibleBounds::default()),
            &grid,
        );
        let plan = plan.unwrap();
        assert_eq!(shares_of(&plan), [("A", 12), ("B", 8)], "{policy}");
        assert_eq!(
            chunk_sources(&plan),
            [(0, 12, "F"), (12, 8, "F")],
            "{policy}"
        );
        assert_eq!(plan.transfer_time, DurationMs::from_secs(960), "{policy}");
    }
    let listed = FlexibleBounds {
        splits: vec![vec![15, 5], vec![8, 12]],
        ..FlexibleBounds::default()
    };
    let plan = place_on_grid(
        &flexible_request_reading("flexible-cluster-minimization", 20, whole, listed),
        &grid,
    );
    let plan = plan.unwrap();
    assert_eq!(shares_of(&plan), [("B", 8), ("A", 12)]);
    assert_eq!(chunk_sources(&plan), [(0, 8, "F"), (8, 12, "F")]);
}

#[test]
fn a_flexible_job_that_is_not_split_reads_the_file_itself() {
    let whole = content_of_gigabytes(1, 20);
    let sites = [open_site("A", 20), open_site("F", 0)];
    let grid = grid_with(sites, &[(whole, "F")], &[("F", "A", 100)]);
    let request = flexible_request_reading(
        "flexible-cluster-minimization",
        20,
        whole,
        FlexibleBounds::default(),
    );
    let plan = place_on_grid(&request, &grid).unwrap();
    let source = &plan.placements[0].sources[0];
    assert_eq!((source.content, source.chunk), (whole, None));
    assert_eq!(source.content.size, Bytes(20 * GB));
}

#[test]
fn a_file_read_whole_and_in_chunks_needs_its_room_once() {
    let whole = content_of_gigabytes(1, 2);
    let narrow = GridSite {
        staging_left: Some(Bytes(3 * GB)),
        ..open_site("A", 12)
    };
    let grid = grid_with(
        [narrow, open_site("F", 0)],
        &[(whole, "F")],
        &[("F", "A", 100)],
    );
    let mut part = component_reading_chunk(7, chunk_of_part(whole, 0, 7, 7));
    part.inputs.insert(whole);
    let policy = "flexible-cluster-minimization";
    let flexible = FlexibleBounds::default();
    let policy = PolicyName::new(policy).unwrap();
    let request = PlacementRequest::new(policy, RequestType::Flexible(flexible), true, vec![part]);
    assert_eq!(
        shares_of(&place_on_grid(&request, &grid).unwrap()),
        [("A", 7)]
    );
}

#[test]
fn a_chunk_of_a_flexible_job_comes_from_where_that_chunk_arrives_first() {
    // The smallest chunk takes a millisecond from either.
    let whole = Content {
        size: Bytes(100_000),
        ..content_of_gigabytes(1, 1)
    };
    let sites = [open_site("A", 0), open_site("B", 0), open_site("X", 1_000)];
    let grid = grid_with(
        sites,
        &[(whole, "A"), (whole, "B")],
        &[("A", "X", 1), ("B", "X", 100)],
    );
    for policy in [
        "flexible-cluster-minimization",
        "connected-flexible-cluster-minimization",
    ] {
        let plan = place_on_grid(
            &flexible_request_reading(policy, 1_000, whole, FlexibleBounds::default()),
            &grid,
        );
        let plan = plan.unwrap();
        assert_eq!(plan.placements[0].sources[0].from.as_str(), "B", "{policy}");
        assert_eq!(plan.transfer_time, DurationMs(8), "{policy}");
    }
}

#[test]
fn the_file_is_named_that_a_chunk_cannot_be_cut_from() {
    let whole = content_of_gigabytes(1, 16);
    let grid = grid_with([open_site("A", 12)], &[], &[]);
    let refusal = place_on_grid(
        &request(vec![component_reading_chunk(
            4,
            chunk_of_part(whole, 0, 4, 8),
        )]),
        &grid,
    )
    .unwrap_err();
    assert_eq!(
        refusal.reason,
        RefusalReason::NoReplica {
            digest: whole.digest
        }
    );
}
