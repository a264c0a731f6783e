//! The types of requests: who chooses the sites of a job.

use super::spec::{JobSpec, JobSpecError, OutputDestination};
use crate::ids::{ComponentIndex, ComponentName, SiteName};
use crate::placed::Placement;
use crate::resources::Resources;

/// The type of a request (KOALA, section 3).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestType {
    /// Each component names its site and never runs elsewhere.
    Fixed,
    /// The policy chooses a site for each component.
    NonFixed,
    /// The policy also chooses how the processors are split into components: the one
    /// component of the job describes them all, and its processors are their total.
    Flexible(FlexibleBounds),
}

impl RequestType {
    /// Returns its name in job files and messages.
    pub fn as_str(&self) -> &'static str {
        match self {
            RequestType::Fixed => "fixed",
            RequestType::NonFixed => "non-fixed",
            RequestType::Flexible(_) => "flexible",
        }
    }

    /// Returns true if such a job may probe a site after errors. A fixed request may, even if it
    /// must not run twice: it can go nowhere else, and would wait for ever where no other job goes.
    pub fn may_probe(&self, rerunnable: bool) -> bool {
        rerunnable || matches!(self, RequestType::Fixed)
    }
}

/// Bounds of a split (communication-aware placement, "Flexible requests").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlexibleBounds {
    /// Fewest processors of a component; at least 1.
    pub min_component_size: u32,
    /// Most components, at least 1; `None`: as many as there are sites.
    pub max_components: Option<u32>,
    /// The splits that are allowed, the preferred first. If there are any, the bounds do not count.
    pub splits: Vec<Vec<u32>>,
}

impl Default for FlexibleBounds {
    fn default() -> Self {
        Self {
            min_component_size: 1,
            max_components: None,
            splits: Vec::new(),
        }
    }
}

impl FlexibleBounds {
    /// Returns the fewest processors that any component can get.
    pub fn least_processors(&self) -> u32 {
        let of_splits = self.splits.iter().flatten().copied().min();
        of_splits.unwrap_or(self.min_component_size).max(1)
    }

    /// Returns the most components that it can be split into, if that is bounded.
    pub fn most_components(&self) -> Option<usize> {
        match self.splits.iter().map(Vec::len).max() {
            Some(most) => Some(most),
            None => self.max_components.map(|most| most as usize),
        }
    }

    fn validate(&self, name: &ComponentName, total: u32) -> Result<(), JobSpecError> {
        if self.min_component_size == 0 || self.max_components == Some(0) {
            return Err(JobSpecError::ZeroBound);
        }
        for split in &self.splits {
            let sum: u64 = split.iter().map(|&size| u64::from(size)).sum();
            if split.contains(&0) || sum != u64::from(total) {
                return Err(JobSpecError::SplitSum {
                    split: split.clone(),
                    total,
                });
            }
        }
        if self.splits.is_empty() && total < self.min_component_size {
            let min = self.min_component_size;
            return Err(JobSpecError::BelowMinimum {
                name: name.clone(),
                total,
                min,
            });
        }
        Ok(())
    }
}

impl JobSpec {
    /// Iterates over the resources that these placements take of their sites.
    pub fn resource_uses<'a>(
        &'a self,
        placements: &'a [Placement],
    ) -> impl Iterator<Item = (SiteName, Resources)> + 'a {
        placements
            .iter()
            .enumerate()
            .filter_map(|(index, placement)| {
                let resources = match placement.share {
                    Some(share) => self.components.first()?.resources.portion_for(share),
                    None => self.components.get(index)?.resources.clone(),
                };
                Some((placement.site.clone(), resources))
            })
    }

    /// Returns the names of all `count` components.
    pub fn component_names(&self, count: usize) -> Vec<String> {
        let indexes = (0..count as u32).map(ComponentIndex);
        indexes
            .filter_map(|index| self.component_name(index, count))
            .collect()
    }

    /// Returns the name of a component where there are `count`: those of a flexible request are
    /// numbered from 1, if there are several.
    pub fn component_name(&self, index: ComponentIndex, count: usize) -> Option<String> {
        match self.request {
            RequestType::Fixed | RequestType::NonFixed => self
                .components
                .get(index.0 as usize)
                .map(|component| component.name.to_string()),
            RequestType::Flexible(_) => self.components.first().map(|component| match count {
                0 | 1 => component.name.to_string(),
                _ => format!("{}-{}", component.name, index.0 + 1),
            }),
        }
    }

    /// Checks the rules for flexible requests.
    pub(super) fn validate_flexible(&self) -> Result<(), JobSpecError> {
        let RequestType::Flexible(bounds) = &self.request else {
            return Ok(());
        };
        let [component] = self.components.as_slice() else {
            return Err(JobSpecError::FlexibleComponents {
                count: self.components.len(),
            });
        };
        let registered = component
            .outputs
            .iter()
            .find_map(|output| match &output.collect {
                OutputDestination::ToSite { register, .. } => Some(register.clone()),
                OutputDestination::Fetch => None,
            });
        match registered {
            Some(name) => Err(JobSpecError::FlexibleOutput(name)),
            None => bounds.validate(&component.name, component.resources.processors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validate_bounds(total: u32, bounds: FlexibleBounds) -> Result<(), JobSpecError> {
        bounds.validate(&ComponentName::new("grid").unwrap(), total)
    }

    /// Vector FCM-18, and listed splits, for which the bounds do not count.
    #[test]
    fn bounds_that_no_split_could_meet_are_refused() {
        let min = |min| FlexibleBounds {
            min_component_size: min,
            ..FlexibleBounds::default()
        };
        assert_eq!(validate_bounds(5, min(5)), Ok(()));
        let Err(JobSpecError::BelowMinimum {
            total: 4, min: 5, ..
        }) = validate_bounds(4, min(5))
        else {
            panic!("a total below the minimum")
        };
        assert_eq!(validate_bounds(4, min(0)), Err(JobSpecError::ZeroBound));
        let none = FlexibleBounds {
            max_components: Some(0),
            ..FlexibleBounds::default()
        };
        assert_eq!(validate_bounds(4, none), Err(JobSpecError::ZeroBound));
        let listed = |split: &[u32]| FlexibleBounds {
            splits: vec![split.to_vec()],
            ..min(9)
        };
        assert_eq!(validate_bounds(4, listed(&[3, 1])), Ok(()));
        for split in [&[3, 2][..], &[4, 0], &[]] {
            let refused = JobSpecError::SplitSum {
                split: split.to_vec(),
                total: 4,
            };
            assert_eq!(validate_bounds(4, listed(split)), Err(refused));
        }
    }
}
