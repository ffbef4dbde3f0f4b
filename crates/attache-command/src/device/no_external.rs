//! Replaces `external.rs` in builds without the feature `external`.

use std::sync::Arc;

use attache::Delegate;

use crate::arguments::ExternalArguments;
use crate::failure::Failure;

/// Returns `None`, or an error if the command line names a library.
pub(super) fn load(arguments: &ExternalArguments) -> Result<Option<Arc<dyn Delegate>>, Failure> {
    match arguments.external_delegate {
        Some(_) => Err(Failure::unsupported(
            "--external-delegate: this command was built without the feature `external`; build it with that",
        )),
        None => Ok(None),
    }
}
