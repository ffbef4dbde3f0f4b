//! Parameter structs that have arrays where the file has lists.

use std::ffi::c_int;

use attache::model::schema;

use super::{BuiltinData, Params};
use crate::params::*;

impl Params for TfLiteReshapeParams {
    type Table = schema::ReshapeOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        Some(schema::ReshapeOptionsT { new_shape: Some(list(&self.shape, self.num_dimensions)?) })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let (shape, num_dimensions) = array(table.new_shape.as_deref())?;
        BuiltinData::new(&Self { shape, num_dimensions })
    }
}

impl Params for TfLiteSqueezeParams {
    type Table = schema::SqueezeOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        Some(schema::SqueezeOptionsT { squeeze_dims: Some(list(&self.squeeze_dims, self.num_squeeze_dims)?) })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let (squeeze_dims, num_squeeze_dims) = array(table.squeeze_dims.as_deref())?;
        BuiltinData::new(&Self { squeeze_dims, num_squeeze_dims })
    }
}

impl Params for TfLiteStablehloCaseParams {
    type Table = schema::StablehloCaseOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        let branches = list(&self.branch_subgraph_indices, c_int::try_from(self.num_branches).ok()?)?;
        Some(schema::StablehloCaseOptionsT { branch_subgraph_indices: Some(branches) })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let (branch_subgraph_indices, branches) = array(table.branch_subgraph_indices.as_deref())?;
        BuiltinData::new(&Self { branch_subgraph_indices, num_branches: branches as u32 })
    }
}

impl Params for TfLiteStablehloGatherParams {
    type Table = schema::StablehloGatherOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        Some(schema::StablehloGatherOptionsT {
            offset_dims: Some(list(&self.offset_dims, self.num_offset_dims)?),
            collapsed_slice_dims: Some(list(&self.collapsed_slice_dims, self.num_collapsed_slice_dims)?),
            start_index_map: Some(list(&self.start_index_map, self.num_start_index_map)?),
            index_vector_dim: self.index_vector_dim,
            slice_sizes: Some(list(&self.slice_sizes, self.num_slice_sizes)?),
            indices_are_sorted: self.indices_are_sorted,
        })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let (offset_dims, num_offset_dims) = array(table.offset_dims.as_deref())?;
        let (collapsed_slice_dims, num_collapsed_slice_dims) = array(table.collapsed_slice_dims.as_deref())?;
        let (start_index_map, num_start_index_map) = array(table.start_index_map.as_deref())?;
        let (slice_sizes, num_slice_sizes) = array(table.slice_sizes.as_deref())?;
        BuiltinData::new(&Self {
            offset_dims,
            num_offset_dims,
            collapsed_slice_dims,
            num_collapsed_slice_dims,
            start_index_map,
            num_start_index_map,
            index_vector_dim: table.index_vector_dim,
            slice_sizes,
            num_slice_sizes,
            indices_are_sorted: table.indices_are_sorted,
        })
    }
}

impl Params for TfLiteStablehloPadParams {
    type Table = schema::StablehloPadOptionsT;

    unsafe fn to_file(&self, rank: usize) -> Option<Self::Table> {
        let of_axes = |array: &[i64; 8]| Some(array.get(..rank)?.to_vec());
        Some(schema::StablehloPadOptionsT {
            edge_padding_low: Some(of_axes(&self.edge_padding_low)?),
            edge_padding_high: Some(of_axes(&self.edge_padding_high)?),
            interior_padding: Some(of_axes(&self.interior_padding)?),
        })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        BuiltinData::new(&Self {
            edge_padding_low: array(table.edge_padding_low.as_deref())?.0,
            edge_padding_high: array(table.edge_padding_high.as_deref())?.0,
            interior_padding: array(table.interior_padding.as_deref())?.0,
        })
    }
}

impl Params for TfLiteStablehloReduceWindowParams {
    type Table = schema::StablehloReduceWindowOptionsT;

    unsafe fn to_file(&self, rank: usize) -> Option<Self::Table> {
        let of_axes = |array: &[i64; 8]| Some(array.get(..rank)?.to_vec());
        Some(schema::StablehloReduceWindowOptionsT {
            window_dimensions: Some(of_axes(&self.window_dimensions)?),
            window_strides: Some(of_axes(&self.window_strides)?),
            base_dilations: Some(of_axes(&self.base_dilations)?),
            window_dilations: Some(of_axes(&self.window_dilations)?),
            padding: Some(self.padding.get(..2 * rank)?.to_vec()),
            body_subgraph_index: self.body_subgraph_index,
        })
    }

    /// Lists that the file leaves out are ones, and zeros of the padding.
    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let ones = vec![1; table.window_dimensions.as_ref().map_or(0, Vec::len)];
        let or_ones = |list: &Option<Vec<i64>>| Some(array(Some(list.as_ref().unwrap_or(&ones)))?.0);
        BuiltinData::new(&Self {
            window_dimensions: array(table.window_dimensions.as_deref())?.0,
            window_strides: or_ones(&table.window_strides)?,
            base_dilations: or_ones(&table.base_dilations)?,
            window_dilations: or_ones(&table.window_dilations)?,
            padding: array(table.padding.as_deref())?.0,
            body_subgraph_index: table.body_subgraph_index,
        })
    }
}

impl Params for TfLiteStablehloScatterParams {
    type Table = schema::StablehloScatterOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        let of_operand = list(&self.scatter_dims_to_operand_dims, self.num_scatter_dims_to_operand_dims)?;
        Some(schema::StablehloScatterOptionsT {
            indices_are_sorted: self.indices_are_sorted,
            update_window_dims: Some(list(&self.update_window_dims, self.num_update_window_dims)?),
            inserted_window_dims: Some(list(&self.inserted_window_dims, self.num_inserted_window_dims)?),
            scatter_dims_to_operand_dims: Some(of_operand),
            index_vector_dim: self.index_vector_dim,
            unique_indices: self.unique_indices,
            update_computation_subgraph_index: self.update_computation_subgraph_index,
        })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let (update_window_dims, num_update_window_dims) = array(table.update_window_dims.as_deref())?;
        let (inserted_window_dims, num_inserted_window_dims) = array(table.inserted_window_dims.as_deref())?;
        let (of_operand, count) = array(table.scatter_dims_to_operand_dims.as_deref())?;
        BuiltinData::new(&Self {
            indices_are_sorted: table.indices_are_sorted,
            update_window_dims,
            num_update_window_dims,
            inserted_window_dims,
            num_inserted_window_dims,
            scatter_dims_to_operand_dims: of_operand,
            num_scatter_dims_to_operand_dims: count,
            index_vector_dim: table.index_vector_dim,
            unique_indices: table.unique_indices,
            update_computation_subgraph_index: table.update_computation_subgraph_index,
        })
    }
}

/// Returns the elements in use of an array of C; `None` if it has fewer.
fn list<T: Copy>(array: &[T], count: c_int) -> Option<Vec<T>> {
    Some(array.get(..usize::try_from(count).ok()?)?.to_vec())
}

/// Returns a list as an array of C and the number of its elements in use; `None` if it is too long.
fn array<T: Copy + Default, const N: usize>(list: Option<&[T]>) -> Option<([T; N], c_int)> {
    let (list, mut array) = (list.unwrap_or_default(), [T::default(); N]);
    array.get_mut(..list.len())?.copy_from_slice(list);
    Some((array, list.len() as c_int))
}
