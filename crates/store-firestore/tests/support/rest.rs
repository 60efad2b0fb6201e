//! Firestore as its own tools see it: by REST.

use serde_json::{Value, json};

use super::http::ask;

/// A database of the emulator, by hand.
#[derive(Clone)]
pub(crate) struct Rest {
    pub(crate) host: String,
    pub(crate) project: String,
}

impl Rest {
    fn documents(&self) -> String {
        format!("/v1/projects/{}/databases/(default)/documents", self.project)
    }

    /// A document; null if there is none.
    pub(crate) async fn document(&self, path: &str) -> Value {
        let (status, body) =
            ask(&self.host, "GET", &format!("{}/{path}", self.documents()), &Value::Null).await;
        if status == 404 { Value::Null } else { body }
    }

    /// The ids of the documents of a collection.
    pub(crate) async fn ids(&self, collection: &str) -> Vec<String> {
        let (_, body) =
            ask(&self.host, "GET", &format!("{}/{collection}", self.documents()), &Value::Null).await;
        let documents = body["documents"].as_array().cloned().unwrap_or_default();
        let name = |document: &Value| document["name"].as_str().unwrap().to_string();
        documents.iter().map(|document| name(document).rsplit('/').next().unwrap().to_string()).collect()
    }

    /// Deletes a document.
    pub(crate) async fn delete(&self, path: &str) {
        let (status, body) =
            ask(&self.host, "DELETE", &format!("{}/{path}", self.documents()), &Value::Null).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Puts fields into a document; the others stay.
    pub(crate) async fn set(&self, path: &str, fields: &Value) {
        let mask: Vec<String> = fields
            .as_object()
            .unwrap()
            .keys()
            .map(|field| format!("updateMask.fieldPaths={field}"))
            .collect();
        let path = format!("{}/{path}?{}", self.documents(), mask.join("&"));
        let (status, body) = ask(&self.host, "PATCH", &path, &json!({ "fields": fields })).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Begins a transaction that holds a document, as a careless program would.
    pub(crate) async fn hold(&self, path: &str) -> Value {
        let options = json!({ "options": { "readWrite": {} } });
        let begin = format!("{}:beginTransaction", self.documents());
        let (status, begun) = ask(&self.host, "POST", &begin, &options).await;
        assert_eq!(status, 200, "{begun}");
        let name = format!("{}/{path}", self.documents().trim_start_matches("/v1/"));
        let get = json!({ "documents": [name], "transaction": begun["transaction"] });
        let (status, got) = ask(&self.host, "POST", &format!("{}:batchGet", self.documents()), &get).await;
        assert_eq!(status, 200, "{got}");
        begun["transaction"].clone()
    }

    /// Ends a transaction.
    pub(crate) async fn let_go(&self, transaction: &Value) {
        let body = json!({ "transaction": transaction });
        let (status, body) = ask(&self.host, "POST", &format!("{}:rollback", self.documents()), &body).await;
        assert_eq!(status, 200, "{body}");
    }
}
