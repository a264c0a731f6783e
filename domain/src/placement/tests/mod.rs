mod drawn;
mod explanations;
mod judge;
mod properties;
mod submission;
mod worst_fit;
