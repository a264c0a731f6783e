//! The public view of a logical file.

use cospan_domain::ids::{LogicalName, RelPath, SiteName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text;
use super::text_patterns::{FileText, PathText, SiteText};

/// A file to be registered; it is at a site already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRegistration {
    /// The logical name of the file.
    #[serde(with = "text")]
    #[schema(value_type = FileText)]
    pub name: LogicalName,
    /// The site that has it.
    #[serde(with = "text")]
    #[schema(value_type = SiteText)]
    pub site: SiteName,
    /// Path of the file below the site's file root.
    #[serde(with = "text")]
    #[schema(value_type = PathText)]
    pub path: RelPath,
    /// Allow the name to point to other content until now.
    #[serde(default)]
    pub replace: bool,
}

/// A logical file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReport {
    /// The logical name of the file.
    pub name: String,
    /// The key that registered it.
    #[serde(default)]
    pub owner: String,
    /// BLAKE3 digest of its content.
    pub digest: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The replicas of the file.
    pub replicas: Vec<ReplicaReport>,
}

/// A place that has a file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaReport {
    /// The site.
    pub site: String,
    /// Path below the site's file root; missing for a copy in the site's own store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// True for a copy that jobs needed and that is still there; nobody registered it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// A page of a list of files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct FilePage {
    /// The files, by name.
    pub files: Vec<FileReport>,
    /// Give this as `after` for the next page; missing at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
