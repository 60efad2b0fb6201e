//! The workload that this process is a part of, for Kubernetes to clean up after.
//!
//! A Lease that this client creates is owned by the Deployment, StatefulSet or other controller of the pod that the client runs in, and is
//! deleted with it. Best effort: without the permission to look, or without such a controller, there is no owner.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Client};
use tokio::sync::OnceCell;

use crate::fault::is_gone;

/// How long the first creation of a record waits for the answer at most.
const LIMIT: Duration = Duration::from_secs(3);

/// The owner of what this client creates.
pub(crate) struct Owner {
    pod: Option<String>,
    known: OnceCell<Option<OwnerReference>>,
}

impl Owner {
    /// The controller of this pod; none without one.
    pub(crate) fn of(pod: Option<String>) -> Owner {
        Owner { pod, known: OnceCell::new() }
    }

    /// The owner. A failure that may pass is asked about again the next time.
    pub(crate) async fn reference(&self, client: &Client, namespace: &str) -> Option<OwnerReference> {
        let pod = self.pod.as_deref()?;
        let asked = self.known.get_or_try_init(|| async move {
            tokio::time::timeout(LIMIT, workload(client, namespace, pod)).await.map_err(|_| ())?
        });
        asked.await.ok().cloned().flatten()
    }
}

/// The controller of a pod. A ReplicaSet is replaced at every roll-out: its Deployment is what lasts.
async fn workload(client: &Client, namespace: &str, pod: &str) -> Result<Option<OwnerReference>, ()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let Some(owner) = controller(final_answer(pods.get_metadata(pod).await.map(|pod| pod.metadata))?) else {
        return Ok(None);
    };
    if owner.kind != "ReplicaSet" {
        return Ok(Some(reference(owner)));
    }
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let set = final_answer(sets.get_metadata(&owner.name).await.map(|set| set.metadata))?;
    let (stands_alone, above) = (set.is_some(), controller(set));
    Ok(match above {
        Some(above) => Some(reference(above)),
        // Not made by a Deployment, it is what lasts. Not known, it may be replaced at any time.
        None if stands_alone => Some(reference(owner)),
        None => None,
    })
}

/// What was found, nothing if it never will be, or an error that may pass.
fn final_answer(answer: kube::Result<ObjectMeta>) -> Result<Option<ObjectMeta>, ()> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if is_gone(&status) || status.code == 403 => Ok(None),
        Err(_) => Err(()),
    }
}

fn controller(object: Option<ObjectMeta>) -> Option<OwnerReference> {
    object?.owner_references?.into_iter().find(|owner| owner.controller == Some(true))
}

/// A reference as one of several owners: it does not control, and nobody's deletion waits for what it owns.
fn reference(owner: OwnerReference) -> OwnerReference {
    OwnerReference { controller: None, block_owner_deletion: None, ..owner }
}
