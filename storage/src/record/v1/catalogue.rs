//! Logical files.

use std::sync::Arc;

use cospan_domain::catalogue::file_state;
use cospan_domain::ids::{KeyName, LogicalName, SiteName};

use super::convert::{Text, wire_struct};
use super::copy::StoredFilePlace;
use super::spec::Content;

wire_struct!(FileRecord = file_state::FileRecord { name: Text<LogicalName>; entry: Option<Entry> });

wire_struct!(Entry = file_state::CatalogueEntry {
    content: Content,
    directory: bool,
    registered_at: u64,
    registered_by: Text<KeyName>;
    replicas: Vec<(Text<SiteName>, StoredFilePlace)>,
    stamps: Vec<((Text<SiteName>, StoredFilePlace), Arc<str>)>,
});
