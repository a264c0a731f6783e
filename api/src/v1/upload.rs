//! The public view of an upload.

use cospan_domain::ids::{Digest, LogicalName, SiteName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text_patterns::{DigestText, FileText, SiteText};
use super::{number, text};

/// Most characters of a file's name.
pub const FILE_NAME_MAX: usize = 255;

/// A file that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadRequest {
    /// The logical name of the file. If left out: a name made of the key, the digest and
    /// `file_name`.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<FileText>)]
    pub name: Option<LogicalName>,
    /// The name of the file at its origin, without any directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "mesh.dat", min_length = 1, max_length = 255)]
    pub file_name: Option<String>,
    /// Size in bytes.
    #[serde(deserialize_with = "number::any")]
    pub size_bytes: u64,
    /// BLAKE3 digest of its content.
    #[serde(with = "text")]
    #[schema(value_type = DigestText)]
    pub digest: Digest,
    /// The site that is to have the file; any site that can hold it if left out.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SiteText>)]
    pub site: Option<SiteName>,
    /// Allow the name to point to other content until now.
    #[serde(default)]
    pub replace: bool,
}

/// The progress of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UploadState {
    /// Bytes are expected, from `offset` on; then the upload is to be completed.
    Receiving,
    /// The file is being checked and brought to a site.
    Landing,
    /// The file is registered.
    Done,
}

/// An upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadReport {
    /// The id of the upload; missing if the file was there already and nothing is to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The key that sends it.
    pub owner: String,
    /// The logical name of the file.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// BLAKE3 digest of its content.
    pub digest: String,
    /// Bytes that have been kept; the next piece begins here.
    pub offset: u64,
    /// Longest piece that is accepted.
    pub max_piece_bytes: u64,
    /// The progress of the upload.
    pub state: UploadState,
}

/// A page of the uploads that are not completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadPage {
    /// The uploads, by id.
    pub uploads: Vec<UploadReport>,
    /// Give this as `after` for the next page; missing at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
