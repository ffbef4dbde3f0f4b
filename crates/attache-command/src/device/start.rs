//! [`Started`], a model that was read while its device was opened.

use std::time::Instant;

use attache::Model;

use super::Device;
use crate::arguments::DeviceArguments;
use crate::failure::Failure;
use crate::io::source::Source;
use crate::measure::timing::milliseconds;

/// A model and the device that it is to run on, and how long it took to get them.
pub(crate) struct Started {
    pub(crate) model: Model,
    pub(crate) device: Device,
    /// When reading and opening began.
    begin: Instant,
    /// When there was nothing left to do but to prepare the model.
    ready: Instant,
    read: f64,
}

/// The time until the first run is possible, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartUp {
    /// Reading the file, while the device is opened on another thread.
    pub(crate) read: f64,
    /// From the bytes of the file to an interpreter, without the search for a device and its opening.
    pub(crate) init: f64,
    /// From the start of reading and opening to an interpreter: what goes on side by side counts once.
    pub(crate) ready: f64,
}

impl Started {
    /// Reads a model and opens a device beside it.
    pub(crate) fn of(source: Source, arguments: &DeviceArguments) -> Result<Self, Failure> {
        let name = source.name.clone();
        let begin = Instant::now();
        let opening = Device::open_beside(arguments);
        let start = Instant::now();
        let bytes = source.read()?;
        let read = milliseconds(start);
        let device = opening.wait()?;
        let ready = Instant::now();
        let model = Model::from_shared(bytes).map_err(|error| Failure::from(error).at(&name))?;
        Ok(Self { model, device, begin, ready, read })
    }

    /// Returns the time that passed, to be called when there is an interpreter.
    pub(crate) fn up(&self) -> StartUp {
        StartUp { read: self.read, init: milliseconds(self.ready), ready: milliseconds(self.begin) }
    }
}
