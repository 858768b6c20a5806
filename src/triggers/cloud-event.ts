/** Reads events in the forms of CloudEvents 1.0 (structured and binary) and of Standard Webhooks. */
import { fieldsOf, isObject } from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { type Rejection, reject } from "../std/rejection.ts";

/** The headers of a request, by their names in lower case. */
export type Headers = (name: string) => string | undefined;

/**
 * Reads an event from the body of a request. A CloudEvent, in structured or binary mode, is converted; an event in Rondo's own form is
 * returned unchanged.
 */
export function readEvent(body: unknown, header: Headers): unknown {
  const fields = fieldsOf(body);
  if (header("ce-specversion") !== undefined) {
    const attribute = (name: string) => decodedHeader(header(`ce-${name}`));
    return cloudEvent({ attribute, version: attribute("specversion"), data: body });
  }
  const isStructured =
    header("content-type")?.toLowerCase().startsWith("application/cloudevents+json") === true;
  if (fields === null || (!isStructured && fields["specversion"] === undefined)) return body;
  if (fields["data_base64"] !== undefined)
    return reject("invalid_input", "data_base64: binary data of an event is not supported; send JSON", {
      path: "data_base64",
      hint: "send JSON as `data`",
    });
  return cloudEvent({
    attribute: (name) => fields[name],
    version: fields["specversion"],
    data: fields["data"],
  });
}

interface CloudEventParts {
  readonly attribute: (name: string) => unknown;
  readonly version: unknown;
  readonly data: unknown;
}

function cloudEvent({ attribute, version, data }: CloudEventParts): unknown {
  if (version !== "1.0")
    return reject("invalid_input", 'specversion: only CloudEvents "1.0" are read', { path: "specversion" });
  for (const name of ["id", "source", "type"])
    if (typeof attribute(name) !== "string" || attribute(name) === "")
      return reject("invalid_input", `${name}: is missing; every CloudEvent needs it`, { path: name });
  return { name: attribute("type"), id: attribute("id"), source: attribute("source"), data: data ?? null };
}

/** Decodes the value of a header of a CloudEvent in binary mode, which is percent-encoded. */
function decodedHeader(value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  try {
    return decodeURIComponent(value);
  } catch (error) {
    if (error instanceof URIError) return value;
    throw error;
  }
}

/** Makes an event from a webhook. Its name consists of the source and the `type` in the body; its id is the id of the webhook. */
export function webhookEvent(
  source: { readonly name: string; readonly project?: string | undefined },
  id: string,
  body: Uint8Array,
): object | Rejection {
  let data: unknown;
  try {
    data = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (thrown) {
    if (thrown instanceof SyntaxError || thrown instanceof TypeError)
      return reject("invalid_json", "the body of the webhook is not JSON");
    throw thrown;
  }
  const type = isObject(data) && typeof data["type"] === "string" ? `/${data["type"]}` : "";
  return {
    name: `${source.name}${type}`,
    id,
    source: `webhook ${source.name}`,
    data,
    ...defined({ project: source.project }),
  };
}
