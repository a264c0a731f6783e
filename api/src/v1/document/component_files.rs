//! The files of a component: its program, its input and its output.

use std::fmt;
use std::sync::Arc;

use cospan_domain::ids::{Digest, LogicalName, RelPath, SiteName};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::text_patterns::{DigestText, FileText, PathText, SiteText};
use crate::v1::{number, text};

/// The program to run: a path or name at the site, or `{ file = "..." }` for a file that is brought
/// there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ExecutableDocument {
    /// An absolute path at the site, or a name that is looked up in `PATH` there.
    AtSite(Arc<str>),
    /// A logical file that is brought there like an input.
    Staged(FileDocument),
}

/// A logical file, and its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDocument {
    /// The logical name of the file.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<FileText>)]
    pub file: Option<LogicalName>,
    /// Instead of a name: a path beside the job file, which `cospan submit` uploads. Over HTTP
    /// the file is sent to `/v1/uploads` first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<Arc<str>>,
    /// BLAKE3 digest of the content; what the name means now if left out.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<DigestText>)]
    pub digest: Option<Digest>,
    /// Size in bytes; given with the digest.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub size_bytes: Option<u64>,
}

impl<'de> Deserialize<'de> for ExecutableDocument {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ExecutableVisitor;

        impl<'de> Visitor<'de> for ExecutableVisitor {
            type Value = ExecutableDocument;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a path in quotes, or { file = \"logical name\" }, or { upload = \"path\" }",
                )
            }

            fn visit_str<E: Error>(self, path: &str) -> Result<ExecutableDocument, E> {
                Ok(ExecutableDocument::AtSite(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ExecutableDocument, A::Error> {
                FileDocument::deserialize(MapAccessDeserializer::new(map))
                    .map(ExecutableDocument::Staged)
            }
        }

        from.deserialize_any(ExecutableVisitor)
    }
}

/// A file that a component reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputDocument {
    /// The logical name of the file.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<FileText>)]
    pub file: Option<LogicalName>,
    /// Instead of a name: a path beside the job file, which `cospan submit` uploads. Over HTTP
    /// the file is sent to `/v1/uploads` first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<Arc<str>>,
    /// Path of the file below the work directory; the last part of the name if left out.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<PathText>)]
    pub path: Option<RelPath>,
    /// The part of the file that the component reads; all of it if left out.
    #[serde(default, skip_serializing_if = "FeedDocument::is_whole")]
    pub read: FeedDocument,
    /// BLAKE3 digest of the content; what the name means now if left out.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<DigestText>)]
    pub digest: Option<Digest>,
    /// Size in bytes; given with the digest.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub size_bytes: Option<u64>,
}

/// The part of a file that a component reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FeedDocument {
    /// The whole file.
    #[default]
    Whole,
    /// A chunk of its own, in proportion to its processors among all components that read the file
    /// in chunks.
    Chunk,
}

impl FeedDocument {
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// A file that a component leaves. Without `site` it stays where it is until it is fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputDocument {
    /// Path of the file below the work directory.
    #[serde(with = "text")]
    #[schema(value_type = PathText)]
    pub path: RelPath,
    /// The site to which the file is copied.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SiteText>)]
    pub site: Option<SiteName>,
    /// The logical name of the copied file; given with the site.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<FileText>)]
    pub register: Option<LogicalName>,
}
