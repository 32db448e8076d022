//! Requests of systems that know nothing of workflows, as `/execute/custom` of Rengine's executor takes them: arguments from any JSON or
//! XML, other parameters from the query, the header or the body, and a response made from a template.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use forebay_workflow::{Template, WorkflowFailure};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{
    scenes::{SceneRequest, SceneResult, failed, refused, reported, run_codes, wants_trace},
    xml,
};
use crate::{
    failure::Refusal,
    front::{Head, Socket, Stream},
    reply::Reply,
    target::{
        End, Request,
        parameters::parameters,
        workflow::{WorkflowTarget, with_release},
    },
};

/// The parameter `reqSettings`: JSON in base64.
#[derive(Debug, Deserialize)]
struct RequestSettings {
    #[serde(default)]
    format: Format,
}

/// Format of a body whose media type does not tell.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Xml,
}

/// The parameter `respSettings`: JSON in base64.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseSettings {
    template_key: String,
}

/// A request and the places where its parameters may be.
struct Custom<'r> {
    head: &'r Head,
    query: BTreeMap<String, String>,
    /// Arguments from the body, overridden by those of the query.
    args: Map<String, Value>,
}

/// Answers a request with this body.
pub(in crate::target::workflow) async fn answer<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    match answered(target, request, text, socket).await {
        Err(End::Refused(refusal)) => {
            refusal.log(request.id);
            Ok(failed(target, &refusal, request.id))
        }
        outcome => outcome,
    }
}

async fn answered<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    text: &[u8],
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    let mut query = BTreeMap::new();
    for parameter in parameters(request.head.query(), "") {
        let parameter = parameter?;
        query.insert(parameter.name.into_owned(), parameter.value.into_owned());
    }
    let settings: RequestSettings = settings(&query, "reqSettings")?;
    let ResponseSettings { template_key } = self::settings(&query, "respSettings")?;
    let args = body_args(request.head, text, settings.format)?;
    let mut custom = Custom {
        head: request.head,
        query,
        args,
    };
    custom.merge_args()?;
    let client_secret = custom.text("clientSecret");
    // Neither rules nor their logs should see it.
    custom.args.remove("clientSecret");
    let args = RawValue::from_string(Value::Object(custom.args.clone()).to_string());
    let args = args.map_err(|error| refused(&error.to_string()))?;
    let read = SceneRequest {
        request_id: Some(custom.text("requestId").unwrap_or_else(|| request.id.to_owned())),
        client_id: custom.text("clientId"),
        client_secret,
        scenes_codes: Some(custom.list("scenesCodes")),
        timeout: custom.timeout()?,
        args: Some(&args),
        ..SceneRequest::default()
    };
    let chosen = target.choose(read.request_id.as_deref().unwrap_or(request.id), None)?;
    let Some(template) = chosen.book.template(&template_key) else {
        return Err(refused(&format!(
            "there is no template `{template_key}` (templates/{template_key}.json)"
        ))
        .into());
    };
    let results = run_codes(target, request, &read, &chosen, socket).await?;
    let reply = if wants_trace(request.head)? {
        reported(target, read.request_id.as_deref().unwrap_or(request.id), &results)
    } else {
        render(template, &results)?
    };
    Ok(with_release(&chosen, reply))
}

/// The response: the template filled with the values of all successful runs.
fn render(template: &Template, results: &[(String, SceneResult)]) -> Result<Reply<'static>, Refusal> {
    let mut values = Map::new();
    for (_, result) in results {
        if let Ok(found) = &result.values
            && let Ok(found) = serde_json::from_str::<Map<String, Value>>(found)
        {
            values.extend(found);
        }
    }
    let body = template.fill(&values);
    let body = body.map_err(|error| {
        let failures: Vec<&str> = results
            .iter()
            .filter_map(|(_, result)| result.values.as_ref().err())
            .map(|failure| &*failure.reason)
            .collect();
        let what = [&[error.as_str()], &failures[..]].concat().join("; ");
        Refusal::Workflow(WorkflowFailure::Template { what })
    })?;
    let mut reply = Reply::new(200);
    reply
        .headers
        .to_mut()
        .push_known("content-type", template.media_type);
    reply.body = crate::reply::Body::Bytes(body.into_bytes().into());
    Ok(reply)
}

/// A required query parameter with settings: JSON in base64.
fn settings<T: for<'d> Deserialize<'d>>(query: &BTreeMap<String, String>, name: &str) -> Result<T, Refusal> {
    let written = query.get(name).map_or("", String::as_str);
    if written.is_empty() {
        return Err(refused(&format!(
            "the parameter `{name}` is missing: JSON in base 64"
        )));
    }
    read_base64(name, written)
}

/// Decodes a parameter: JSON in base64.
fn read_base64<T: for<'d> Deserialize<'d>>(name: &str, written: &str) -> Result<T, Refusal> {
    let decoded = STANDARD.decode(written.trim());
    let decoded =
        decoded.map_err(|error| refused(&format!("the parameter `{name}` is no base 64: {error}")))?;
    serde_json::from_slice(&decoded)
        .map_err(|error| refused(&format!("the parameter `{name}` has other JSON: {error}")))
}

/// Parses a body into arguments.
fn body_args(head: &Head, text: &[u8], format: Format) -> Result<Map<String, Value>, Refusal> {
    if text.trim_ascii().is_empty() || head.method() != "POST" {
        return Ok(Map::new());
    }
    let media_type = head.field("content-type").unwrap_or_default();
    let media_type = String::from_utf8_lossy(media_type).to_ascii_lowercase();
    let format = match &*media_type {
        kind if kind.contains("application/json") => Format::Json,
        kind if kind.contains("application/xml") || kind.contains("text/xml") => Format::Xml,
        _ => format,
    };
    let text = str::from_utf8(text).map_err(|_| refused("the body is no UTF-8"))?;
    match format {
        Format::Json => serde_json::from_str(text)
            .map_err(|error| refused(&format!("the body is not a JSON object: {error}"))),
        Format::Xml => xml::read(text).map_err(|error| refused(&format!("the body is no XML: {error}"))),
    }
}

impl Custom<'_> {
    /// Looks up a parameter: in the query, in a header of its name, with or without `x-`, or in the body.
    fn find(&self, name: &str) -> Option<Cow<'_, Value>> {
        let lower = name.to_ascii_lowercase();
        let header = |name: &str| Some(String::from_utf8_lossy(self.head.field(name)?).into_owned());
        let written = self
            .query
            .get(name)
            .filter(|value| !value.is_empty())
            .cloned()
            .or_else(|| header(&lower).filter(|value| !value.is_empty()))
            .or_else(|| header(&format!("x-{lower}")).filter(|value| !value.is_empty()));
        match written {
            Some(written) => Some(Cow::Owned(Value::from(written))),
            None => self.args.get(name).map(Cow::Borrowed),
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.find(name)?.into_owned() {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A list, or a text with commas between the items.
    fn list(&self, name: &str) -> Vec<String> {
        match self.find(name).as_deref() {
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect(),
            Some(Value::String(items)) => items
                .split(',')
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect(),
            _ => Vec::new(),
        }
    }

    fn timeout(&self) -> Result<Option<i64>, Refusal> {
        let Some(written) = self.text("timeout") else {
            return Ok(None);
        };
        let timeout = written.parse();
        timeout
            .map(Some)
            .map_err(|_| refused(&format!("`timeout` is {written}: milliseconds, more than 0")))
    }

    /// Merges the arguments of the parameter `args` over those of the body.
    fn merge_args(&mut self) -> Result<(), Refusal> {
        // A body may have an object of its own called `args`.
        let written = match self.find("args").as_deref() {
            Some(Value::String(written)) => written.clone(),
            _ => return Ok(()),
        };
        let args: Map<String, Value> = read_base64("args", &written)?;
        self.args.remove("args");
        self.args.extend(args);
        Ok(())
    }
}
