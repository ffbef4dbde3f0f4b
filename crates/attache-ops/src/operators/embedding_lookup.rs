//! EMBEDDING_LOOKUP: the rows of a table that a list of indices selects. Where the table holds quantized integers and the
//! output floats, the rows are dequantized.

use attache_base::{DataType, Quantization, Shape, small_integers};
use attache_gpu_ir::Expression::{Constant as Number, Input};
use attache_gpu_ir::{Gather, Primitive, ValueId};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, TensorRef, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::block_scales::BlockScales;
use crate::shared::quantized::Channels;
use crate::shared::support::{countable, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::EMBEDDING_LOOKUP),
    versions: 1..=5,
    inputs: &[input("ids").of(&[DataType::Int32]), input("params").blockwise_too()],
    parse,
}];

/// Types of tables that are dequantized.
const STORED: [DataType; 4] = [DataType::Int8, DataType::UInt8, DataType::Int4, DataType::Int2];

#[derive(Debug)]
struct EmbeddingLookup {
    /// The type of the output's elements.
    data_type: DataType,
    /// The scales of a table that is quantized by blocks.
    blocks: Option<BlockScales>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let output = declaration.outputs.first().ok_or_else(|| OpError::invalid("it has no output"))?;
    Ok(Box::new(EmbeddingLookup { data_type: output.data_type, blocks: BlockScales::of(declaration, 1)? }))
}

/// Returns the scales of a table's rows, or the only one.
fn scales(data_type: DataType, quantization: Option<&Quantization>, shape: &Shape) -> Result<Vec<f32>, OpError> {
    // The bounds of the types of less than 8 bits do not matter, because zero points have to be 0.
    let channels = Channels::new(DataType::Int8, quantization, shape)?;
    if quantization.is_some_and(|one| one.scale.len() > 1 && one.axis != 0) {
        return Err(OpError::unsupported("scales along another axis than that of the rows"));
    }
    match channels.each().iter().find(|affine| affine.zero_point != 0) {
        Some(affine) => {
            let point = affine.zero_point;
            Err(OpError::unsupported(format!(
                "a table of type {data_type} with the zero point {point}, which must be 0"
            )))
        }
        None => Ok(channels.each().iter().map(|affine| affine.scale).collect()),
    }
}

/// Returns the integers of a row, given by its index.
fn row(table: TensorRef<'_>, row: usize, length: usize) -> Vec<i32> {
    let bits = table.data_type.bits().unwrap_or(8);
    let (first, bytes) = (row * length, table.bytes);
    let places = first * bits / 8..((first + length) * bits).div_ceil(8);
    let (bytes, before) = (&bytes[places.clone()], first - places.start * 8 / bits);
    match small_integers::unpack(table.data_type, bytes, before + length) {
        Some(integers) => integers[before..].iter().map(|value| i32::from(*value)).collect(),
        None if table.data_type == DataType::UInt8 => bytes.iter().map(|byte| i32::from(*byte)).collect(),
        None => bytes.iter().map(|byte| i32::from(*byte as i8)).collect(),
    }
}

impl EmbeddingLookup {
    fn check(&self, table: &Fact) -> Result<(), OpError> {
        let is_whole = table.data_type.bits().is_some_and(|bits| bits % 8 == 0);
        if table.data_type == self.data_type && is_whole {
            return Ok(());
        }
        if self.data_type == DataType::Float32 && STORED.contains(&table.data_type) {
            let Some(shape) = &table.shape else { return Ok(()) };
            if let Some(blocks) = &self.blocks {
                return blocks.check(shape);
            }
            return scales(table.data_type, table.quantization.as_ref(), shape).map(|_| ());
        }
        let (from, to) = (table.data_type, self.data_type);
        Err(OpError::unsupported(format!("rows of type {from} for an output of type {to} are not implemented")))
    }

    /// Adds a constant table of integers, of which the output has the floats, to the program, which keeps the integers; `None`
    /// for any other table.
    fn scaled_table(&self, lowering: &mut Lowering<'_>) -> Result<Option<ValueId>, Unsupported> {
        let (stored, is_float) = (lowering.stored_input(1)?, lowering.output_fact(0)?.data_type == DataType::Float32);
        let Some(shape) = stored.shape.as_ref().filter(|_| is_float && STORED.contains(&stored.data_type)) else {
            return Ok(None);
        };
        let scales = match &self.blocks {
            Some(blocks) => Ok(blocks.scales.clone()),
            None => scales(stored.data_type, stored.quantization.as_ref(), shape),
        };
        Ok(scales.ok().and_then(|scales| lowering.scaled_constant(1, shape, &scales)))
    }
}

fn output(ids: &Shape, table: &Shape) -> Result<Shape, OpError> {
    if ids.rank() != 1 {
        return Err(OpError::invalid(format!("the indices of shape {ids} are not a list")));
    }
    if table.rank() < 2 {
        return Err(OpError::invalid(format!("the table of shape {table} has no rows")));
    }
    countable([&ids[..], &table[1..]].concat().into())
}

/// Returns the indices as positions among `rows` rows; fails where one is out of range.
fn positions(ids: &[i64], rows: usize) -> Result<Vec<usize>, OpError> {
    let inside = |id: &i64| usize::try_from(*id).ok().filter(|id| *id < rows).ok_or(*id);
    let positions = ids.iter().map(inside).collect::<Result<_, _>>();
    positions.map_err(|id| OpError::invalid(format!("index {id} in a table of {rows} rows")))
}

impl Operator for EmbeddingLookup {
    /// The scales of blocks, which may be many, make no text: with them nothing is kept.
    #[cfg(not(attache_small))]
    fn attributes(&self) -> Option<String> {
        self.blocks.is_none().then(|| format!("{self:?}"))
    }

    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [ids, table] = inputs.required();
        self.check(table)?;
        let (Some(ids), Some(table)) = (&ids.shape, &table.shape) else {
            return Ok(vec![Inferred::unknown(self.data_type)]);
        };
        Ok(vec![Inferred::new(self.data_type, output(ids, table)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (ids, table) = (eval.input(0)?, eval.input(1)?);
        let positions = positions(&ids.integers()?, table.shape[0])?;
        let length = table.shape[1..].iter().product::<usize>();
        let output = &mut eval.outputs[0];
        if table.data_type == self.data_type {
            let size = length * table.data_type.bits().unwrap_or(8) / 8;
            for (position, target) in positions.iter().zip(output.bytes.chunks_exact_mut(size)) {
                target.copy_from_slice(&table.bytes[position * size..][..size]);
            }
            return Ok(());
        }
        let stated;
        let (block, scales) = match &self.blocks {
            Some(blocks) => {
                blocks.check(table.shape)?;
                (blocks.block, &blocks.scales[..])
            }
            None => match table.quantization {
                // `infer` has checked them.
                Some(quantization) if quantization.scale.len() > 1 && !cfg!(attache_small) => {
                    (length, &quantization.scale[..])
                }
                quantization => {
                    stated = scales(table.data_type, quantization, table.shape)?;
                    (length, &stated[..])
                }
            },
        };
        for (position, target) in positions.iter().zip(output.values::<f32>()?.chunks_exact_mut(length)) {
            let scales = if scales.len() == 1 { scales } else { &scales[position * (length / block)..] };
            let values = row(table, *position, length);
            let blocks = target.chunks_exact_mut(block).zip(values.chunks_exact(block)).zip(scales);
            for ((target, values), scale) in blocks {
                target.iter_mut().zip(values).for_each(|(target, value)| *target = *value as f32 * scale);
            }
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (fact, table) = (lowering.input_fact(1)?, lowering.input_shape(1)?);
        let ids = lowering.input_shape(0)?;
        if let Ok(values) = lowering.integers(0) {
            // Constant indices out of range are refused: a device would clamp them, but the CPU reports the error.
            positions(&values, table[0]).map_err(refuse)?;
        }
        let ids = Shape::from([ids[0], 1]);
        let scaled = self.scaled_table(lowering)?;
        let data = scaled.map_or_else(|| lowering.input(1), Ok)?;
        let indices = lowering.input(0)?;
        let indices = lowering.reshape(indices, &ids)?;
        let rows = lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 0 }), &[data, indices])?;
        if scaled.is_some() || fact.data_type == lowering.output_fact(0)?.data_type {
            return lowering.output(0, rows);
        }
        let scales = scales(fact.data_type, fact.quantization.as_ref(), table).map_err(refuse)?;
        let shape = lowering.output_shape(0)?.clone();
        let [scale] = scales[..] else {
            return Err(Unsupported::new("rows of a table that is not constant with a scale each are not implemented"));
        };
        let output = lowering.map(Input(0).multiply(Number(scale)), &shape, &[rows])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_stand_for_rows() {
        assert_eq!(output(&[5].into(), &[2, 3, 4].into()).unwrap(), Shape::from([5, 3, 4]));
        assert!(output(&[5, 1].into(), &[2, 3].into()).is_err());
        assert!(output(&[5].into(), &[2].into()).is_err());
        assert!(positions(&[0, 2], 2).is_err() && positions(&[-1], 2).is_err());
    }

    #[test]
    fn rows_of_parts_of_bytes() {
        let shape = Shape::from([2, 3]);
        let table =
            |data_type, bytes| TensorRef { data_type, shape: &shape, bytes, quantization: None, is_constant: true };
        assert_eq!(row(table(DataType::Int4, &[0x21, 0xf3, 0x87]), 1, 3), [-1, 7, -8]);
        assert_eq!(row(table(DataType::Int2, &[0x78, 0x0d]), 1, 3), [1, 1, -1]);
    }
}
