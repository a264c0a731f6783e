//! The splits and the shapes that a flexible job allows.

use cospan_domain::acquisition::{AlternativeShape, MoldingOptions};
use cospan_domain::job::spec::{FlexibleBounds, JobSpec, RequestType};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::number;
use crate::v1::quantity::Length;

/// The splits that a flexible job allows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FlexibleDocument {
    /// Fewest processors of a component; 1 if left out.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub min_component_size: Option<u32>,
    /// Most components; the number of sites if left out.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub max_components: Option<u32>,
    /// The allowed splits, the preferred first. With them the bounds do not count. Not for a job
    /// with a reservation.
    #[serde(
        default,
        deserialize_with = "number::lists",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(example = json!([[24], [12, 12], [8, 8, 8]]))]
    pub splits: Vec<Vec<u32>>,
    /// Overhead of running over several sites instead of one, in percent of the wall time, which is
    /// extended by as much. 0 if left out.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 1000, example = 20)]
    pub overhead: Option<u32>,
    /// Other shapes than the `processors` of the component with `wall_time`. The shape in which the
    /// job is complete first is reserved. No two shapes have equal processors, and more processors
    /// are faster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<ShapeDocument>,
}

/// A shape in which a flexible job may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShapeDocument {
    /// Processors of all components together; other resources grow in proportion.
    #[serde(deserialize_with = "number::positive")]
    #[schema(minimum = 1)]
    pub processors: u32,
    /// Wall time with these processors within one site.
    #[schema(example = "2h")]
    pub run_time: Length,
}

impl FlexibleDocument {
    /// Returns what the specification says about a flexible job; `None` if the job is not flexible.
    pub fn of(spec: &JobSpec) -> Option<Self> {
        let RequestType::Flexible(bounds) = &spec.request else {
            return None;
        };
        let MoldingOptions { overhead, shapes } = &spec.run.molding;
        let shapes = shapes.iter().map(|shape: &AlternativeShape| ShapeDocument {
            processors: shape.processors,
            run_time: Length(shape.run_time),
        });
        Some(Self {
            min_component_size: Some(bounds.min_component_size),
            max_components: bounds.max_components,
            splits: bounds.splits.clone(),
            overhead: Some(*overhead).filter(|overhead| *overhead > 0),
            shape: shapes.collect(),
        })
    }

    /// Returns the other ways in which the job may run.
    pub(crate) fn to_molding(&self) -> MoldingOptions {
        let shapes = self.shape.iter().map(|shape| AlternativeShape {
            processors: shape.processors,
            run_time: shape.run_time.0,
        });
        MoldingOptions {
            overhead: self.overhead.unwrap_or(0),
            shapes: shapes.collect(),
        }
    }
}

impl From<FlexibleDocument> for FlexibleBounds {
    fn from(document: FlexibleDocument) -> FlexibleBounds {
        FlexibleBounds {
            min_component_size: document.min_component_size.unwrap_or(1),
            max_components: document.max_components,
            splits: document.splits,
        }
    }
}
