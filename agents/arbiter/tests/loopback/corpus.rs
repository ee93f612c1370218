//! Every file of the fuzz targets' corpus, through the functions that the targets run.

use std::path::Path;

use arbiter::parsers::TARGETS;

#[test]
fn every_corpus_file_keeps_the_parsers_promises() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (target, run) in TARGETS {
        let mut count = 0;
        for entry in std::fs::read_dir(corpus.join(target)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let ran = std::panic::catch_unwind(|| run(&bytes));
            assert!(ran.is_ok(), "{}", path.display());
            // Every beginning is an input as well, and so is a changed byte.
            for end in 0..bytes.len().min(2_000) {
                run(&bytes[..end]);
                let mut changed = bytes.clone();
                changed[end] ^= 1 << (end % 8);
                run(&changed);
            }
            count += 1;
        }
        assert!(count > 1, "{target} has a corpus");
    }
}

#[test]
fn every_target_is_in_the_fuzz_crate() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (target, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        let source = std::fs::read_to_string(fuzz.join(format!("targets/{target}.rs"))).unwrap();
        assert!(source.contains(&format!("parsers::{target}")), "{target}");
    }
}
