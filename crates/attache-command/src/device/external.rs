//! Loads the delegate of a library. `no_external.rs` replaces this module in builds without the feature `external`.

use std::sync::Arc;

use attache::Delegate;
use attache_external::ExternalDelegate;

use crate::arguments::ExternalArguments;
use crate::failure::{Failure, Kind};
use crate::io::files;

/// Loads the delegate that the command line names; `None` if it names none.
pub(super) fn load(arguments: &ExternalArguments) -> Result<Option<Arc<dyn Delegate>>, Failure> {
    let Some(path) = &arguments.external_delegate else { return Ok(None) };
    // A name without a folder is looked for by the system.
    if path.components().nth(1).is_some() {
        files::check(path).map_err(|failure| failure.at("--external-delegate"))?;
    }
    let options = arguments.external_delegate_option.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    match ExternalDelegate::load(path, &options.collect::<Vec<_>>()) {
        Ok(delegate) => Ok(Some(Arc::new(delegate))),
        Err(error) => Err(Failure::new(Kind::Device, format!("--external-delegate {}: {error}", path.display()))),
    }
}
