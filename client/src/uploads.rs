//! Calls that send a file.

use super::query::{QueryBuilder, encode_part};
use super::{Client, ClientError};
use cospan_api::v1::file::FileReport;
use cospan_api::v1::upload::{UploadPage, UploadReport, UploadRequest};

const UNDER_WAY: u16 = 202;

fn upload_path(id: &str) -> String {
    format!("/v1/uploads/{}", encode_part(id))
}

impl Client {
    /// Announces a file, or resumes an upload that was announced with the same values.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn begin_upload(&self, file: &UploadRequest) -> Result<UploadReport, ClientError> {
        self.post("/v1/uploads", file)
    }

    /// Returns the progress of an upload.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn upload(&self, id: &str) -> Result<UploadReport, ClientError> {
        self.get(&upload_path(id))
    }

    /// Lists a page of the uploads that are not complete, after an id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn list_uploads(&self, after: Option<&str>) -> Result<UploadPage, ClientError> {
        self.get(
            &QueryBuilder::from_path("/v1/uploads")
                .with_optional_parameter("after", after)
                .0,
        )
    }

    /// Deletes the bytes that arrived of an upload.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn abandon_upload(&self, id: &str) -> Result<(), ClientError> {
        self.send_request(self.build_request("DELETE", &upload_path(id)), &[])?;
        Ok(())
    }

    /// Sends the next piece.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn append_upload(
        &self,
        id: &str,
        offset: u64,
        bytes: &[u8],
    ) -> Result<UploadReport, ClientError> {
        let at = QueryBuilder::from_path(&upload_path(id))
            .with_parameter("offset", offset)
            .0;
        let request = self
            .build_request("PATCH", &at)
            .header("content-type", "application/octet-stream");
        let response = self.send_request(request, bytes)?;
        self.read_json(response)
    }

    /// Completes an upload: the server checks it, brings it to a site and registers it. Returns
    /// `None` while that is under way.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn complete_upload(&self, id: &str) -> Result<Option<FileReport>, ClientError> {
        let response = self.send_request(
            self.build_request("POST", &format!("{}/complete", upload_path(id))),
            &[],
        )?;
        match response.status().as_u16() {
            UNDER_WAY => Ok(None),
            _ => self.read_json(response).map(Some),
        }
    }
}
