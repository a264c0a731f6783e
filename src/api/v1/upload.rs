//! What an upload looks like from outside.

use cospan_domain::ids::{Digest, LogicalName, SiteName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shape::{DigestText, FileText, SiteText};
use super::{number, text};

/// Most characters of a file's name.
pub const FILE_NAME_MAX: usize = 255;

/// A file that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadRequest {
    /// The logical name that it is to have. Left out: one of its own, made of the key, the digest
    /// and `file_name`.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<FileText>)]
    pub name: Option<LogicalName>,
    /// What it is called where it comes from; without any folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "mesh.dat", min_length = 1, max_length = 255)]
    pub file_name: Option<String>,
    /// How long it is.
    #[serde(deserialize_with = "number::any")]
    pub size_bytes: u64,
    /// BLAKE3 digest of its content.
    #[serde(with = "text")]
    #[schema(value_type = DigestText)]
    pub digest: Digest,
    /// The site that is to have it; one that can hold it if left out.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SiteText>)]
    pub site: Option<SiteName>,
    /// The name may point to other content until now.
    #[serde(default)]
    pub replace: bool,
}

/// How far an upload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UploadState {
    /// Bytes are to be sent, from `offset` on; then it is to be completed.
    Receiving,
    /// It is checked and brought to a site.
    Landing,
    /// It is a registered file.
    Done,
}

/// An upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadReport {
    /// Its id; missing if the file was there already and nothing is to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The key that sends it.
    pub owner: String,
    /// The file's logical name.
    pub name: String,
    /// How long it is.
    pub size_bytes: u64,
    /// BLAKE3 digest of its content.
    pub digest: String,
    /// How much of it is kept; the next piece begins here.
    pub offset: u64,
    /// Longest piece that is taken.
    pub max_piece_bytes: u64,
    /// How far it is.
    pub state: UploadState,
}

/// One page of the uploads that are not completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadPage {
    /// By their ids.
    pub uploads: Vec<UploadReport>,
    /// Give this as `after` for the next page; missing at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
