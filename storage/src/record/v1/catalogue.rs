//! Logical files.

use std::sync::Arc;

use cospan_domain::catalogue::file_state;
use cospan_domain::ids::{KeyName, LogicalName, SiteName};

use super::convert::{TextValue, wire_struct};
use super::copy::StoredFilePlace;
use super::spec::Content;

wire_struct!(FileRecord = file_state::FileRecord { name: TextValue<LogicalName>; entry: Option<Entry> });

wire_struct!(Entry = file_state::CatalogueEntry {
    content: Content,
    directory: bool,
    registered_at: u64,
    registered_by: TextValue<KeyName>;
    replicas: Vec<(TextValue<SiteName>, StoredFilePlace)>,
    stamps: Vec<((TextValue<SiteName>, StoredFilePlace), Arc<str>)>,
});
