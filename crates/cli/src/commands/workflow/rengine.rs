//! Converts the collections of a Rengine into files of workflows.
//!
//! A scene's code becomes the name of a workflow, whose graph is that of the latest revision. A rule's id becomes its name, and its files
//! are those of the latest script. Disabled and deleted documents count as absent, as they do for Rengine's executor.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Component, Path, PathBuf},
};

use forebay_server::{config::Config, workflow::check};
use forebay_workflow::WorkflowFiles;
use serde_json::{Map, Value, json};

use super::{WorkflowError, seed};
use crate::commands::strip::PARSER;

/// Longest file of collections, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Most documents of a collection.
const DOCUMENTS_MAX: usize = 100_000;
/// Longest body of an upload, in bytes.
const BODY_BYTES_MAX: u64 = 16 << 20;

const SCENES: &str = "re_sceneses";
const WORKFLOWS: &str = "re_workflows";
const GRAPHS: &str = "re_workflow_graphs";
const RULES: &str = "re_rules";
const SCRIPTS: &str = "re_rule_scripts";
const UPLOADS: &str = "sys_uploads";

/// Documents or generated files that could not be converted, each with the reason.
type LeftOut = Vec<(String, String)>;

/// Reads a file of collections, or a script (`.js`) that inserts them; `bodies` is the folder of the uploads' bodies. Workflows that are
/// invalid under `config` are left out.
pub(super) fn read(
    file: &Path,
    bodies: Option<&Path>,
    config: &Config,
) -> anyhow::Result<(WorkflowFiles, LeftOut)> {
    let failed = |source| WorkflowError::File {
        what: "read",
        path: file.to_owned(),
        source,
    };
    let wrong = |reason: String| WorkflowError::Collections {
        file: file.to_owned(),
        reason,
    };
    let bytes = fs::metadata(file).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(format!("it has {bytes} bytes, at most {FILE_BYTES_MAX}")).into());
    }
    let text = fs::read_to_string(file).map_err(failed)?;
    let read: Value = if file.extension().is_some_and(|extension| extension == "js") {
        seed::collections(file, text, config)?.map_err(wrong)?
    } else {
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
    };
    let body = |upload: &Document| body_of(upload, bodies);
    let (mut files, mut left_out) = convert(&read, &body).map_err(wrong)?;
    while let Err(faults) = check(config, &files, "".as_ref(), PARSER) {
        let mut more = false;
        for (path, reason) in faults.of_files() {
            if files.remove(path) {
                let reason = reason.strip_prefix(&format!("{path}: ")).unwrap_or(reason);
                left_out.push((path.to_owned(), reason.to_owned()));
                more = true;
            }
        }
        if !more {
            break;
        }
    }
    Ok((files, left_out))
}

/// A document of a collection, without the wrappers of its numbers.
#[derive(Clone, Debug)]
struct Document {
    collection: &'static str,
    members: Map<String, Value>,
}

impl Document {
    fn id(&self) -> Option<String> {
        id_of(self.members.get("_id").or_else(|| self.members.get("id"))?)
    }

    fn reference(&self, name: &str) -> Option<String> {
        id_of(self.members.get(name)?)
    }

    fn text(&self, name: &str) -> &str {
        self.members.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn revision(&self) -> i64 {
        self.members
            .get("revision")
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// Name of the document in errors.
    fn shown(&self) -> String {
        let name = [
            self.text("scenesCode"),
            self.text("nameEn"),
            self.text("filename"),
        ];
        let name = name.iter().find(|name| !name.is_empty());
        let id = self.id().unwrap_or_else(|| "without an id".to_owned());
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{} {id}{name}", self.collection)
    }

    /// Why the document counts as absent; `None`: it is present.
    fn absence(&self) -> Option<&'static str> {
        let number = |name: &str| self.members.get(name).and_then(Value::as_i64);
        if number("delFlag").is_some_and(|flag| flag != 0) {
            Some("it is deleted (delFlag)")
        } else if number("enable") == Some(0) {
            Some("it is not enabled")
        } else {
            None
        }
    }
}

fn id_of(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

/// A value without the wrappers that `mongoexport` has around numbers, times and ids.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            if let (1, Some((name, inner))) = (members.len(), members.iter().next()) {
                match (&**name, inner) {
                    (
                        "$numberLong" | "$numberInt" | "$numberDouble" | "$numberDecimal",
                        Value::String(text),
                    ) => {
                        return serde_json::from_str(text)
                            .ok()
                            .filter(Value::is_number)
                            .unwrap_or_else(|| inner.clone());
                    }
                    ("$oid" | "$date", inner) => return plain(inner),
                    _ => {}
                }
            }
            members
                .iter()
                .map(|(name, value)| (name.clone(), plain(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        value => value.clone(),
    }
}

/// The documents of a collection, present and absent.
struct Collection {
    present: Vec<Document>,
    left_out: LeftOut,
}

fn collection(all: &Map<String, Value>, name: &'static str) -> Result<Collection, String> {
    let mut found = Collection {
        present: Vec::new(),
        left_out: Vec::new(),
    };
    let Some(documents) = all.get(name) else {
        return Ok(found);
    };
    let Value::Array(documents) = documents else {
        return Err(format!("`{name}` is another value than a list of documents"));
    };
    if documents.len() > DOCUMENTS_MAX {
        let count = documents.len();
        return Err(format!("`{name}` has {count} documents, at most {DOCUMENTS_MAX}"));
    }
    for (at, document) in documents.iter().enumerate() {
        let Value::Object(members) = plain(document) else {
            return Err(format!("`{name}`: document {} is no object", at + 1));
        };
        let document = Document {
            collection: name,
            members,
        };
        match document.absence() {
            Some(reason) => found.left_out.push((document.shown(), reason.to_owned())),
            None => found.present.push(document),
        }
    }
    Ok(found)
}

/// For each value of `owner`, the document of the latest revision.
fn latest(documents: Vec<Document>, owner: &str) -> HashMap<String, Document> {
    let mut latest: HashMap<String, Document> = HashMap::new();
    for document in documents {
        let Some(of) = document.reference(owner) else {
            continue;
        };
        let known = latest.get(&of).map(Document::revision);
        if known.is_none_or(|known| known <= document.revision()) {
            latest.insert(of, document);
        }
    }
    latest
}

type Body<'b> = dyn Fn(&Document) -> Result<String, String> + 'b;

/// Converts collections into files.
fn convert(read: &Value, body: &Body<'_>) -> Result<(WorkflowFiles, LeftOut), String> {
    let names = [SCENES, WORKFLOWS, GRAPHS, RULES, SCRIPTS, UPLOADS];
    let all = read
        .as_object()
        .filter(|all| names.iter().any(|name| all.contains_key(*name)));
    let all = all.ok_or_else(|| format!("it is no object with the collections {}", names.join(", ")))?;
    let mut left_out = LeftOut::new();
    let mut take = |name| -> Result<Vec<Document>, String> {
        let found = collection(all, name)?;
        left_out.extend(found.left_out);
        Ok(found.present)
    };
    let (scenes, workflows, graphs) = (take(SCENES)?, take(WORKFLOWS)?, take(GRAPHS)?);
    let (rules, scripts, uploads) = (take(RULES)?, take(SCRIPTS)?, take(UPLOADS)?);
    let mut files = WorkflowFiles::default();
    put_graphs(
        &scenes,
        &workflows,
        &latest(graphs, "workflowId"),
        &mut files,
        &mut left_out,
    );
    let uploads = uploads
        .into_iter()
        .filter_map(|upload| Some((upload.id()?, upload)))
        .collect();
    let scripts = latest(scripts, "ruleId");
    for rule in &rules {
        let put = put_rule(rule, &scripts, &uploads, body, &mut files);
        left_out.extend(put.err().map(|reason| (rule.shown(), reason)));
    }
    Ok((files, left_out))
}

fn put_graphs(
    scenes: &[Document],
    workflows: &[Document],
    graphs: &HashMap<String, Document>,
    files: &mut WorkflowFiles,
    left_out: &mut LeftOut,
) {
    for scene in scenes {
        let id = scene.id();
        let own: Vec<&Document> = workflows
            .iter()
            .filter(|workflow| id.is_some() && workflow.reference("scenesId") == id)
            .collect();
        let put = match own[..] {
            [] => Err("no workflow belongs to it".to_owned()),
            [workflow] => put_graph(scene, workflow, graphs, files),
            _ => Err(format!("{} workflows belong to it, and one may", own.len())),
        };
        left_out.extend(put.err().map(|reason| (scene.shown(), reason)));
    }
}

fn put_graph(
    scene: &Document,
    workflow: &Document,
    graphs: &HashMap<String, Document>,
    files: &mut WorkflowFiles,
) -> Result<(), String> {
    let engine = workflow.text("engine");
    if !matches!(engine, "" | "STANDARD_GRAPH") {
        return Err(format!(
            "its workflow is for the engine {engine}; STANDARD_GRAPH alone is known"
        ));
    }
    let code = scene.text("scenesCode");
    if code.is_empty() {
        return Err("it has no scenesCode".to_owned());
    }
    let graph = workflow.id().and_then(|id| graphs.get(&id));
    let graph = graph.ok_or("its workflow has no graph")?;
    let Some(Value::Object(details)) = graph.members.get("details") else {
        return Err(format!("{} has no details", graph.shown()));
    };
    let mut document = Map::new();
    let attributes = graph.members.get("attributes").filter(|value| value.is_object());
    document.insert(
        "attributes".into(),
        attributes.cloned().unwrap_or_else(|| json!({})),
    );
    for name in ["nodes", "edges"] {
        document.insert(
            name.into(),
            details.get(name).cloned().unwrap_or_else(|| json!([])),
        );
    }
    let mut text = serde_json::to_string_pretty(&document).expect("plain values become JSON");
    text.push('\n');
    let path = format!("{code}.json");
    if files.get(&path).is_some() {
        return Err("another scene has the same scenesCode".to_owned());
    }
    files.add(&path, text)
}

fn put_rule(
    rule: &Document,
    scripts: &HashMap<String, Document>,
    uploads: &HashMap<String, Document>,
    body: &Body<'_>,
    files: &mut WorkflowFiles,
) -> Result<(), String> {
    let id = rule.id().ok_or("it has no id")?;
    let engine = rule.text("engine");
    if !matches!(engine, "" | "JS") {
        return Err(format!(
            "it is written for {engine}; rules are JavaScript or TypeScript"
        ));
    }
    let script = scripts.get(&id).ok_or("it has no script")?;
    let entry = script.reference("entrypointUploadId");
    let entry = entry.ok_or_else(|| format!("{} has no entrypointUploadId", script.shown()))?;
    let listed = script.members.get("uploadIds").and_then(Value::as_array).cloned();
    let mut order: Vec<String> = listed.unwrap_or_default().iter().filter_map(id_of).collect();
    // The entry comes last, because it uses the declarations of the others.
    order.retain(|upload| *upload != entry);
    order.push(entry);
    let mut parts = BTreeMap::new();
    let last = order.len() - 1;
    for (at, upload) in order.iter().enumerate() {
        let found = uploads.get(upload);
        let found = found.ok_or_else(|| format!("{UPLOADS} {upload} is not there, disabled or deleted"))?;
        let kind = found.text("uploadType");
        if !matches!(kind, "" | "LIBJS") {
            return Err(format!(
                "{} is of the type {kind}; LIBJS alone can be run",
                found.shown()
            ));
        }
        let text = body(found).map_err(|reason| format!("{}: {reason}", found.shown()))?;
        let extension = if found.text("extension") == ".ts" {
            "ts"
        } else {
            "js"
        };
        let path = match (last, at == last) {
            (0, _) => format!("rules/{id}.{extension}"),
            (_, true) => format!("rules/{id}/index.{extension}"),
            _ => format!("rules/{id}/{:03}.{extension}", at + 1),
        };
        parts.insert(path, text);
    }
    for (path, text) in parts {
        files.add(&path, text)?;
    }
    Ok(())
}

/// The body of an upload, in the folder of an object store's bucket or one of the files themselves.
fn body_of(upload: &Document, bodies: Option<&Path>) -> Result<String, String> {
    let bodies = bodies.ok_or("`--files DIR` says where the bodies of uploads are")?;
    let (prefix, name, extension) = (
        upload.text("objectPrefix"),
        upload.text("filename"),
        upload.text("extension"),
    );
    let with_extension = format!("{name}{extension}");
    let last_of_prefix = prefix.rsplit('/').next().unwrap_or_default();
    // The first part is the type of the upload, which a folder of scripts alone does not have.
    let without_type = prefix.split_once('/').map_or("", |(_, rest)| rest);
    let candidates = [
        prefix.to_owned(),
        format!("{prefix}/{name}"),
        format!("{prefix}/{with_extension}"),
        without_type.to_owned(),
        with_extension,
        name.to_owned(),
        last_of_prefix.to_owned(),
    ];
    for candidate in candidates {
        let path = PathBuf::from(candidate.trim_start_matches('/'));
        let is_within = path.components().all(|part| matches!(part, Component::Normal(_)));
        let path = bodies.join(&path);
        if !is_within || !path.is_file() {
            continue;
        }
        let bytes = fs::metadata(&path).map_err(|error| error.to_string())?.len();
        if bytes > BODY_BYTES_MAX {
            return Err(format!(
                "{} has {bytes} bytes, at most {BODY_BYTES_MAX}",
                path.display()
            ));
        }
        return fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    }
    Err(format!("its body `{prefix}` is not in {}", bodies.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(number: u64) -> Value {
        json!({"$numberLong": number.to_string()})
    }

    fn seed() -> Value {
        let graph = |id: u64, revision: u64, note: &str| {
            json!({
                "_id": long(id), "revision": long(revision), "workflowId": long(20), "enable": 1, "delFlag": 0,
                "details": {
                    "engine": "STANDARD_GRAPH",
                    "nodes": [{"@type": "BOOT", "id": "0", "color": "#fff"}, {"@type": "PROCESS", "id": "1", "ruleId": long(40)}],
                    "edges": [{"name": "e", "from": "0", "to": "1", "attributes": null}]
                },
                "attributes": {"note": note}
            })
        };
        let script = |id: u64, revision: u64, entry: u64, enable: u64| {
            json!({
                "_id": id, "ruleId": long(40), "revision": {"$numberInt": revision.to_string()}, "enable": enable, "delFlag": 0,
                "entrypointUploadId": long(entry), "uploadIds": [long(entry), long(61)]
            })
        };
        let upload = |id: u64, name: &str| json!({"_id": long(id), "uploadType": "LIBJS", "objectPrefix": format!("libjs/0/{name}/{name}-v1.js"), "filename": name, "extension": ".js", "enable": 1, "delFlag": 0});
        json!({
            "re_sceneses": [
                {"_id": long(10), "scenesCode": "hello", "enable": {"$numberInt": "1"}, "delFlag": {"$numberInt": "0"}},
                {"_id": long(11), "scenesCode": "off", "enable": 0, "delFlag": 0},
                {"_id": long(12), "scenesCode": "cep", "enable": 1, "delFlag": 0},
                {"_id": long(13), "scenesCode": "bare", "enable": 1, "delFlag": 0}
            ],
            "re_workflows": [
                {"_id": long(20), "scenesId": long(10), "engine": "STANDARD_GRAPH", "enable": 1, "delFlag": 0},
                {"_id": long(21), "scenesId": long(12), "engine": "FLINK_CEP_GRAPH", "enable": 1, "delFlag": 0}
            ],
            "re_workflow_graphs": [
                graph(30, 2, "the second"), graph(31, 10, "the tenth"),
                {"_id": long(32), "revision": long(11), "workflowId": long(20), "enable": 1, "delFlag": 1}
            ],
            "re_rules": [
                {"_id": long(40), "nameEn": "greet", "engine": "JS", "enable": 1, "delFlag": 0},
                {"_id": long(41), "nameEn": "other", "engine": "GROOVY", "enable": 1, "delFlag": 0}
            ],
            "re_rule_scripts": [script(50, 1, 62, 1), script(51, 2, 60, 1), script(52, 3, 62, 0)],
            "sys_uploads": [upload(60, "greet"), upload(61, "commons"), upload(62, "old")]
        })
    }

    #[test]
    fn the_latest_that_is_enabled_and_not_deleted_becomes_files() {
        let body = |upload: &Document| Ok(format!("// {}", upload.text("objectPrefix")));
        let (files, left_out) = convert(&seed(), &body).unwrap();
        let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["hello.json", "rules/40/001.js", "rules/40/index.js"]);
        let graph: Value = serde_json::from_str(files.get("hello.json").unwrap()).unwrap();
        assert_eq!(graph["attributes"], json!({"note": "the tenth"}));
        assert_eq!(graph["nodes"][1]["ruleId"], json!(40));
        assert_eq!(
            files.get("rules/40/001.js"),
            Some("// libjs/0/commons/commons-v1.js")
        );
        assert_eq!(
            files.get("rules/40/index.js"),
            Some("// libjs/0/greet/greet-v1.js")
        );
        let left_out: Vec<(&str, &str)> = left_out.iter().map(|(one, other)| (&**one, &**other)).collect();
        assert_eq!(
            left_out,
            [
                ("re_sceneses 11 (off)", "it is not enabled"),
                ("re_workflow_graphs 32", "it is deleted (delFlag)"),
                ("re_rule_scripts 52", "it is not enabled"),
                (
                    "re_sceneses 12 (cep)",
                    "its workflow is for the engine FLINK_CEP_GRAPH; STANDARD_GRAPH alone is known"
                ),
                ("re_sceneses 13 (bare)", "no workflow belongs to it"),
                (
                    "re_rules 41 (other)",
                    "it is written for GROOVY; rules are JavaScript or TypeScript"
                ),
            ]
        );
    }

    #[test]
    fn what_is_no_collection_is_named() {
        let body = |_: &Document| Ok(String::new());
        for (read, reason) in [
            (json!([]), "it is no object with the collections re_sceneses"),
            (json!({"re_other": []}), "it is no object with the collections"),
            (json!({"re_rules": {}}), "`re_rules` is another value than a list"),
            (json!({"re_rules": [1]}), "`re_rules`: document 1 is no object"),
        ] {
            let told = convert(&read, &body).unwrap_err();
            assert!(told.starts_with(reason), "{told}");
        }
    }

    #[test]
    fn no_body_is_read_outside_of_the_folder() {
        let members = json!({"objectPrefix": "../../etc/passwd", "filename": "/etc/passwd", "extension": ""});
        let upload = Document {
            collection: UPLOADS,
            members: members.as_object().unwrap().clone(),
        };
        let told = body_of(&upload, Some(Path::new("/tmp"))).unwrap_err();
        assert_eq!(told, "its body `../../etc/passwd` is not in /tmp");
        assert!(body_of(&upload, None).unwrap_err().contains("--files"));
    }
}
