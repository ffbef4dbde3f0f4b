//! Values that the caller carries over from one run to the next: [`Interpreter::carry`].

use super::instance::Core;
use super::{Interpreter, SignatureRunner, TensorInfo, TensorKey};
use crate::Error;
use crate::runtime::Subgraphs;

impl Core {
    /// Gives the input `input.1` of the subgraph `input.0` the value of the output `output.1` of the subgraph `output.0`.
    fn carry(&mut self, output: (usize, usize), input: (usize, usize)) -> Result<(), Error> {
        let (Some(from), Some(to)) = (self.instances.get(&output.0), self.instances.get(&input.0)) else {
            return Err(Error::usage("a subgraph that is not prepared"));
        };
        from.check_readable(output.1, &format!("output {}", output.1))?;
        to.check_not_bound(input.1)?;
        let value = from.executor.output_size(output.1);
        let (shape, _) = value.ok_or_else(|| super::instance::no_output(output.1))?;
        let made = TensorInfo { shape: shape.clone(), ..from.outputs[output.1].clone() };
        check(&made, output.1, &to.inputs[input.1], input.1)?;
        if output.0 == input.0
            && let Some(instance) = self.instances.get_mut(&output.0)
            && let Some(copied) = instance.executor.carry_on_device(output.1, input.1)?
        {
            self.environment.note_copied(copied);
            return Ok(());
        }
        let Some(from) = self.instances.get_mut(&output.0) else { return Ok(()) };
        let given = from.executor.give_output(output.1)?;
        let (value, copied) = given.ok_or_else(|| super::instance::no_output(output.1))?;
        self.environment.note_copied(copied);
        let Some(to) = self.instances.get_mut(&input.0) else { return Ok(()) };
        let copied = to.executor.carry_input(input.1, value)?;
        self.environment.note_copied(copied);
        Ok(())
    }
}

/// Fails unless an output has the type, the shape and the quantization parameters of an input.
fn check(made: &TensorInfo, output: usize, taken: &TensorInfo, input: usize) -> Result<(), Error> {
    let ends =
        || format!("output {output} (\"{}\") cannot be carried to input {input} (\"{}\")", made.name, taken.name);
    if made.data_type != taken.data_type {
        return Err(Error::usage(format!("{}: it is of type {}, not {}", ends(), made.data_type, taken.data_type)));
    }
    if made.shape != taken.shape {
        return Err(Error::usage(format!("{}: it is of shape {}, not {}", ends(), made.shape, taken.shape)));
    }
    if made.quantization != taken.quantization {
        return Err(Error::usage(format!("{}: its scale or zero point differs; dequantize and quantize it", ends())));
    }
    Ok(())
}

impl Interpreter {
    /// Gives an input of the next run the value of an output of the last one, such as a state or a cache, without copying
    /// it where an operator such as DYNAMIC_UPDATE_SLICE updates it in place.
    ///
    /// Where the GPU runs the whole graph on a device that the delegate opened through Vulkan, the value stays there from the
    /// second time on that the same output is carried to the same input. It comes to the host when the program reads the output
    /// or the input, carries the value elsewhere, or resizes or binds anything.
    ///
    /// The output has no value afterwards, and the run uses up that of the input: before each further run, carry an output
    /// to it or write it. A run that fails uses it up as well, unless the CPU repeats it, and so does one that is cancelled after
    /// a device has begun it.
    /// [`Report::copied_bytes`](crate::Report::copied_bytes) counts what was copied after all: inputs and outputs that no
    /// operator updates or passes on, those of a device where they don't stay there, and values that something else needs
    /// unchanged.
    ///
    /// ```
    /// # fn main() -> Result<(), attache::Error> {
    /// # use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder, model::schema::BuiltinOperator};
    /// # let mut builder = ModelBuilder::new("cache");
    /// # let main = builder.subgraph("main");
    /// # let mut tensor = |name: &str, data_type, shape: &[usize]| {
    /// #     builder.tensor(main, TensorBuilder::new(name, data_type, shape))
    /// # };
    /// # let cache = tensor("cache", DataType::Float32, &[1024, 64]);
    /// # let row = tensor("row", DataType::Float32, &[1, 64]);
    /// # let place = tensor("place", DataType::Int32, &[2]);
    /// # let next = tensor("next", DataType::Float32, &[1024, 64]);
    /// # let update = BuiltinOperator::DYNAMIC_UPDATE_SLICE;
    /// # builder.operator(main, OperatorBuilder::new(update, [cache, row, place], [next]));
    /// # builder.inputs(main, &[cache, row, place]).outputs(main, &[next]);
    /// # let model = attache::Model::from_bytes(builder.finish())?;
    /// # let mut interpreter = attache::Interpreter::builder(&model).build()?;
    /// interpreter.input_mut::<f32>("cache")?.fill(0.0);
    /// for step in 0..3 {
    ///     interpreter.write("row", &[step as f32; 64])?;
    ///     interpreter.write("place", &[step, 0])?;
    ///     interpreter.invoke()?;
    ///     interpreter.carry("next", "cache")?;
    /// }
    /// // Only the first run copied the cache, as the input that was written keeps its value from run to run.
    /// assert!(interpreter.report().copied_bytes < 2 * 1024 * 64 * 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no such output or input, if their types, shapes or quantization parameters differ, if the output has no
    /// value, or if one of them is bound to memory on a device.
    pub fn carry(&mut self, output: impl TensorKey, input: impl TensorKey) -> Result<(), Error> {
        let (output, input, main) = (self.find_output(&output)?, self.find_input(&input)?, self.main);
        self.core_mut().carry((main, output), (main, input))
    }
}

impl SignatureRunner<'_> {
    /// Gives an input of the next run of the signature the value of an output of the last one, as [`Interpreter::carry`]
    /// does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::carry`].
    pub fn carry(&mut self, output: impl TensorKey, input: impl TensorKey) -> Result<(), Error> {
        let (output, input, subgraph) = (self.find_output(&output)?, self.find_input(&input)?, self.subgraph);
        self.interpreter.core_mut().carry((subgraph, output), (subgraph, input))
    }

    /// Gives an input of another signature, for instance the cache of one that decodes, the value of an output of this
    /// one, as [`Interpreter::carry`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::carry`] and [`Interpreter::signature`].
    pub fn carry_to(&mut self, output: impl TensorKey, signature: &str, input: impl TensorKey) -> Result<(), Error> {
        let (output, subgraph) = (self.find_output(&output)?, self.subgraph);
        let other = self.interpreter.signature(signature)?;
        let (input, to) = (other.find_input(&input)?, other.subgraph);
        self.interpreter.core_mut().carry((subgraph, output), (to, input))
    }
}
