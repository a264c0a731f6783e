//! The latest documents. Users submit the same job many times in a row, and parsing it is most of
//! the work of a submission.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use actix_web::web::Bytes;
use cospan_domain::job::spec::JobSpec;

/// Documents that each worker remembers.
const KEPT: usize = 8;
/// Longest document that is remembered.
const MOST_BYTES: usize = 16 * 1_024;

/// The content of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestedSpec {
    /// The job.
    pub(super) spec: Arc<JobSpec>,
    /// True if it names the class of its placement queue.
    pub(super) names_class: bool,
}

thread_local! {
    static LAST: RefCell<VecDeque<(Bytes, RequestedSpec)>> = const { RefCell::new(VecDeque::new()) };
}

/// Returns the content of a document that equals one of the latest byte for byte.
pub(super) fn find_known(document: &Bytes) -> Option<RequestedSpec> {
    LAST.with_borrow(|last| {
        last.iter()
            .find(|(other, _)| other == document)
            .map(|(_, asked)| asked.clone())
    })
}

/// Remembers the content of a document.
pub(super) fn remember_document(document: &Bytes, asked: &RequestedSpec) {
    if document.len() > MOST_BYTES {
        return;
    }
    LAST.with_borrow_mut(|last| {
        last.truncate(KEPT - 1);
        // A copy: a buffer of a connection may hold far more than this.
        last.push_front((Bytes::copy_from_slice(document), asked.clone()));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_api::v1::document::JobDocument;

    fn read(name: usize) -> (Bytes, RequestedSpec) {
        let text = format!(
            r#"{{"name":"{name}","wall_time":"1h","component":[{{"name":"a","processors":1,"executable":"/bin/true"}}]}}"#
        );
        let document: JobDocument = serde_json::from_str(&text).unwrap();
        let spec = document
            .into_specs(1, cospan_domain::units::Bytes(u64::MAX))
            .unwrap()
            .remove(0);
        (
            Bytes::from(text),
            RequestedSpec {
                spec: Arc::new(spec),
                names_class: false,
            },
        )
    }

    #[test]
    fn the_last_few_documents_are_known_and_no_other_takes_their_place() {
        let read: Vec<_> = (0..KEPT + 1).map(read).collect();
        read.iter()
            .for_each(|(document, asked)| remember_document(document, asked));
        assert_eq!(find_known(&read[0].0), None, "it was the first");
        for (document, asked) in &read[1..] {
            assert_eq!(find_known(document).as_ref(), Some(asked));
        }
    }
}
