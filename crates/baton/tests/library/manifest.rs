//! What a checkpoint covers: hashed, and compared later.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use baton::manifest::{self, Coverage, Differences, ManifestError, Print};

fn cover(places: &[&Path]) -> Coverage {
    let places: Vec<_> = places.iter().map(|place| place.to_path_buf()).collect();
    let scan = manifest::scan(&places).unwrap();
    scan.coverage(usize::MAX, |_, _| -> Result<String, ManifestError> { unreachable!("there is room") })
        .unwrap()
}

/// Wherever it lies.
fn compare(covers: &Coverage) -> Result<Differences, ManifestError> {
    manifest::compare(covers, &[PathBuf::from("/")])
}

fn below(folder: &Path, paths: &[String]) -> Vec<String> {
    let folder = format!("{}/", fs::canonicalize(folder).unwrap().display());
    paths.iter().map(|path| path.strip_prefix(&folder).unwrap_or(path).to_string()).collect()
}

fn told(folder: &Path, since: &Differences) -> [Vec<String>; 4] {
    let Differences { changed, added, removed, unknown, elsewhere: _ } = since;
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
    let since = compare(&covers).unwrap();
    assert!(since.is_empty(), "{since:?}");

    fs::write(folder.join("src/a"), "other").unwrap();
    fs::remove_file(folder.join("src/deep/b")).unwrap();
    fs::write(folder.join("new"), "").unwrap();
    fs::set_permissions(folder.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(folder.join("link")).unwrap();
    symlink("elsewhere", folder.join("link")).unwrap();
    fs::write(folder.join(".baton/x"), "y").unwrap();
    let [changed, added, removed, unknown] = told(&folder, &compare(&covers).unwrap());
    assert_eq!(changed, ["link", "src/a", "tool"]);
    assert_eq!((added, removed, unknown), (vec!["new".to_string()], vec!["src/deep/b".to_string()], vec![]));

    fs::remove_dir_all(&folder).unwrap();
    let since = compare(&covers).unwrap();
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
    // Root reads everything.
    assert_eq!(*print == Print::Unreadable, !readable, "{print:?}");
    let since = compare(&covers).unwrap();
    assert_eq!(since.unknown.is_empty(), readable);

    let missing = manifest::scan(&[place.path().join("missing")]);
    assert!(matches!(missing, Err(ManifestError::Place { .. })), "{missing:?}");
    let many = manifest::scan(&vec![place.path().to_path_buf(); 65]);
    assert!(matches!(many, Err(ManifestError::TooMany(65))), "{many:?}");
    let sparse = fs::File::create(place.path().join("sparse")).unwrap();
    sparse.set_len(manifest::MAX_BYTES + 1).unwrap();
    let large = manifest::scan(&[place.path().to_path_buf()]);
    assert!(matches!(large, Err(ManifestError::TooMuch { .. })), "{large:?}");
}

#[test]
fn a_large_manifest_lies_elsewhere_and_must_be_the_same() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("w")).unwrap();
    fs::write(place.path().join("w/a"), "1").unwrap();
    let kept = place.path().join("manifest");
    let scan = manifest::scan(&[place.path().join("w")]).unwrap();
    let keep = |text: &str, _| fs::write(&kept, text).map(|()| kept.display().to_string());
    let covers = scan.coverage(10, keep).unwrap();
    assert!(covers.manifest.is_none() && covers.location.is_some());
    assert!(compare(&covers).unwrap().is_empty());
    let whole = fs::read(&kept).unwrap();
    fs::write(&kept, "{\"roots\":[]}").unwrap();
    assert!(matches!(compare(&covers), Err(ManifestError::Manifest { .. })));
    fs::write(&kept, whole).unwrap();
    assert!(compare(&covers).unwrap().is_empty());
    // A location that keeps who opens it waiting, one without an end, and one that leads elsewhere.
    let (pipe, link) = (place.path().join("pipe"), place.path().join("link"));
    rustix_fifo(&pipe);
    symlink(&kept, &link).unwrap();
    for odd in [pipe.as_path(), Path::new("/dev/zero"), &link, place.path()] {
        let elsewhere = Coverage { location: Some(odd.display().to_string()), ..covers.clone() };
        let refused = compare(&elsewhere);
        assert!(matches!(refused, Err(ManifestError::Manifest { .. })), "{odd:?}: {refused:?}");
    }
}

#[test]
fn a_manifest_with_too_many_places_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("manifest");
    let mut scan = manifest::scan(&[place.path().to_path_buf()]).unwrap();
    scan.manifest.roots = vec![scan.manifest.roots[0].clone(); 65];
    let keep = |text: &str, _| fs::write(&kept, text).map(|()| kept.display().to_string());
    let refused = compare(&scan.coverage(10, keep).unwrap());
    assert!(matches!(refused, Err(ManifestError::Manifest { .. })), "{refused:?}");
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
    assert!(compare(&covers).unwrap().is_empty());
    // The same files, but not there.
    fs::remove_dir_all(tree.join("src")).unwrap();
    symlink(elsewhere.join("src"), tree.join("src")).unwrap();
    let [changed, added, removed, unknown] = told(&tree, &compare(&covers).unwrap());
    assert_eq!((changed, added, unknown), (vec![], vec!["src".to_string()], vec![]));
    assert_eq!(removed, ["src/a", "src/fresh"]);
    // Nor is one in the place of the tree itself.
    fs::rename(&tree, place.path().join("moved")).unwrap();
    symlink(place.path().join("moved"), &tree).unwrap();
    let since = compare(&covers).unwrap();
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
    assert_eq!(compare(&odd).unwrap().unknown.len(), 2);
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
    let [changed, added, removed, unknown] = told(tree, &compare(&covers).unwrap());
    assert_eq!((changed, added, removed), (vec![], vec![], vec![]));
    assert_eq!(unknown, ["nested/"]);
    // Covered by itself it is compared.
    let both = cover(&[tree, &nested]);
    assert!(compare(&both).unwrap().is_empty());
    fs::write(nested.join("a"), "changed again").unwrap();
    assert_eq!(told(tree, &compare(&both).unwrap())[0], ["nested/a"]);
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
    assert!(compare(&covers).unwrap().is_empty());

    // To commit what was there changes nothing; to touch what was clean does.
    git(tree, &["add", "."]);
    git(tree, &["commit", "-qm", "second"]);
    fs::write(tree.join("out"), "ignored still").unwrap();
    let since = compare(&covers).unwrap();
    assert!(since.is_empty(), "{since:?}");
    fs::write(tree.join("b"), "touched").unwrap();
    fs::remove_file(tree.join("c")).unwrap();
    fs::remove_file(tree.join("fresh")).unwrap();
    fs::write(tree.join("later"), "l").unwrap();
    git(tree, &["add", "."]);
    git(tree, &["commit", "-qm", "third"]);
    git(tree, &["checkout", "-q", "HEAD~2", "--", "a"]);
    let [changed, added, removed, unknown] = told(tree, &compare(&covers).unwrap());
    assert_eq!(changed, ["a", "b"]);
    assert_eq!((added, removed), (vec!["later".to_string()], vec!["c".to_string(), "fresh".to_string()]));
    assert_eq!(unknown, Vec::<String>::new());

    let mut gone = covers;
    gone.manifest.as_mut().unwrap().roots[0].commit = Some("0123456789".repeat(4));
    let since = compare(&gone).unwrap();
    assert_eq!(since.unknown.len(), 1, "a commit that is not there: {since:?}");
}

#[test]
fn to_compare_runs_nothing_that_a_repository_names() {
    let place = tempfile::tempdir().unwrap();
    let (tree, ran) = (place.path().join("tree"), place.path().join("ran"));
    fs::create_dir(&tree).unwrap();
    git(&tree, &["init", "-q"]);
    for (name, text) in [("a", "1\n"), ("b", "2\n"), ("large", "3\n")] {
        fs::write(tree.join(name), text).unwrap();
    }
    git(&tree, &["add", "."]);
    git(&tree, &["commit", "-qm", "first"]);
    let covers = cover(&[&tree]);
    // Whoever may write the working tree names programs for all that git runs any for.
    let program = place.path().join("program");
    fs::write(&program, format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", ran.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!(
        "[filter \"x\"]\n\tclean = {0}\n\tsmudge = {0}\n\tprocess = {0}\n[diff \"x\"]\n\tcommand = {0}\n\ttextconv = {0}\n\
         [diff]\n\texternal = {0}\n[core]\n\tfsmonitor = {0}\n\thooksPath = {1}\n\tpager = {0}\n\tsshCommand = {0}\n\
         [extensions]\n\tpartialClone = x\n[remote \"x\"]\n\tpromisor = true\n\turl = {1}\n\tuploadpack = {0}\n[alias]\n\tls-tree = !{0}\n",
        program.display(),
        place.path().join("hooks").display(),
    );
    let config = tree.join(".git/config");
    let before = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        before.replace("repositoryformatversion = 0", "repositoryformatversion = 1") + &settings,
    )
    .unwrap();
    fs::write(tree.join(".gitattributes"), "* filter=x diff=x\n").unwrap();
    fs::create_dir(place.path().join("hooks")).unwrap();
    for hook in ["post-index-change", "fsmonitor-watchman", "post-checkout"] {
        fs::copy(&program, place.path().join("hooks").join(hook)).unwrap();
    }
    fs::write(tree.join("a"), "changed\n").unwrap();
    let [changed, added, removed, unknown] = told(&tree, &compare(&covers).unwrap());
    assert_eq!((changed, added), (vec!["a".to_string()], vec![".gitattributes".to_string()]));
    assert_eq!((removed, unknown), (vec![], vec![]));
    // Objects that are not there are not fetched.
    fs::remove_dir_all(tree.join(".git/objects")).unwrap();
    fs::create_dir(tree.join(".git/objects")).unwrap();
    assert_eq!(compare(&covers).unwrap().unknown.len(), 1);
    assert!(!ran.exists(), "it ran: {}", fs::read_to_string(&ran).unwrap_or_default());
}

#[test]
fn bytes_count_whatever_a_filter_would_make_of_them() {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path();
    git(tree, &["init", "-q"]);
    git(tree, &["config", "core.autocrlf", "true"]);
    fs::write(tree.join("dos"), "1\r\n2\r\n").unwrap();
    fs::write(tree.join("plain"), "1").unwrap();
    git(tree, &["add", "."]);
    git(tree, &["commit", "-qm", "first"]);
    // The commit has other bytes than the file, which is listed with its own: so it is compared all the same.
    let covers = cover(&[tree]);
    let listed: Vec<&String> = covers.manifest.as_ref().unwrap().roots[0].entries.keys().collect();
    assert_eq!(listed, ["dos"]);
    assert!(compare(&covers).unwrap().is_empty());
    fs::write(tree.join("dos"), "1\n2\n").unwrap();
    assert_eq!(told(tree, &compare(&covers).unwrap())[0], ["dos"]);
}

#[test]
fn only_what_the_caller_names_is_looked_at() {
    let place = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(place.path()).unwrap();
    let (mine, other) = (place.join("mine"), place.join("other"));
    for folder in [&mine, &other] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("a"), "1").unwrap();
    }
    let mut covers = cover(&[&mine, &other]);
    for folder in [&mine, &other] {
        fs::write(folder.join("a"), "2").unwrap();
    }
    let within =
        |covers: &Coverage, folder: &Path| manifest::compare(covers, &[folder.to_path_buf()]).unwrap();
    let since = within(&covers, &mine);
    assert_eq!(told(&mine, &since)[0], ["a"]);
    assert_eq!(since.elsewhere, [other.to_str().unwrap()]);
    assert!(!since.is_empty());
    // Neither dots nor a link on the way lead out of it; one that is gone lies where it lay.
    symlink(&other, mine.join("link")).unwrap();
    let roots = &mut covers.manifest.as_mut().unwrap().roots;
    let odd = |path: PathBuf| path.to_str().unwrap().to_string();
    roots[0].path = odd(mine.join("link/a"));
    roots[1].path = odd(mine.join("../other"));
    assert_eq!(within(&covers, &mine).elsewhere.len(), 2);
    covers.manifest.as_mut().unwrap().roots[0].path = odd(mine.join("gone/deep/a"));
    let since = within(&covers, &mine);
    assert_eq!((since.removed.len(), since.elsewhere.len()), (1, 1), "{since:?}");
    // A manifest that lies elsewhere is not read either.
    let scan = manifest::scan(std::slice::from_ref(&mine)).unwrap();
    let kept = other.join("manifest");
    let keep = |text: &str, _| fs::write(&kept, text).map(|()| odd(kept.clone()));
    let refused = manifest::compare(&scan.coverage(10, keep).unwrap(), std::slice::from_ref(&mine));
    assert!(matches!(refused, Err(ManifestError::Manifest { .. })), "{refused:?}");
}
