//! Grep's `type`: ripgrep's names for kinds of files, as a glob, which is what the worker filters by.

use crate::ToolError;

/// A type's name, the endings of its files, and whole names that have none of these.
type FileType = (&'static str, &'static [&'static str], &'static [&'static str]);

const FILE_TYPES: &[FileType] = &[
    ("asm", &["asm", "s", "S"], &[]),
    ("bazel", &["bazel", "bzl"], &["BUILD", "WORKSPACE"]),
    ("c", &["c", "h", "H", "cats"], &[]),
    ("clojure", &["clj", "cljc", "cljs", "cljx"], &[]),
    ("cmake", &["cmake"], &["CMakeLists.txt"]),
    ("cpp", &["cpp", "cc", "cxx", "C", "h", "hpp", "hh", "hxx", "H", "inl"], &[]),
    ("cs", &["cs"], &[]),
    ("csharp", &["cs"], &[]),
    ("css", &["css", "scss"], &[]),
    ("csv", &["csv"], &[]),
    ("dart", &["dart"], &[]),
    ("docker", &[], &["*Dockerfile*"]),
    ("elixir", &["ex", "exs", "eex", "heex", "leex", "livemd"], &[]),
    ("erlang", &["erl", "hrl"], &[]),
    ("fish", &["fish"], &[]),
    ("go", &["go"], &[]),
    ("graphql", &["graphql", "graphqls"], &[]),
    ("h", &["h", "hh", "hpp"], &[]),
    ("haskell", &["hs", "lhs", "cpphs", "c2hs", "hsc"], &[]),
    ("html", &["html", "htm", "ejs"], &[]),
    ("java", &["java", "jsp", "jspx", "properties"], &[]),
    ("js", &["js", "jsx", "mjs", "cjs", "vue"], &[]),
    ("json", &["json", "sarif"], &["composer.lock"]),
    ("julia", &["jl"], &[]),
    ("kotlin", &["kt", "kts"], &[]),
    ("less", &["less"], &[]),
    ("log", &["log"], &[]),
    ("lua", &["lua"], &[]),
    ("make", &["mk", "mak"], &["[Gg][Nn][Uu]makefile", "[Mm]akefile"]),
    ("markdown", &["md", "mdx", "markdown", "mdown", "mkd", "mkdn"], &[]),
    ("md", &["md", "mdx", "markdown", "mdown", "mkd", "mkdn"], &[]),
    ("nix", &["nix"], &[]),
    ("ocaml", &["ml", "mli", "mll", "mly"], &[]),
    ("perl", &["pl", "pm", "perl", "PL", "plh", "plx", "t"], &[]),
    ("php", &["php", "php3", "php4", "php5", "php7", "php8", "pht", "phtml"], &[]),
    ("protobuf", &["proto"], &[]),
    ("ps", &["ps1", "psd1", "psm1", "ps1xml", "cdxml", "psrc", "pssc"], &[]),
    ("py", &["py", "pyi"], &[]),
    ("python", &["py", "pyi"], &[]),
    ("r", &["r", "R", "Rmd", "Rnw"], &[]),
    ("rst", &["rst"], &[]),
    ("ruby", &["rb", "gemspec", "rbw"], &["Gemfile", "Rakefile", "config.ru"]),
    ("rust", &["rs"], &[]),
    ("sass", &["sass", "scss"], &[]),
    ("scala", &["scala", "sbt"], &[]),
    ("sh", &["sh", "bash", "zsh", "ksh", "csh", "tcsh"], &[".bashrc", ".profile", ".zshrc"]),
    ("sql", &["sql", "psql"], &[]),
    ("svelte", &["svelte"], &[]),
    ("swift", &["swift"], &[]),
    ("tex", &["tex", "ltx", "cls", "sty", "bib", "dtx", "ins"], &[]),
    ("tf", &["tf", "tfvars", "hcl"], &[]),
    ("toml", &["toml"], &["Cargo.lock"]),
    ("ts", &["ts", "tsx", "cts", "mts"], &[]),
    ("txt", &["txt"], &[]),
    ("typescript", &["ts", "tsx", "cts", "mts"], &[]),
    ("vim", &["vim", "vimrc"], &[".vimrc"]),
    ("vue", &["vue"], &[]),
    ("xml", &["xml", "xsl", "xslt", "xsd", "xjb", "rng", "sch", "xhtml", "dtd"], &[]),
    ("yaml", &["yaml", "yml"], &[]),
    ("zig", &["zig"], &[]),
];

/// The glob of this type's files, narrowed by another glob if there is one.
pub(super) fn glob(name: &str, narrowed: Option<&str>) -> Result<String, ToolError> {
    let Some((_, endings, names)) = FILE_TYPES.iter().find(|(known, ..)| *known == name) else {
        let known: Vec<&str> = FILE_TYPES.iter().map(|(name, ..)| *name).collect();
        return Err(ToolError::Business(format!(
            "type {name:?} is not known: use glob, or one of {}",
            known.join(", ")
        )));
    };
    let ending = format!(".{{{}}}", endings.join(","));
    let Some(narrowed) = narrowed else {
        let all = endings.iter().map(|ending| format!("*.{ending}"));
        let all: Vec<String> = all.chain(names.iter().map(|name| (*name).to_owned())).collect();
        return Ok(format!("{{{}}}", all.join(",")));
    };
    let has_ending = narrowed.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending));
    if has_ending {
        return Ok(narrowed.to_owned());
    }
    // Two globs have no common one in general; these are the cases in which they do.
    let open = !endings.is_empty() && !narrowed.starts_with('!');
    match narrowed.strip_suffix("**").or(narrowed.ends_with('/').then_some(narrowed)) {
        Some(folder) if open => Ok(format!("{folder}**/*{ending}")),
        None if open && narrowed.ends_with('*') && !narrowed.ends_with(".*") => {
            Ok(format!("{narrowed}{ending}"))
        }
        None if open && narrowed.ends_with(".*") => {
            Ok(format!("{}{ending}", narrowed.trim_end_matches(".*")))
        }
        _ => Err(ToolError::Business(format!(
            "glob {narrowed:?} and type {name:?} cannot be combined: leave type out, and write its ending into the glob"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 10.4
    #[test]
    fn a_type_is_a_glob_and_narrows_another() {
        for (name, narrowed, expected) in [
            ("rust", None, "{*.rs}"),
            ("make", None, "{*.mk,*.mak,[Gg][Nn][Uu]makefile,[Mm]akefile}"),
            ("ts", Some("src/**"), "src/**/*.{ts,tsx,cts,mts}"),
            ("rust", Some("src/"), "src/**/*.{rs}"),
            ("rust", Some("test_*"), "test_*.{rs}"),
            ("rust", Some("lib.*"), "lib.{rs}"),
            ("rust", Some("*.rs"), "*.rs"),
        ] {
            assert_eq!(glob(name, narrowed).unwrap(), expected, "{name} {narrowed:?}");
        }
        for (name, narrowed) in [("rust", "*.py"), ("rust", "!src"), ("docker", "src/**")] {
            let error = glob(name, Some(narrowed)).unwrap_err().to_string();
            assert!(error.contains("cannot be combined"), "{error}");
        }
        let error = glob("rsut", None).unwrap_err().to_string();
        assert!(error.contains("\"rsut\"") && error.contains("rust"), "{error}");
    }
}
