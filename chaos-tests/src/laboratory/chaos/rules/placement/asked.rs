//! What a job asks of placement, as the rules see it.

use std::cmp::Reverse;

use cospan_domain::content::{Chunk, Content, Part};
use cospan_domain::ids::PolicyName;
use cospan_domain::job::spec::{Flexible, Request, Where};
use cospan_domain::placement::{ComponentRequest, GridSite, PlacementRequest};
use cospan_domain::resources::Resources;

/// A job's request; the components of a flexible one are one, the whole.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) policy: &'static str,
    pub(super) kind: Request,
    pub(super) restartable: bool,
    pub(super) parts: Vec<ComponentRequest>,
}

impl Asked {
    /// The same, told to the domain; `None`: no such name can be given.
    pub(super) fn request(&self) -> Option<PlacementRequest> {
        let policy = PolicyName::new(self.policy).ok()?;
        let parts = self.parts.clone();
        Some(PlacementRequest::new(policy, self.kind.clone(), self.restartable, parts))
    }

    /// Who can go nowhere else may try out a site, and who may run twice.
    pub(super) fn may_probe(&self) -> bool {
        self.restartable || self.kind == Request::Fixed
    }

    pub(super) fn bounds(&self) -> Option<&Flexible> {
        match &self.kind {
            Request::Flexible(bounds) => Some(bounds),
            Request::Fixed | Request::NonFixed => None,
        }
    }

    /// The components that are looked at: of a flexible request the smallest that there can be.
    pub(super) fn components(&self) -> Vec<ComponentRequest> {
        let Some(bounds) = self.bounds() else { return self.parts.clone() };
        let listed = bounds.splits.iter().flatten().min();
        let least = listed.copied().unwrap_or(bounds.min_component_size);
        self.parts.iter().map(|whole| portion(whole, 0, least)).collect()
    }

    /// The components of one of the splits that are allowed.
    pub(super) fn split(&self, sizes: &[u32]) -> Vec<ComponentRequest> {
        let Some(whole) = self.parts.first() else { return Vec::new() };
        let before = |index: usize| sizes[..index].iter().sum();
        (0..sizes.len()).map(|index| portion(whole, before(index), sizes[index])).collect()
    }
}

/// The part of the whole that belongs to some of its processors; other counts are rounded up.
pub(super) fn portion(whole: &ComponentRequest, before: u32, own: u32) -> ComponentRequest {
    let total = u64::from(whole.resources.processors);
    let part = Part { before: before.into(), own: own.into(), total };
    let chunks = whole.chunks.values().map(|chunk| Chunk::of_part(chunk.of, part));
    ComponentRequest {
        resources: share(&whole.resources, own),
        chunks: chunks.map(|chunk| (chunk.content(), chunk)).collect(),
        ..whole.clone()
    }
}

pub(super) fn share(whole: &Resources, own: u32) -> Resources {
    let total = u64::from(whole.processors);
    let others = whole.others.iter();
    let others =
        others.map(|(name, count)| (name.clone(), (count * u64::from(own)).div_ceil(total)));
    Resources { processors: own, others: others.collect() }
}

/// The largest first, of equal ones the first.
pub(super) fn by_size(parts: &[ComponentRequest]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|index| (Reverse(parts[*index].resources.processors), *index));
    order
}

/// What must be at a site before the component can start there: what it reads, then its
/// executable there, each once.
pub(super) fn needs(part: &ComponentRequest, site: &GridSite) -> Vec<Content> {
    let Some(shape) = &site.shape else { return Vec::new() };
    let mut executable = part.executable;
    for (place, other) in &part.executable_at {
        let applies = match place {
            Where::Site(name) => *name == site.name,
            Where::Label(key, value) => {
                shape.labels.iter().any(|(name, values)| name == key && values.contains(value))
            }
        };
        executable = if applies { *other } else { executable };
    }
    let mut all: Vec<Content> = Vec::new();
    for content in part.inputs.iter().chain(part.chunks.keys()).chain(&executable) {
        if !all.contains(content) {
            all.push(*content);
        }
    }
    all
}

/// The file that holds a content: of a chunk the one that it is cut from.
pub(super) fn file_of(parts: &[ComponentRequest], content: Content) -> Content {
    let chunk = parts.iter().find_map(|part| part.chunks.get(&content));
    chunk.map_or(content, |chunk| chunk.of)
}
