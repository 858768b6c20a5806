/** A form for the values that a JSON Schema describes: fields for simple parts, JSON for the rest. */

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
    fields.flatMap(([name, { default: value }]) =>
      value === undefined ? [] : [[name, typeof value === "string" ? value : JSON.stringify(value)]],
    ),
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
    if (Number.isNaN(number)) throw new Error(`${name}: “${text}” is not a number.`);
    return number;
  }
  if (type === "boolean") return text === "true";
  try {
    return JSON.parse(text) as unknown;
  } catch (thrown) {
    throw new Error(`${name}: this is not JSON.`, { cause: thrown });
  }
}

/** The fields of the form. */
export function SchemaForm(props: {
  readonly schema: unknown;
  readonly written: Written;
  readonly onWrite: (written: Written) => void;
}) {
  const { schema, written, onWrite } = props;
  const required = (schema as Schema).required ?? [];
  return (
    <>
      {(fieldsOf(schema) ?? []).map(([name, field]) => (
        <label key={name} class="field">
          <span>
            {field.title ?? name}
            {required.includes(name) ? "" : <span class="muted"> may be left out</span>}
          </span>
          <Field
            schema={field}
            value={written[name] ?? ""}
            onChange={(value) => onWrite({ ...written, [name]: value })}
          />
          {field.description === undefined ? null : <span class="muted">{field.description}</span>}
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
