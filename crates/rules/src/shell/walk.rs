//! The parsed line, from command to command.

use super::variables::{self, Value, assigned, is_harmless};
use super::words::{resolve, scan_arithmetic, scan_document};
use super::{Analysis, Invocation, Redirect, Word, nested};
use brush_parser::ast::{
    AndOr, AndOrList, Assignment, AssignmentName, AssignmentValue, Command,
    CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, ExtendedTestExpr, IoFileRedirectKind,
    IoFileRedirectTarget, IoRedirect, Pipeline, Program, RedirectList, SeparatorOperator,
    SimpleCommand, UnaryPredicate,
};

pub(super) fn program(program: &Program, depth: usize, analysis: &mut Analysis) {
    for item in program.complete_commands.iter().flat_map(|list| &list.0) {
        and_or_list(&item.0, depth, analysis);
        // Only a definition that certainly takes place, in the shell itself, makes its name a function of the rest.
        let certain = item.0.additional.is_empty()
            && matches!(item.1, SeparatorOperator::Sequence)
            && depth == 0;
        if let ([Command::Function(function)], true) = (item.0.first.seq.as_slice(), certain) {
            analysis.functions.insert(function.fname.value.clone());
        }
    }
    // Wherever that stands: in a function's body it takes place when that is called.
    if analysis.unsets && !analysis.functions.is_empty() {
        analysis.doubts.push("unset may take a function away".into());
    }
}

fn compound_list(list: &CompoundList, depth: usize, analysis: &mut Analysis) {
    for item in &list.0 {
        and_or_list(&item.0, depth, analysis);
    }
}

fn and_or_list(list: &AndOrList, depth: usize, analysis: &mut Analysis) {
    pipeline(&list.first, depth, analysis);
    for next in &list.additional {
        let (AndOr::And(next) | AndOr::Or(next)) = next;
        pipeline(next, depth, analysis);
    }
}

fn pipeline(pipeline: &Pipeline, depth: usize, analysis: &mut Analysis) {
    for item in &pipeline.seq {
        command(item, depth, analysis);
    }
}

fn command(command: &Command, depth: usize, analysis: &mut Analysis) {
    match command {
        Command::Simple(simple) => simple_command(simple, depth, analysis),
        Command::Compound(compound, list) => {
            compound_command(compound, depth, analysis);
            redirects(list.as_ref(), depth, analysis);
        }
        Command::Function(function) => {
            analysis.variables.defined(&function.fname.value);
            compound_command(&function.body.0, depth, analysis);
            redirects(function.body.1.as_ref(), depth, analysis);
        }
        Command::ExtendedTest(test, list) => {
            extended_test(&test.expr, depth, analysis);
            redirects(list.as_ref(), depth, analysis);
        }
    }
}

fn compound_command(compound: &CompoundCommand, depth: usize, analysis: &mut Analysis) {
    match compound {
        CompoundCommand::Arithmetic(arithmetic) => {
            let loc = &arithmetic.loc;
            analysis.arithmetic.push((loc.start.index, loc.end.index));
            scan_arithmetic(&arithmetic.expr.value, depth, analysis);
        }
        CompoundCommand::ArithmeticForClause(clause) => {
            for part in
                [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten()
            {
                scan_arithmetic(&part.value, depth, analysis);
            }
            compound_list(&clause.body.list, depth, analysis);
        }
        CompoundCommand::BraceGroup(group) => compound_list(&group.list, depth, analysis),
        CompoundCommand::Subshell(subshell) => compound_list(&subshell.list, depth, analysis),
        CompoundCommand::ForClause(clause) => {
            assigned(&clause.variable_name, analysis);
            let mut values = Vec::new();
            for value in clause.values.iter().flatten() {
                values.push(resolve(&value.value, depth, analysis));
            }
            if clause.values.is_none() {
                values.push(Word { splits: true, ..Word::unknown("$…") });
            }
            analysis.variables.set_to(&clause.variable_name, &values);
            compound_list(&clause.body.list, depth, analysis);
        }
        CompoundCommand::CaseClause(clause) => {
            resolve(&clause.value.value, depth, analysis);
            for case in &clause.cases {
                for pattern in &case.patterns {
                    resolve(&pattern.value, depth, analysis);
                }
                if let Some(list) = &case.cmd {
                    compound_list(list, depth, analysis);
                }
            }
        }
        CompoundCommand::IfClause(clause) => {
            compound_list(&clause.condition, depth, analysis);
            compound_list(&clause.then, depth, analysis);
            for other in clause.elses.iter().flatten() {
                if let Some(condition) = &other.condition {
                    compound_list(condition, depth, analysis);
                }
                compound_list(&other.body, depth, analysis);
            }
        }
        CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
            compound_list(&clause.0, depth, analysis);
            compound_list(&clause.1.list, depth, analysis);
        }
        CompoundCommand::Coprocess(coprocess) => command(&coprocess.body, depth, analysis),
    }
}

fn extended_test(expression: &ExtendedTestExpr, depth: usize, analysis: &mut Analysis) {
    match expression {
        ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
            extended_test(left, depth, analysis);
            extended_test(right, depth, analysis);
        }
        ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
            extended_test(inner, depth, analysis);
        }
        ExtendedTestExpr::UnaryTest(predicate, word) => {
            let word = resolve(&word.value, depth, analysis);
            let names = matches!(
                predicate,
                UnaryPredicate::ShellVariableIsSetAndAssigned
                    | UnaryPredicate::ShellVariableIsSetAndNameRef
            );
            if names && !variables::is_name(&word) {
                analysis.doubts.push(format!("{:?} names a variable that is not known", word.text));
            }
        }
        ExtendedTestExpr::BinaryTest(predicate, left, right) => {
            let numbers = format!("{predicate:?}").starts_with("Arithmetic");
            for word in [left, right] {
                let raw = &word.value;
                let word = resolve(raw, depth, analysis);
                // Numbers are compared as arithmetic, which runs what a subscript holds.
                subscript(&word, analysis);
                if numbers && Value::of(&word) != Value::Number {
                    scan_arithmetic(raw.trim_matches('"'), depth, analysis);
                }
            }
        }
    }
}

/// A text that bash evaluates once more.
fn subscript(word: &Word, analysis: &mut Analysis) {
    if word.text.contains('[') && (word.text.contains("$(") || word.text.contains('`')) {
        analysis
            .doubts
            .push(format!("{:?} is evaluated once more, and may run a command", word.text));
    }
}

fn simple_command(simple: &SimpleCommand, depth: usize, analysis: &mut Analysis) {
    let has_name = simple.word_or_name.is_some();
    for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
        match item {
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                assignment_word(assignment, has_name, depth, analysis);
            }
            other => item_around(other, depth, analysis),
        }
    }
    let mut words = Vec::new();
    if let Some(name) = &simple.word_or_name {
        words.push(resolve(&name.value, depth, analysis));
    }
    for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
        match item {
            CommandPrefixOrSuffixItem::Word(word) => {
                words.push(resolve(&word.value, depth, analysis))
            }
            // `declare x=1`: bash takes it as an assignment, anything else as a word.
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                assignment_values(assignment, depth, analysis);
                let mut word = resolve(&word.value, depth, analysis);
                word.exact &= matches!(assignment.value, AssignmentValue::Scalar(_));
                words.push(word);
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                compound_list(&subshell.list, depth + 1, analysis);
                words.push(Word { maybe_option: false, ..Word::unknown("/dev/fd/…") });
            }
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                io_redirect(redirect, depth, analysis)
            }
        }
    }
    // `time -- rm`: the parser leaves to the command what belongs to `time`.
    while words.len() > 1 && words.first().is_some_and(|word| word.exact && word.text == "--") {
        words.remove(0);
    }
    if words.is_empty() {
        return;
    }
    analysis.variables.called(&words);
    let invocation = Invocation { words, transparent: false };
    // By that very word and in that very shell: neither a path nor a shell that is started anew knows of it.
    let is_function = |word: &Word| word.exact && analysis.functions.contains(&word.text);
    if depth == 0 && invocation.words.first().is_some_and(is_function) {
        // Its body is among the commands already. Its arguments may still be run by it: `$1` in there is a doubt of its own.
        analysis.variables.arguments(invocation.words.get(1..).unwrap_or_default());
        return;
    }
    nested::invocation(invocation, depth, analysis);
}

fn item_around(item: &CommandPrefixOrSuffixItem, depth: usize, analysis: &mut Analysis) {
    match item {
        CommandPrefixOrSuffixItem::IoRedirect(redirect) => io_redirect(redirect, depth, analysis),
        CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
            compound_list(&subshell.list, depth + 1, analysis);
        }
        CommandPrefixOrSuffixItem::Word(word) => {
            resolve(&word.value, depth, analysis);
        }
        CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
            assignment_values(assignment, depth, analysis);
        }
    }
}

/// An assignment before a command is in that command's environment; one that stands alone lasts for the rest of the line.
fn assignment_word(
    assignment: &Assignment,
    for_command: bool,
    depth: usize,
    analysis: &mut Analysis,
) {
    let value = assignment_values(assignment, depth, analysis);
    let name = match &assignment.name {
        AssignmentName::VariableName(name) | AssignmentName::ArrayElementName(name, _) => name,
    };
    analysis.variables.set_to(name, &value);
    if assignment.append {
        analysis.variables.set(name, Value::Text);
    }
    if for_command {
        if !is_harmless(name) {
            analysis.doubts.push(format!("the variable {name} may change what the command does"));
        }
    } else {
        assigned(name, analysis);
    }
}

fn assignment_values(assignment: &Assignment, depth: usize, analysis: &mut Analysis) -> Vec<Word> {
    if let AssignmentName::ArrayElementName(_, index) = &assignment.name {
        scan_arithmetic(index, depth, analysis);
    }
    match &assignment.value {
        AssignmentValue::Scalar(word) => vec![resolve(&word.value, depth, analysis)],
        AssignmentValue::Array(elements) => {
            let mut values = Vec::new();
            for (index, word) in elements {
                if let Some(index) = index {
                    scan_arithmetic(&index.value, depth, analysis);
                }
                values.push(resolve(&word.value, depth, analysis));
            }
            values
        }
    }
}

fn redirects(list: Option<&RedirectList>, depth: usize, analysis: &mut Analysis) {
    for redirect in list.iter().flat_map(|list| &list.0) {
        io_redirect(redirect, depth, analysis);
    }
}

fn io_redirect(redirect: &IoRedirect, depth: usize, analysis: &mut Analysis) {
    match redirect {
        IoRedirect::File(_, kind, target) => {
            let writes =
                !matches!(kind, IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput);
            match target {
                IoFileRedirectTarget::Filename(word) => {
                    let path = resolve(&word.value, depth, analysis);
                    if matches!(kind, IoFileRedirectKind::ReadAndWrite) {
                        analysis.redirects.push(Redirect { path: path.clone(), writes: false });
                    }
                    analysis.redirects.push(Redirect { path, writes });
                }
                IoFileRedirectTarget::Fd(_) => {}
                IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                    compound_list(&subshell.list, depth + 1, analysis);
                }
                IoFileRedirectTarget::Duplicate(word) => {
                    let path = resolve(&word.value, depth, analysis);
                    let digits = path.text.trim_end_matches('-');
                    // `>&file` writes a file; `>&2` and `>&-` do not.
                    if !(path.exact && digits.bytes().all(|byte| byte.is_ascii_digit())) {
                        analysis.redirects.push(Redirect { path, writes });
                    }
                }
            }
        }
        IoRedirect::HereDocument(_, document) => {
            if document.requires_expansion {
                scan_document(&document.doc.value, depth, analysis);
            }
        }
        IoRedirect::HereString(_, word) => {
            resolve(&word.value, depth, analysis);
        }
        IoRedirect::OutputAndError(word, _) => {
            let path = resolve(&word.value, depth, analysis);
            analysis.redirects.push(Redirect { path, writes: true });
        }
    }
}
