//! Declares a section once: its struct, and the code that reads, shows and documents it. All follow
//! from the declaration, so that none can lag behind another.

use super::table_reader::TableReader;
use super::value::{OptionValue, Ranged};

/// An option as the reference describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDoc {
    pub key: &'static str,
    /// The meaning of the option.
    pub doc: String,
    /// The notation of its values.
    pub form: String,
    /// The default as TOML; `None` if the option must be given.
    pub default: Option<String>,
    /// Smallest and largest value as TOML.
    pub range: Option<(String, String)>,
    /// The version that introduced the option.
    pub since: &'static str,
}

/// A section as the reference describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionDoc {
    pub key: &'static str,
    /// True if the section may be given several times, as `[[key]]`.
    pub repeated: bool,
    /// The purpose of the section.
    pub doc: String,
    /// The options in order.
    pub options: Vec<OptionDoc>,
}

/// A section of the configuration.
pub trait Section: Sized {
    const KEY: &'static str;
    /// True if the section may be given several times.
    const REPEATED: bool;

    /// Reads the section; `None` if something without a default is missing, which is recorded.
    fn read(reader: TableReader<'_, '_>) -> Option<Self>;

    /// The values as TOML, in the order of the options.
    fn values(&self) -> Vec<String>;

    /// The description for the reference.
    fn describe() -> SectionDoc;
}

/// Joins the lines of a docstring.
pub(crate) fn join_doc_lines(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.join("\n").trim().replace('\n', " ")
}

/// Declares a section. Each option: docstring, `"key" => field: Type`, then its
/// default (`= value`, none if it must be given), its range (`in low => high`,
/// optional), and the version that brought it (`since "x.y.z"`).
macro_rules! section {
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@repeated) => { false };
    (@repeated repeated) => { true };
    (@range $type:ty) => { None };
    (@range $type:ty, $low:expr, $high:expr) => {
        Some($crate::config::section::format_range::<$type, _>($low, $high))
    };
    (
        $(#[doc = $doc:literal])+
        $name:ident($section:literal $($repeated:ident)?) {
            $(
                $(#[doc = $odoc:literal])+
                $key:literal => $field:ident: $type:ty
                    $(= $default:expr)?, $(in $low:expr => $high:expr,)? since $since:literal;
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $odoc])+ pub $field: $type,)+
        }

        impl $crate::config::section::Section for $name {
            const KEY: &'static str = $section;
            const REPEATED: bool = section!(@repeated $($repeated)?);

            fn read(mut reader: $crate::config::table_reader::TableReader<'_, '_>) -> Option<Self> {
                $(
                    let $field = reader.read_option_within::<$type>(
                        $key,
                        section!(@default $($default)?),
                        section!(@range $type $(, $low, $high)?),
                    );
                    $(
                        if let Some(value) = &$field {
                            reader.check_range($key, value, $low, $high);
                        }
                    )?
                )+
                reader.check_keys(&[$($key),+]);
                Some(Self { $($field: $field?),+ })
            }

            fn values(&self) -> Vec<String> {
                vec![$($crate::config::value::OptionValue::show(&self.$field)),+]
            }

            fn describe() -> $crate::config::section::SectionDoc {
                use $crate::config::section::{OptionDoc, SectionDoc, join_doc_lines, format_default};
                SectionDoc {
                    key: $section,
                    repeated: <Self as $crate::config::section::Section>::REPEATED,
                    doc: join_doc_lines(&[$($doc),+]),
                    options: vec![$(OptionDoc {
                        key: $key,
                        doc: join_doc_lines(&[$($odoc),+]),
                        form: <$type as $crate::config::value::OptionValue>::form(),
                        default: format_default::<$type>(section!(@default $($default)?)),
                        range: section!(@range $type $(, $low, $high)?),
                        since: $since,
                    }),+],
                }
            }
        }
    };
}
pub(crate) use section;

/// A range as TOML, for an option of type `V`.
pub(crate) fn format_range<V: Ranged<T>, T: OptionValue>(low: T, high: T) -> (String, String) {
    (low.show(), high.show())
}

/// A default as TOML, if there is one.
pub(crate) fn format_default<T: OptionValue>(default: Option<T>) -> Option<String> {
    default.as_ref().map(T::show)
}
