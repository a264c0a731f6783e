//! Shapes: jobs with equal requirements share one request.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::placement::{PlacementRefusal, PlacementRequest};

/// The number of a shape. Never used twice, so that a scan can remember it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitingShapeId(pub(super) u64);

/// All shapes of the waiting jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingShapes {
    by_request: BTreeMap<Arc<PlacementRequest>, WaitingShapeId>,
    shapes: BTreeMap<WaitingShapeId, WaitingShape>,
    last: u64,
    /// The last request, with its shape: equal jobs often follow each other.
    before: Option<(Arc<PlacementRequest>, WaitingShapeId)>,
}

#[derive(Debug, Clone)]
struct WaitingShape {
    request: Arc<PlacementRequest>,
    jobs: usize,
    refusal: Option<PlacementRefusal>,
}

impl WaitingShapes {
    /// Counts one more job with this request.
    pub(super) fn add_job(&mut self, request: Arc<PlacementRequest>) -> WaitingShapeId {
        let before = self
            .before
            .as_ref()
            .filter(|(before, _)| Arc::ptr_eq(before, &request));
        if let Some((_, id)) = before
            && let Some(shape) = self.shapes.get_mut(id)
        {
            shape.jobs += 1;
            return *id;
        }
        let id = self.find_or_insert(&request);
        self.before = Some((request, id));
        id
    }

    fn find_or_insert(&mut self, request: &Arc<PlacementRequest>) -> WaitingShapeId {
        if let Some(&id) = self.by_request.get(request) {
            if let Some(shape) = self.shapes.get_mut(&id) {
                shape.jobs += 1;
            }
            return id;
        }
        self.last += 1;
        let id = WaitingShapeId(self.last);
        self.by_request.insert(request.clone(), id);
        self.shapes.insert(
            id,
            WaitingShape {
                request: request.clone(),
                jobs: 1,
                refusal: None,
            },
        );
        id
    }

    /// Counts one job less with this shape.
    pub(super) fn release_job(&mut self, id: WaitingShapeId) {
        let Some(shape) = self.shapes.get_mut(&id) else {
            return;
        };
        shape.jobs -= 1;
        if shape.jobs == 0 {
            self.by_request.remove(&shape.request);
            self.shapes.remove(&id);
        }
    }

    pub(super) fn request_of_shape(&self, id: WaitingShapeId) -> Option<&Arc<PlacementRequest>> {
        self.shapes.get(&id).map(|shape| &shape.request)
    }

    pub(super) fn last_refusal(&self, id: WaitingShapeId) -> Option<&PlacementRefusal> {
        self.shapes
            .get(&id)
            .and_then(|shape| shape.refusal.as_ref())
    }

    pub(super) fn set_refusal(&mut self, id: WaitingShapeId, refusal: Option<PlacementRefusal>) {
        if let Some(shape) = self.shapes.get_mut(&id) {
            shape.refusal = refusal;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shapes.len()
    }
}
