//! What a logical file looks like from outside.

use cospan_domain::ids::{LogicalName, RelPath, SiteName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shape::{FileText, PathText, SiteText};
use super::text;

/// A file to be registered: it is at a site already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRegistration {
    /// Its logical name.
    #[serde(with = "text")]
    #[schema(value_type = FileText)]
    pub name: LogicalName,
    /// The site that has it.
    #[serde(with = "text")]
    #[schema(value_type = SiteText)]
    pub site: SiteName,
    /// Where it is below that site's file root.
    #[serde(with = "text")]
    #[schema(value_type = PathText)]
    pub path: RelPath,
    /// The name may point to other content until now.
    #[serde(default)]
    pub replace: bool,
}

/// A logical file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReport {
    /// Its logical name.
    pub name: String,
    /// The key that registered it.
    #[serde(default)]
    pub owner: String,
    /// BLAKE3 digest of its content.
    pub digest: String,
    /// Its size.
    pub size_bytes: u64,
    /// Where it is.
    pub replicas: Vec<ReplicaReport>,
}

/// One place where a file's content is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaReport {
    /// The site.
    pub site: String,
    /// Where it is below the site's file root; missing for a copy in the site's own store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// It is a copy that jobs needed and that is there still; nobody registered it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// One page of a list of files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct FilePage {
    /// By name.
    pub files: Vec<FileReport>,
    /// Give this as `after` for the next page; missing at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
