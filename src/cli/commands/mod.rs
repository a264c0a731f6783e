//! One module a command, or a family of commands.

pub(super) mod background;
pub(super) mod bench;
pub(super) mod chaos;
pub(super) mod cluster;
pub(super) mod configuration;
pub(super) mod doctor;
pub(super) mod explain;
pub(super) mod file;
mod group;
pub(super) mod key;
mod last_words;
pub(super) mod list;
pub(super) mod logs;
pub(super) mod map;
pub(super) mod output;
mod promise;
pub(super) mod quickstart;
pub(super) mod report;
pub(super) mod serve;
pub(super) mod show;
pub(super) mod simulate;
pub(super) mod site;
pub(super) mod steer;
pub(super) mod store;
pub(super) mod submit;
mod upload;
pub(super) mod wait;
