/** A form for the values that a JSON Schema describes: fields for simple parts, JSON for the rest. */
import { Problem } from "../../api/client.ts";
import { parseTyped } from "../../ui/json.tsx";

/** The part of JSON Schema that the form understands. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

/** The texts of the fields, as the user typed them. */
export type Written = Readonly<Record<string, string>>;

/** The properties of an object schema; null for any other schema. */
export function fieldsOf(schema: unknown): readonly (readonly [name: string, schema: Schema])[] | null {
  const { type, properties } = (typeof schema === "object" && schema !== null ? schema : {}) as Schema;
  return type === "object" && properties !== undefined ? Object.entries(properties) : null;
}

/** The initial texts of the fields. */
export function defaultsOf(schema: unknown): Written {
  const fields = fieldsOf(schema) ?? [];
  return Object.fromEntries(
    fields.flatMap(([name, { default: value }]) => (value === undefined ? [] : [[name, textOf(value)]])),
  );
}

/** The value that the fields describe. Throws if a field is invalid. */
export function readFields(schema: unknown, written: Written): Record<string, unknown> {
  const value: Record<string, unknown> = {};
  for (const [name, field] of fieldsOf(schema) ?? []) {
    const text = written[name] ?? "";
    if (text === "") continue;
    value[name] = readOne(name, field, text);
  }
  return value;
}

function readOne(name: string, { type, enum: options }: Schema, text: string): unknown {
  if (options !== undefined) return options.find((option) => String(option) === text);
  if (type === "string") return text;
  if (type === "number" || type === "integer") {
    const number = Number(text);
    if (Number.isNaN(number))
      throw new Problem({
        ...{ status: 0, code: "invalid_input", hint: "", path: name },
        detail: `${name}: “${text}” is not a number.`,
      });
    return number;
  }
  if (type === "boolean") return text === "true";
  return parseTyped(text, name);
}

/** The text of a field's value. */
function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The texts of the fields for a value; null if the form cannot show all of the value. */
export function writtenOf(schema: unknown, value: unknown): Written | null {
  const names = fieldsOf(schema)?.map(([name]) => name) ?? null;
  if (names === null || typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const entries = Object.entries(value);
  if (entries.some(([name]) => !names.includes(name))) return null;
  return Object.fromEntries(entries.map(([name, part]) => [name, textOf(part)]));
}

/** The problem of a field, without the words that only a reader of JSON needs. */
function fieldProblem(problem: Problem): string {
  const { message } = problem;
  if (isMissing(problem)) return "This field is required.";
  const [, text] = /^(?:input|data)[^:]*: ([^]+)$/.exec(message) ?? [];
  return text ?? message;
}

function isMissing({ message }: Problem): boolean {
  return message.includes("does not have required property");
}

/** Whether the form shows a problem at one of its fields. */
export function isAtField(schema: unknown, problem: Problem): boolean {
  return (fieldsOf(schema) ?? []).some(([name]) => isAbout(problem, name));
}

/** Whether a problem is about a field of the form: the path names it, or the message quotes it. */
function isAbout(problem: Problem | null, name: string): boolean {
  if (problem === null) return false;
  const path = problem.path.replace(/^(?:input|data)\.?/, "");
  if (path !== "" && (path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`)))
    return true;
  return path === "" && problem.message.includes(`"${name}"`);
}

/** The fields of the form. */
export function SchemaForm(props: {
  readonly schema: unknown;
  readonly written: Written;
  readonly onWrite: (written: Written) => void;
  /** A refusal of the values, which is shown at the field that it is about. */
  readonly problem?: Problem | null;
}) {
  const { schema, written, onWrite, problem = null } = props;
  const required = (schema as Schema).required ?? [];
  // The server names one missing field at a time; the form shows all of them.
  const isWrong = (name: string): boolean =>
    isAbout(problem, name) ||
    (problem !== null && isMissing(problem) && required.includes(name) && (written[name] ?? "") === "");
  return (
    <>
      {(fieldsOf(schema) ?? []).map(([name, field]) => (
        <label key={name} class={`field${isWrong(name) ? " is-wrong" : ""}`}>
          <span>
            {field.title ?? name}
            {required.includes(name) ? "" : <span class="muted"> optional</span>}
          </span>
          <Field
            schema={field}
            value={written[name] ?? ""}
            onChange={(value) => onWrite({ ...written, [name]: value })}
          />
          {field.description === undefined ? null : <span class="muted">{field.description}</span>}
          {problem !== null && isWrong(name) ? (
            <span class="field-problem" role="alert">
              {fieldProblem(problem)}
            </span>
          ) : null}
        </label>
      ))}
    </>
  );
}

function Field(props: {
  readonly schema: Schema;
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  const { schema, value, onChange } = props;
  const options = schema.enum ?? (schema.type === "boolean" ? [true, false] : null);
  if (options !== null)
    return (
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="" />
        {options.map((option) => (
          <option key={String(option)} value={String(option)}>
            {String(option)}
          </option>
        ))}
      </select>
    );
  if (schema.type === "string")
    return <input type="text" value={value} onInput={(event) => onChange(event.currentTarget.value)} />;
  if (schema.type === "number" || schema.type === "integer")
    return (
      <input
        type="number"
        {...(schema.minimum === undefined ? {} : { min: schema.minimum })}
        {...(schema.maximum === undefined ? {} : { max: schema.maximum })}
        step={schema.type === "integer" ? 1 : "any"}
        value={value}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    );
  return (
    <textarea
      rows={3}
      placeholder="JSON"
      value={value}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  );
}
