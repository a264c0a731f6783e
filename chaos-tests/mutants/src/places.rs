//! The places in a file where mutants can be. cargo-mutants names them by line and column; a switch
//! also needs their parts.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Result;
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Block, Expr, Member, Pat, ReturnType, Signature, Type, UnOp};

use crate::listed::{Genre, Position};

/// A byte range of the file.
pub(crate) type ByteRange = Range<usize>;

#[derive(Debug, Clone)]
pub(crate) enum MutationPlace {
    /// The statements of a function.
    Body {
        all: ByteRange,
        /// True if the function returns an iterator whose type has no name.
        iterator: bool,
    },
    /// Two operands and the operator between them.
    Binary {
        left: ByteRange,
        operator: ByteRange,
        right: ByteRange,
        /// True if it binds names, so that it can stand nowhere else.
        binds: bool,
    },
    /// An operator before its operand.
    Unary { all: ByteRange, operand: ByteRange },
    /// The pattern of an arm.
    Arm(ByteRange),
    /// The guard of an arm.
    Guard(ByteRange),
    /// A field of a struct that has a base.
    Field {
        all: ByteRange,
        /// Includes the comma behind the field.
        field: ByteRange,
    },
}

#[derive(Debug, Default)]
pub(crate) struct MutationPlaces {
    /// Places by genre and position, as cargo-mutants names them.
    pub(crate) by_start: BTreeMap<(Genre, Position), MutationPlace>,
    /// `const` functions: they may run at compile time, where no switch can be.
    pub(crate) const_functions: Vec<ByteRange>,
    /// Constants, where no switch can be.
    pub(crate) constants: Vec<ByteRange>,
}

/// Finds the places of a file.
///
/// # Errors
/// It is not Rust.
pub(crate) fn find(source: &str) -> Result<MutationPlaces> {
    let mut places = MutationPlaces::default();
    places.visit_file(&syn::parse_file(source)?);
    Ok(places)
}

fn position(span: Span) -> Position {
    let start = span.start();
    Position {
        line: start.line,
        column: start.column + 1,
    }
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl MutationPlaces {
    fn add(&mut self, genre: Genre, span: Span, place: MutationPlace) {
        self.by_start.insert((genre, position(span)), place);
    }

    fn add_function(&mut self, signature: &Signature, block: &Block) {
        let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) else {
            return;
        };
        let all = first.span().byte_range().start..last.span().byte_range().end;
        if signature.constness.is_some() {
            self.const_functions.push(all.clone());
        }
        let iterator = matches!(&signature.output, ReturnType::Type(_, kind) if matches!(**kind, Type::ImplTrait(_)));
        self.add(
            Genre::FnValue,
            first.span(),
            MutationPlace::Body { all, iterator },
        );
    }
}

impl<'ast> Visit<'ast> for MutationPlaces {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add_function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add_function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add_function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constants.push(item.span().byte_range());
        visit::visit_item_const(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constants.push(item.span().byte_range());
        visit::visit_impl_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constants.push(item.span().byte_range());
        visit::visit_item_static(self, item);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        let place = MutationPlace::Binary {
            left: expr.left.span().byte_range(),
            operator: expr.op.span().byte_range(),
            right: expr.right.span().byte_range(),
            binds: has_let(&expr.left) || has_let(&expr.right),
        };
        self.add(Genre::BinaryOperator, expr.op.span(), place);
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if matches!(expr.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let all = expr.span().byte_range();
            let operand = expr.expr.span().byte_range();
            self.add(
                Genre::UnaryOperator,
                expr.op.span(),
                MutationPlace::Unary { all, operand },
            );
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        // Without such an arm, removing another leaves cases without an arm.
        let complete = expr
            .arms
            .iter()
            .any(|arm: &Arm| arm.guard.is_none() && matches!(arm.pat, Pat::Wild(_)));
        for arm in &expr.arms {
            match &arm.guard {
                Some((_, guard)) => {
                    let place = MutationPlace::Guard(guard.span().byte_range());
                    self.add(Genre::MatchArmGuard, guard.span(), place);
                }
                None if !complete => {}
                None => {
                    let place = MutationPlace::Arm(arm.pat.span().byte_range());
                    self.add(Genre::MatchArm, arm.span(), place);
                }
            }
        }
        visit::visit_expr_match(self, expr);
    }

    fn visit_expr_struct(&mut self, expr: &'ast syn::ExprStruct) {
        if expr.rest.is_some() {
            for pair in expr.fields.pairs() {
                let field = pair.value();
                let comma = pair.punct();
                let start = field.span().byte_range();
                let end = comma.map_or(start.end, |comma| comma.span().byte_range().end);
                if matches!(field.member, Member::Named(_)) {
                    let place = MutationPlace::Field {
                        all: expr.span().byte_range(),
                        field: start.start..end,
                    };
                    self.add(Genre::StructField, field.span(), place);
                }
            }
        }
        visit::visit_expr_struct(self, expr);
    }
}
