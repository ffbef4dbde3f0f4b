//! HASHTABLE, HASHTABLE_IMPORT, HASHTABLE_FIND and HASHTABLE_SIZE: tables of an interpreter that map integers to strings or
//! strings to integers. All operators with the same `table_id` use one table, in whichever subgraphs they are. The first
//! import fills a table for good; of equal keys the first one counts, and of several default values too.

use std::sync::Arc;

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Handle, HashTable, Inferred, OpError, WorkingMemory};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::product;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition { code: Code::Builtin(BuiltinOperator::HASHTABLE), versions: 1..=1, inputs: &[], parse: parse_handle },
    Definition {
        code: Code::Builtin(BuiltinOperator::HASHTABLE_FIND),
        versions: 1..=1,
        inputs: &[input("table").resource(), input("keys").of(&TYPES), input("default_value").of(&TYPES)],
        parse: |_| Ok(Box::new(Find)),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::HASHTABLE_IMPORT),
        versions: 1..=1,
        inputs: &[input("table").resource(), input("keys").of(&TYPES), input("values").of(&TYPES)],
        parse: |_| Ok(Box::new(Import)),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::HASHTABLE_SIZE),
        versions: 1..=1,
        inputs: &[input("table").resource()],
        parse: |_| Ok(Box::new(Size)),
    },
];

/// The types of keys and values, of which one has the first and the other one the second.
const TYPES: [DataType; 2] = [DataType::Int64, DataType::String];

/// Checks that keys and values are of different types.
fn check_types(keys: DataType, values: DataType) -> Result<(), OpError> {
    match (keys, values) {
        (DataType::Int64, DataType::String) | (DataType::String, DataType::Int64) => Ok(()),
        _ => Err(OpError::unsupported(format!(
            "a table from {keys} to {values}; those from INT64 to STRING and from STRING to INT64 are implemented"
        ))),
    }
}

/// HASHTABLE: the handle of a table.
#[derive(Debug)]
struct TableHandle {
    table: i32,
}

fn parse_handle(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_hashtable_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let [keys, values] = [options.key_dtype(), options.value_dtype()].map(|code| DataType::from_code(code.0));
    let unknown = || OpError::invalid("its keys or values are of a type that does not exist");
    check_types(keys.ok_or_else(unknown)?, values.ok_or_else(unknown)?)?;
    Ok(Box::new(TableHandle { table: options.table_id() }))
}

impl Operator for TableHandle {
    fn infer(&self, _: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        Ok(vec![Inferred::new(DataType::Resource, [1])])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let handle = eval.host.table_handle(self.table)?;
        eval.outputs[0].bytes.copy_from_slice(&handle.to_bytes());
        Ok(())
    }
}

/// Returns the table whose handle is the first input.
fn table(eval: &Eval<'_>) -> Result<Option<Arc<HashTable>>, OpError> {
    eval.host.table(Handle::from_bytes(eval.input(0)?.bytes)?)
}

#[derive(Debug)]
struct Import;

impl Operator for Import {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [_, keys, values] = inputs.required();
        check_types(keys.data_type, values.data_type)?;
        if let (Some(keys), Some(values)) = (&keys.shape, &values.shape)
            && keys != values
        {
            return Err(OpError::invalid(format!("keys of shape {keys} and values of shape {values}")));
        }
        Ok(Vec::new())
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        // Pairs and table, with the places of strings.
        Some(WorkingMemory { kept: 0, scratch: product(inputs.fact(1).shape.as_ref()?).saturating_mul(160) })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if table(eval)?.is_some() {
            return Ok(());
        }
        let (keys, values) = (eval.input(1)?, eval.input(2)?);
        let table = match keys.data_type {
            DataType::Int64 => {
                let pairs = keys.values::<i64>()?.iter().copied().zip(values.strings()?.iter().map(<[u8]>::to_vec));
                // Of equal keys the last one would stay, so they are added from the end.
                HashTable::Strings(pairs.collect::<Vec<_>>().into_iter().rev().collect())
            }
            _ => {
                let pairs = keys.strings()?.iter().map(<[u8]>::to_vec).zip(values.values::<i64>()?.iter().copied());
                HashTable::Integers(pairs.collect::<Vec<_>>().into_iter().rev().collect())
            }
        };
        eval.host.set_table(Handle::from_bytes(eval.input(0)?.bytes)?, Arc::new(table))
    }
}

#[derive(Debug)]
struct Find;

impl Operator for Find {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [_, keys, default] = inputs.required();
        check_types(keys.data_type, default.data_type)?;
        if let Some(shape) = default.shape.as_ref().filter(|shape| shape.checked_elements() == Some(0)) {
            return Err(OpError::invalid(format!("a default value of shape {shape}; it must have an element")));
        }
        Ok(vec![Inferred { data_type: default.data_type, shape: keys.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (keys, default) = (eval.input(1)?, eval.input(2)?);
        let table = table(eval)?.ok_or_else(|| OpError::invalid("the table is read before it is filled"))?;
        match (&*table, keys.data_type) {
            (HashTable::Strings(entries), DataType::Int64) => {
                let default = default.strings()?.get(0);
                let found = keys.values::<i64>()?.iter().map(|key| entries.get(key).map_or(default, Vec::as_slice));
                eval.set_strings(0, found)
            }
            (HashTable::Integers(entries), DataType::String) => {
                let missing = || OpError::invalid("the default value has no element");
                let (keys, default) = (keys.strings()?, *default.values::<i64>()?.first().ok_or_else(missing)?);
                let places = eval.outputs[0].values::<i64>()?.iter_mut().zip(keys.iter());
                places.for_each(|(to, key)| *to = entries.get(key).copied().unwrap_or(default));
                Ok(())
            }
            (_, data_type) => Err(OpError::invalid(format!("the table has no keys of type {data_type}"))),
        }
    }
}

#[derive(Debug)]
struct Size;

impl Operator for Size {
    fn infer(&self, _: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        Ok(vec![Inferred::new(DataType::Int64, [1])])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let size = table(eval)?.map_or(0, |table| table.len());
        eval.outputs[0].values::<i64>()?.fill(size as i64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn one_type_is_a_string() {
        let infer = |operator: &dyn Operator, index: usize, keys: Fact, values: Fact| {
            let handle = Fact::new(DataType::Resource, [1]);
            DEFINITIONS[index].infer(operator, &[Some(&handle), Some(&keys), Some(&values)])
        };
        let integers = |shape: &[usize]| Fact::new(DataType::Int64, shape);
        let strings = |shape: &[usize]| Fact::new(DataType::String, shape);
        assert_eq!(infer(&Import, 2, integers(&[3]), strings(&[3])).unwrap(), []);
        assert!(matches!(infer(&Import, 2, integers(&[3]), integers(&[3])), Err(OpError::Unsupported(_))));
        assert!(matches!(infer(&Import, 2, strings(&[6]), integers(&[2, 3])), Err(OpError::Invalid(_))));
        let found = infer(&Find, 1, strings(&[2, 3]), integers(&[1])).unwrap();
        assert_eq!(found, [Inferred::new(DataType::Int64, [2, 3])]);
        assert!(matches!(infer(&Find, 1, strings(&[2]), integers(&[0])), Err(OpError::Invalid(_))));
    }
}
