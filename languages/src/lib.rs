//! Job files and job logs of several languages, read into our own types.

pub mod job_language;
pub mod logs;
pub mod own;
pub mod sbatch;
