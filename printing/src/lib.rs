//! Text that people and their programs read, and in which nothing is hidden: on terminals, in logs
//! and in CSV files.

pub mod csv_file;
pub mod terminal;
