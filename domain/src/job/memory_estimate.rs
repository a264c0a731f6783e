//! Estimates the memory that a job takes, so that jobs can be bounded by the memory there is.

use super::spec::{
    ComponentSpec, ExecutableSource, FileReference, JobSpec, OutputDestination, ProgramOverride,
};
use crate::acquisition::JobBenchmark;
use crate::labels::LabelConstraint;
use crate::units::Bytes;

/// Bytes for a job without components: its state, its entries in queues and indexes, its part of
/// the store's cache.
const JOB: usize = 3_000;
/// Bytes for a component with its state at a site.
const COMPONENT: usize = 1_400;
/// Bytes for an override, by site or for a restart.
const OVERRIDE: usize = 400;
/// Bytes for an input or an output.
const FILE: usize = 160;
/// Bytes for a text beside its own bytes.
const TEXT: usize = 32;

impl JobSpec {
    /// Estimates the memory that a job of this specification takes as long as it is kept, from its
    /// submission until it goes to the archive: rather too much than too little, and the same
    /// however much of it other jobs share. Measured on a server with 100,000 jobs.
    pub fn memory_footprint(&self) -> Bytes {
        let components: usize = self
            .components
            .iter()
            .map(ComponentSpec::memory_footprint)
            .sum();
        let values = self.run.task.iter().flat_map(|task| &task.values);
        let values: usize = values
            .map(|(name, value)| 2 * TEXT + name.len() + value.len())
            .sum();
        let benchmarks = self.run.preferences.iter().flat_map(|it| &it.benchmarks);
        let benchmarks: usize = benchmarks
            .map(|one| size_of::<JobBenchmark>() + text_bytes(&one.name))
            .sum();
        let own = JOB + self.name.as_deref().map_or(0, text_bytes);
        Bytes((own + components + values + benchmarks) as u64)
    }
}

impl ComponentSpec {
    fn memory_footprint(&self) -> usize {
        let inputs = self
            .inputs
            .iter()
            .map(|input| file_bytes(&input.file) + text_bytes(input.path.as_str()));
        let outputs = self.outputs.iter().map(|output| {
            let registered = match &output.collect {
                OutputDestination::Fetch => 0,
                OutputDestination::ToSite { register, .. } => text_bytes(register.as_str()),
            };
            FILE + text_bytes(output.path.as_str()) + registered
        });
        let overrides = self
            .at
            .values()
            .chain(self.restart.as_deref())
            .map(ProgramOverride::memory_footprint);
        let parts = inputs.chain(outputs).chain(overrides).sum::<usize>();
        let constraints = self.constraints.len() * (size_of::<LabelConstraint>() + 2 * TEXT);
        COMPONENT
            + text_bytes(self.name.as_str())
            + executable_bytes(&self.program.executable)
            + self.program.byte_count()
            + parts
            + constraints
    }
}

impl ProgramOverride {
    fn memory_footprint(&self) -> usize {
        let environment = self.environment.iter();
        let environment: usize = environment
            .map(|(name, value)| text_bytes(name) + text_bytes(value))
            .sum();
        let words = self
            .arguments
            .iter()
            .flatten()
            .chain(&self.setup)
            .chain(&self.lrm_options);
        let words: usize = words.map(|word| text_bytes(word)).sum();
        OVERRIDE + self.executable.as_ref().map_or(0, executable_bytes) + environment + words
    }
}

fn executable_bytes(executable: &ExecutableSource) -> usize {
    match executable {
        ExecutableSource::AtSite(path) => text_bytes(path),
        ExecutableSource::Staged(staged) => file_bytes(staged),
    }
}

fn file_bytes(file: &FileReference) -> usize {
    FILE + text_bytes(file.name.as_str())
}

fn text_bytes(text: &str) -> usize {
    TEXT + text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::job_world::spec;

    #[test]
    fn a_job_takes_more_for_each_component_and_for_every_byte_of_text() {
        let one = spec(1);
        let Bytes(alone) = one.memory_footprint();
        let Bytes(of_two) = spec(2).memory_footprint();
        assert!(of_two >= alone + COMPONENT as u64, "{alone}, {of_two}");
        let mut longer = one;
        longer.components[0].program.change_program(|program| {
            program.arguments.push("x".repeat(10_000).into());
            program
                .environment
                .insert("NAME".into(), "y".repeat(500).into());
        });
        assert!(longer.memory_footprint() >= Bytes(alone + 10_504));
    }
}
