//! Switches: the outgoing edges whose conditions are true are taken.

use zen_expression::Scope;

use super::{
    document::Statement,
    program::{Compiler, Machine, Program},
    table::CellError,
};

/// A compiled switch.
#[derive(Clone, Debug)]
pub(super) struct Switch {
    collects: bool,
    statements: Box<[Way]>,
}

#[derive(Clone, Debug)]
struct Way {
    id: Box<str>,
    /// Without a condition, the edge is always taken.
    condition: Option<Program>,
}

impl Switch {
    pub(super) fn compile(
        collects: bool,
        statements: &[Statement],
        compiler: &mut Compiler,
        warnings: &mut Vec<CellError>,
    ) -> Result<Self, Vec<CellError>> {
        let mut flaws = Vec::new();
        let mut ways = Vec::with_capacity(statements.len());
        for (number, statement) in statements.iter().enumerate() {
            let text = Some(&*statement.condition).filter(|text| !text.is_empty());
            let condition = text.map(|text| {
                compiler.standard(text).or_else(|error| {
                    let place = format!("statement {}", number + 1);
                    CellError::or_warning(place, text, &error, warnings)
                })
            });
            match condition.transpose() {
                Ok(condition) => ways.push(Way {
                    id: statement.id.as_str().into(),
                    condition,
                }),
                Err(flaw) => flaws.push(flaw),
            }
        }
        if !flaws.is_empty() {
            return Err(flaws);
        }
        Ok(Self {
            collects,
            statements: ways.into(),
        })
    }

    /// Returns for each statement whether its edges are taken.
    pub(super) fn decide(&self, scope: &Scope, machine: &mut Machine) -> Vec<bool> {
        let mut is_decided = false;
        let gone = self.statements.iter().map(|way| {
            let condition = way.condition.as_ref();
            let is_gone = !is_decided && condition.is_none_or(|condition| machine.is_so(condition, scope));
            is_decided |= is_gone && !self.collects;
            is_gone
        });
        gone.collect()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().map(|way| &*way.id)
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = &Program> {
        self.statements.iter().filter_map(|way| way.condition.as_ref())
    }
}
