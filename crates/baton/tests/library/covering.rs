//! What a checkpoint covers: hashed, and compared later.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use baton::covers::{self, Covers, CoversError, Differences, Print};

fn cover(places: &[&Path]) -> Covers {
    let places: Vec<_> = places.iter().map(|place| place.to_path_buf()).collect();
    let looked = covers::look(&places).unwrap();
    looked
        .covers(usize::MAX, |_, _| -> Result<String, CoversError> { unreachable!("there is room") })
        .unwrap()
}

fn below(folder: &Path, paths: &[String]) -> Vec<String> {
    let folder = format!("{}/", fs::canonicalize(folder).unwrap().display());
    paths.iter().map(|path| path.strip_prefix(&folder).unwrap_or(path).to_string()).collect()
}

fn told(folder: &Path, since: &Differences) -> [Vec<String>; 4] {
    let Differences { changed, added, removed, unknown } = since;
    [changed, added, removed, unknown].map(|paths| below(folder, paths))
}

fn git(folder: &Path, arguments: &[&str]) {
    let settings = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"];
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(settings).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null");
    assert!(command.output().unwrap().status.success(), "git {arguments:?}");
}

#[test]
fn a_folder_is_known_by_what_is_in_it() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("w");
    fs::create_dir_all(folder.join("src/deep")).unwrap();
    for (name, text) in
        [("src/a", "1"), ("src/deep/b", "2"), ("c", "3"), ("tool", "4"), ("src/odd\\name", "5")]
    {
        fs::write(folder.join(name), text).unwrap();
    }
    for left_out in [".git/index", ".baton/x", "src/.git/y"] {
        fs::create_dir_all(folder.join(left_out).parent().unwrap()).unwrap();
        fs::write(folder.join(left_out), "x").unwrap();
    }
    // Neither followed nor waited for.
    symlink("/", folder.join("link")).unwrap();
    rustix_fifo(&folder.join("pipe"));
    let covers = cover(&[&folder, &folder.join("c")]);
    assert_eq!(covers.paths, 8, "{covers:?}");
    let since = covers::compare(&covers).unwrap();
    assert!(since.is_empty(), "{since:?}");

    fs::write(folder.join("src/a"), "other").unwrap();
    fs::remove_file(folder.join("src/deep/b")).unwrap();
    fs::write(folder.join("new"), "").unwrap();
    fs::set_permissions(folder.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(folder.join("link")).unwrap();
    symlink("elsewhere", folder.join("link")).unwrap();
    fs::write(folder.join(".baton/x"), "y").unwrap();
    let [changed, added, removed, unknown] = told(&folder, &covers::compare(&covers).unwrap());
    assert_eq!(changed, ["link", "src/a", "tool"]);
    assert_eq!((added, removed, unknown), (vec!["new".to_string()], vec!["src/deep/b".to_string()], vec![]));

    fs::remove_dir_all(&folder).unwrap();
    let since = covers::compare(&covers).unwrap();
    assert_eq!(since.removed.len(), 2, "the places themselves: {since:?}");
}

fn rustix_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_cannot_be_read_is_listed_as_such_and_what_is_too_much_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("secret");
    fs::write(&secret, "s").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let readable = fs::read(&secret).is_ok();
    let covers = cover(&[place.path()]);
    let print = &covers.manifest.as_ref().unwrap().roots[0].entries["secret"];
    // Who is root reads everything.
    assert_eq!(*print == Print::Unreadable, !readable, "{print:?}");
    let since = covers::compare(&covers).unwrap();
    assert_eq!(since.unknown.is_empty(), readable);

    let missing = covers::look(&[place.path().join("missing")]);
    assert!(matches!(missing, Err(CoversError::Place { .. })), "{missing:?}");
    let many = covers::look(&vec![place.path().to_path_buf(); 65]);
    assert!(matches!(many, Err(CoversError::TooMany(65))), "{many:?}");
    let sparse = fs::File::create(place.path().join("sparse")).unwrap();
    sparse.set_len(covers::MAX_BYTES + 1).unwrap();
    let large = covers::look(&[place.path().to_path_buf()]);
    assert!(matches!(large, Err(CoversError::TooMuch { .. })), "{large:?}");
}

#[test]
fn a_large_manifest_lies_elsewhere_and_must_be_the_same() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("w")).unwrap();
    fs::write(place.path().join("w/a"), "1").unwrap();
    let kept = place.path().join("manifest");
    let looked = covers::look(&[place.path().join("w")]).unwrap();
    let keep = |text: &str, _| fs::write(&kept, text).map(|()| kept.display().to_string());
    let covers = looked.covers(10, keep).unwrap();
    assert!(covers.manifest.is_none() && covers.location.is_some());
    assert!(covers::compare(&covers).unwrap().is_empty());
    let whole = fs::read(&kept).unwrap();
    fs::write(&kept, "{\"roots\":[]}").unwrap();
    assert!(matches!(covers::compare(&covers), Err(CoversError::Manifest { .. })));
    fs::write(&kept, whole).unwrap();
    assert!(covers::compare(&covers).unwrap().is_empty());
    // A location that keeps who opens it waiting, one without an end, and one that leads elsewhere.
    let (pipe, link) = (place.path().join("pipe"), place.path().join("link"));
    rustix_fifo(&pipe);
    symlink(&kept, &link).unwrap();
    for odd in [pipe.as_path(), Path::new("/dev/zero"), &link, place.path()] {
        let elsewhere = Covers { location: Some(odd.display().to_string()), ..covers.clone() };
        let refused = covers::compare(&elsewhere);
        assert!(matches!(refused, Err(CoversError::Manifest { .. })), "{odd:?}: {refused:?}");
    }
}

#[test]
fn a_manifest_with_too_many_places_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("manifest");
    let mut looked = covers::look(&[place.path().to_path_buf()]).unwrap();
    looked.manifest.roots = vec![looked.manifest.roots[0].clone(); 65];
    let keep = |text: &str, _| fs::write(&kept, text).map(|()| kept.display().to_string());
    let refused = covers::compare(&looked.covers(10, keep).unwrap());
    assert!(matches!(refused, Err(CoversError::Manifest { .. })), "{refused:?}");
}

#[test]
fn a_link_on_the_way_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (tree, elsewhere) = (place.path().join("tree"), place.path().join("elsewhere"));
    for folder in [&tree, &elsewhere] {
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/a"), "1").unwrap();
        fs::write(folder.join("src/fresh"), "new").unwrap();
    }
    git(&tree, &["init", "-q"]);
    git(&tree, &["add", "src/a"]);
    git(&tree, &["commit", "-qm", "first"]);
    let covers = cover(&[&tree]);
    assert!(covers::compare(&covers).unwrap().is_empty());
    // The same files, but not there.
    fs::remove_dir_all(tree.join("src")).unwrap();
    symlink(elsewhere.join("src"), tree.join("src")).unwrap();
    let [changed, added, removed, unknown] = told(&tree, &covers::compare(&covers).unwrap());
    assert_eq!((changed, added, unknown), (vec![], vec!["src".to_string()], vec![]));
    assert_eq!(removed, ["src/a", "src/fresh"]);
    // Nor is one in the place of the tree itself.
    fs::rename(&tree, place.path().join("moved")).unwrap();
    symlink(place.path().join("moved"), &tree).unwrap();
    let since = covers::compare(&covers).unwrap();
    assert!(!since.is_empty(), "{since:?}");
    // Nor what leads out of it.
    let mut odd = covers;
    let entries = &mut odd.manifest.as_mut().unwrap().roots[0].entries;
    fs::remove_file(&tree).unwrap();
    fs::rename(place.path().join("moved"), &tree).unwrap();
    let fresh = entries["src/fresh"].clone();
    for path in ["../elsewhere/src/fresh", elsewhere.join("src/fresh").to_str().unwrap()] {
        entries.insert(path.to_string(), fresh.clone());
    }
    assert_eq!(covers::compare(&odd).unwrap().unknown.len(), 2);
}

#[test]
fn another_repository_within_the_tree_is_not_said_to_be_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let (tree, nested) = (place.path(), place.path().join("nested"));
    for folder in [tree, &nested] {
        fs::create_dir_all(folder).unwrap();
        git(folder, &["init", "-q"]);
        fs::write(folder.join("a"), "1").unwrap();
        git(folder, &["add", "a"]);
        git(folder, &["commit", "-qm", "first"]);
    }
    let covers = cover(&[tree]);
    fs::write(nested.join("a"), "changed").unwrap();
    let [changed, added, removed, unknown] = told(tree, &covers::compare(&covers).unwrap());
    assert_eq!((changed, added, removed), (vec![], vec![], vec![]));
    assert_eq!(unknown, ["nested/"]);
    // Covered by itself it is compared.
    let both = cover(&[tree, &nested]);
    assert!(covers::compare(&both).unwrap().is_empty());
    fs::write(nested.join("a"), "changed again").unwrap();
    assert_eq!(told(tree, &covers::compare(&both).unwrap())[0], ["nested/a"]);
}

#[test]
fn a_working_tree_is_known_by_its_commit_and_what_differs() {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path();
    git(tree, &["init", "-q"]);
    for (name, text) in [(".gitignore", "out\n"), ("a", "1"), ("b", "2"), ("c", "3")] {
        fs::write(tree.join(name), text).unwrap();
    }
    git(tree, &["add", "."]);
    git(tree, &["commit", "-qm", "first"]);
    fs::write(tree.join("a"), "half done").unwrap();
    fs::write(tree.join("fresh"), "new").unwrap();
    fs::write(tree.join("out"), "ignored").unwrap();
    let covers = cover(&[tree]);
    let root = &covers.manifest.as_ref().unwrap().roots[0];
    assert!(root.commit.is_some());
    assert_eq!(root.entries.keys().collect::<Vec<_>>(), ["a", "fresh"]);
    assert!(covers::compare(&covers).unwrap().is_empty());

    // To commit what was there changes nothing; to touch what was clean does.
    git(tree, &["add", "."]);
    git(tree, &["commit", "-qm", "second"]);
    fs::write(tree.join("out"), "ignored still").unwrap();
    let since = covers::compare(&covers).unwrap();
    assert!(since.is_empty(), "{since:?}");
    fs::write(tree.join("b"), "touched").unwrap();
    fs::remove_file(tree.join("c")).unwrap();
    fs::remove_file(tree.join("fresh")).unwrap();
    fs::write(tree.join("later"), "l").unwrap();
    git(tree, &["add", "."]);
    git(tree, &["commit", "-qm", "third"]);
    git(tree, &["checkout", "-q", "HEAD~2", "--", "a"]);
    let [changed, added, removed, unknown] = told(tree, &covers::compare(&covers).unwrap());
    assert_eq!(changed, ["a", "b"]);
    assert_eq!((added, removed), (vec!["later".to_string()], vec!["c".to_string(), "fresh".to_string()]));
    assert_eq!(unknown, Vec::<String>::new());

    let mut gone = covers;
    gone.manifest.as_mut().unwrap().roots[0].commit = Some("0123456789".repeat(4));
    let since = covers::compare(&gone).unwrap();
    assert_eq!(since.unknown.len(), 1, "a commit that is not there: {since:?}");
}
