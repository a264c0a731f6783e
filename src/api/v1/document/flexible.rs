//! How a flexible job may be split, and in which shapes it may run.

use cospan_domain::acquire::{Molding, OtherShape};
use cospan_domain::job::spec::{Flexible, JobSpec, RequestType};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::v1::number;
use crate::api::v1::quantity::Length;

/// How a flexible job may be split.
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
    /// Most components; as many as there are sites if left out.
    #[serde(
        default,
        deserialize_with = "number::positive_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1)]
    pub max_components: Option<u32>,
    /// The splits that are allowed, the preferred first; then the bounds do not count. Not for a
    /// job that is to be promised a start.
    #[serde(
        default,
        deserialize_with = "number::lists",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(example = json!([[24], [12, 12], [8, 8, 8]]))]
    pub splits: Vec<Vec<u32>>,
    /// How much longer it runs over several sites than within one, in percent of its wall time;
    /// its wall time is so much longer there. 0 if left out.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 1000, example = 20)]
    pub overhead: Option<u32>,
    /// Other shapes than `processors` of its component with `wall_time`: in which it is complete
    /// first, it is promised a start. No two have as many processors, and more processors are
    /// faster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<ShapeDocument>,
}

/// A shape in which a flexible job may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShapeDocument {
    /// Processors of all its components together; other resources go with them in proportion.
    #[serde(deserialize_with = "number::positive")]
    #[schema(minimum = 1)]
    pub processors: u32,
    /// Its wall time with so many, within one site.
    #[schema(example = "2h")]
    pub run_time: Length,
}

impl FlexibleDocument {
    /// What a flexible job says of it; `None` if it is none.
    pub(crate) fn of(spec: &JobSpec) -> Option<Self> {
        let RequestType::Flexible(bounds) = &spec.request else {
            return None;
        };
        let Molding { overhead, shapes } = &spec.run.molding;
        let shape = |shape: &OtherShape| ShapeDocument {
            processors: shape.processors,
            run_time: Length(shape.run_time),
        };
        Some(Self {
            min_component_size: Some(bounds.min_component_size),
            max_components: bounds.max_components,
            splits: bounds.splits.clone(),
            overhead: Some(*overhead).filter(|overhead| *overhead > 0),
            shape: shapes.iter().map(shape).collect(),
        })
    }

    /// How it may run, beside as it asks.
    pub(crate) fn molding(&self) -> Molding {
        let shapes = self.shape.iter().map(|shape| OtherShape {
            processors: shape.processors,
            run_time: shape.run_time.0,
        });
        Molding {
            overhead: self.overhead.unwrap_or(0),
            shapes: shapes.collect(),
        }
    }
}

impl From<FlexibleDocument> for Flexible {
    fn from(document: FlexibleDocument) -> Flexible {
        Flexible {
            min_component_size: document.min_component_size.unwrap_or(1),
            max_components: document.max_components,
            splits: document.splits,
        }
    }
}
