//! What the command line gives a model for inputs: arrays and pictures.

use std::path::Path;

use attache::{Interpreter, Model};
use clap::Args;

use crate::arguments::assign;
use crate::failure::Failure;
use crate::npy;
use crate::picture::{Picture, Scaling};
use crate::random::Random;

// A comment on this structure would replace the descriptions of the commands that take it.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputArguments {
    /// A .npy file or a picture (PNG, JPEG) for an input, by order or by name; inputs without one are random
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<String>,
    /// What is subtracted from a picture's values, 0 to 255 [default: as the model says, else 127.5]
    #[arg(long, value_name = "X", requires = "std", allow_hyphen_values = true)]
    mean: Option<f32>,
    /// What a picture's values are then divided by [default: as the model says, else 127.5]
    #[arg(long, value_name = "Y", requires = "mean")]
    std: Option<f32>,
    /// Seed of random inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

impl InputArguments {
    /// Sets the inputs for which there are files, and returns the others.
    pub(crate) fn fill(&self, model: &Model, interpreter: &mut Interpreter) -> Result<Vec<usize>, Failure> {
        let count = interpreter.inputs().len();
        let files = assign(&self.input, count, |name| interpreter.input_index(name))?;
        for (index, file) in &files {
            self.fill_from(model, interpreter, *index, Path::new(file))?;
        }
        Ok((0..count).filter(|index| files.iter().all(|(input, _)| input != index)).collect())
    }

    fn fill_from(&self, model: &Model, to: &mut Interpreter, index: usize, file: &Path) -> Result<(), Failure> {
        let is_array = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
        let info = &to.inputs()[index];
        let array = match is_array {
            true => npy::read(file)?,
            false => {
                let picture = Picture::read(file)?;
                let tensor = picture.tensor(&info.shape, info.data_type, &self.scaling(model, index)?);
                tensor.map_err(|failure| failure.at(file.display()))?
            }
        };
        if array.data_type != info.data_type {
            let reason = format!("the array is of type {}, the input of type {}", array.data_type, info.data_type);
            return Err(Failure::usage(reason).at(file.display()));
        }
        if array.shape != info.shape {
            let extents: Vec<_> = array.shape.iter().map(usize::to_string).collect();
            let reason = format!("the array has shape {}, input {index} has {}", array.shape, info.shape);
            let remedy = format!("--shape {}={} gives the input the array's", info.name, extents.join(","));
            return Err(Failure::usage(format!("{reason}; {remedy}")).at(file.display()));
        }
        Ok(to.write_bytes(index, &array.bytes)?)
    }

    /// What the command line says, else the model, else −1 to 1.
    fn scaling(&self, model: &Model, index: usize) -> Result<Scaling, Failure> {
        if self.std == Some(0.0) {
            return Err(Failure::usage("--std must not be 0"));
        }
        let flags = self.mean.zip(self.std).map(|(mean, std)| Scaling { mean: vec![mean], std: vec![std] });
        let of_model = || model.normalization(index).map(|own| Scaling { mean: own.mean, std: own.std });
        Ok(flags.or_else(of_model).unwrap_or_default())
    }
}

/// Fills an input with uniform random numbers.
pub(crate) fn fill_at_random(to: &mut Interpreter, index: usize, random: &mut Random) -> Result<(), Failure> {
    fill_with(to, index, |data_type, count| random.bytes(data_type, count))
}

/// Fills an input with random numbers around the middle of what its type holds.
pub(crate) fn fill_around_the_middle(to: &mut Interpreter, index: usize, random: &mut Random) -> Result<(), Failure> {
    fill_with(to, index, |data_type, count| random.gaussian_bytes(data_type, count))
}

fn fill_with(
    to: &mut Interpreter,
    index: usize,
    bytes: impl FnOnce(attache::DataType, usize) -> Option<Vec<u8>>,
) -> Result<(), Failure> {
    let info = &to.inputs()[index];
    let bytes = bytes(info.data_type, info.shape.elements()).ok_or_else(|| {
        Failure::unsupported(format!("input {index} (\"{}\") of type {} can't be filled", info.name, info.data_type))
    })?;
    Ok(to.write_bytes(index, &bytes)?)
}
