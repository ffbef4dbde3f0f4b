//! Loads the delegate of a library. `no_external.rs` replaces this module in builds without the feature `external`.

use std::sync::Arc;

use attache::Delegate;
use attache_external::ExternalDelegate;

use crate::arguments::ExternalArguments;
use crate::failure::{Failure, Kind};

/// Loads the delegate that the command line names; `None` if it names none.
pub(super) fn load(arguments: &ExternalArguments) -> Result<Option<Arc<dyn Delegate>>, Failure> {
    let Some(path) = &arguments.external_delegate else { return Ok(None) };
    let options = arguments.external_delegate_option.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    match ExternalDelegate::load(path, &options.collect::<Vec<_>>()) {
        Ok(delegate) => Ok(Some(Arc::new(delegate))),
        Err(error) => Err(Failure::new(Kind::Device, format!("--external-delegate {}: {error}", path.display()))),
    }
}
