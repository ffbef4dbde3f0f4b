//! Parameter structs that point to texts and lists.

use attache::model::schema;

use super::{BuiltinData, Params};
use crate::params::*;
use crate::report::{text_from_c, text_of_c};

impl Params for TfLiteBucketizeParams {
    type Table = schema::BucketizeOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        let count = usize::try_from(self.num_boundaries).ok()?;
        let boundaries = match self.boundaries.is_null() || count == 0 {
            true => Vec::new(),
            // SAFETY: the caller states that the pointer leads to as many floats. They are in a file, where they may lie at
            // any address.
            false => (0..count).map(|index| unsafe { self.boundaries.add(index).read_unaligned() }).collect(),
        };
        (boundaries.len() == count).then_some(schema::BucketizeOptionsT { boundaries: Some(boundaries) })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let boundaries = table.boundaries.as_deref().unwrap_or_default();
        let num_boundaries = i32::try_from(boundaries.len()).ok()?;
        let bytes: Vec<u8> = boundaries.iter().flat_map(|boundary| boundary.to_ne_bytes()).collect();
        BuiltinData::with_bytes(&bytes, |floats| Self { num_boundaries, boundaries: floats.cast() })
    }
}

impl Params for TfLiteStablehloCompositeParams {
    type Table = schema::StableHLOCompositeOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        let attributes = match self.attributes.is_null() || self.attributes_size == 0 {
            true => Vec::new(),
            // SAFETY: the caller states that the pointer leads to as many bytes.
            false => unsafe { std::slice::from_raw_parts(self.attributes, self.attributes_size) }.to_vec(),
        };
        Some(schema::StableHLOCompositeOptionsT {
            // SAFETY: the caller states that the pointer is null or leads to a text.
            name: unsafe { text_from_c(self.name) }.map(str::to_owned),
            decomposition_subgraph_index: self.subgraph_index,
            composite_attributes: (!attributes.is_empty()).then_some(attributes),
            version: self.version,
            ..Default::default()
        })
    }

    /// The attributes are null if the file has none.
    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let name = text_of_c(table.name.as_deref().unwrap_or_default()).into_bytes_with_nul();
        let attributes = table.composite_attributes.as_deref().unwrap_or_default();
        BuiltinData::with_bytes(&[&name, attributes].concat(), |bytes| Self {
            name: bytes.cast(),
            subgraph_index: table.decomposition_subgraph_index,
            version: table.version,
            attributes: if attributes.is_empty() { std::ptr::null() } else { bytes.wrapping_add(name.len()) },
            attributes_size: attributes.len(),
        })
    }
}

impl Params for TfLiteVarHandleParams {
    type Table = schema::VarHandleOptionsT;

    unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
        // SAFETY: the caller states that the pointers are null or lead to texts.
        let [container, shared_name] =
            [self.container, self.shared_name].map(|text| unsafe { text_from_c(text) }.map(str::to_owned));
        Some(schema::VarHandleOptionsT { container, shared_name })
    }

    fn data_of(table: &Self::Table) -> Option<BuiltinData> {
        let text = |text: &Option<String>| text_of_c(text.as_deref().unwrap_or_default()).into_bytes_with_nul();
        let (container, shared_name) = (text(&table.container), text(&table.shared_name));
        BuiltinData::with_bytes(&[&container[..], &shared_name].concat(), |bytes| Self {
            container: bytes.cast(),
            shared_name: bytes.wrapping_add(container.len()).cast(),
        })
    }
}
