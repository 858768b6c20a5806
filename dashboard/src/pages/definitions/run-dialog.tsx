import { useState } from "preact/hooks";
import { change, get } from "../../api/client.ts";
import type { Execution, Workflow } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { executionPage } from "../../core/address.ts";
import { go } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { parseTyped } from "../../ui/json.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { defaultsOf, fieldsOf, isAtField, readFields, SchemaForm, writtenOf } from "./schema-form.tsx";

interface RunProps {
  /** The name of the workflow. */
  readonly name: string;
  /** The values of an earlier execution, to run it again. */
  readonly input?: unknown;
  readonly project?: string;
  readonly tags?: Readonly<Record<string, string>>;
  readonly onClose: () => void;
}

/** A dialog that starts an execution: with fields if the input's schema describes an object, else with JSON. */
export function RunDialog(props: RunProps) {
  const { name, onClose } = props;
  const path = `/v1/workflows/${encodeURIComponent(name)}`;
  const { data, problem } = useLive(path, (signal) => get<Workflow>(path, { signal }));
  if (data !== null) return <Form {...props} workflow={data} />;
  return (
    <Dialog title={`Run ${name}`} onClose={onClose}>
      {problem === null ? <Loading rows={3} /> : <Trouble problem={problem} />}
    </Dialog>
  );
}

function Form({ workflow, input, project, tags, onClose }: RunProps & { readonly workflow: Workflow }) {
  const who = useSession();
  const schema = workflow.definition.input;
  const given = input === undefined ? defaultsOf(schema) : writtenOf(schema, input);
  const hasFields = fieldsOf(schema) !== null;
  const [isJson, setIsJson] = useState(!hasFields || given === null);
  const [written, setWritten] = useState(given ?? {});
  const [text, setText] = useState(JSON.stringify(input ?? {}, null, 2));
  const [id, setId] = useState("");
  const [labels, setLabels] = useState(tagText(tags ?? {}));
  const [chosen, setChosen] = useState(project ?? who.project ?? "default");
  const run = async (): Promise<void> => {
    const value = isJson ? (parseTyped(text, "Input") ?? null) : readFields(schema, written);
    const started = await change<Execution>("POST", "/v1/executions", {
      workflow: workflow.name,
      input: value,
      ...(id.trim() === "" ? {} : { id: id.trim() }),
      ...(chosen.trim() === "" || chosen === "default" ? {} : { project: chosen.trim() }),
      ...(labels.trim() === "" ? {} : { tags: readTags(labels) }),
    });
    go(executionPage(started.id));
  };
  return (
    <ActionDialog
      title={input === undefined ? `Run ${workflow.name}` : `Run ${workflow.name} again`}
      action="Run"
      icon="play"
      other={
        hasFields ? (
          <Button onClick={() => setIsJson(!isJson)}>{isJson ? "Edit as form" : "Edit as JSON"}</Button>
        ) : undefined
      }
      onClose={onClose}
      run={run}
      isAtField={(problem) => !isJson && isAtField(schema, problem)}
    >
      {(problem) => (
        <>
          {isJson ? (
            <label class="field">
              <span>Input, as JSON</span>
              <textarea rows={8} value={text} onInput={(event) => setText(event.currentTarget.value)} />
            </label>
          ) : (
            <SchemaForm schema={schema} written={written} onWrite={setWritten} problem={problem} />
          )}
          <label class="field">
            <span>
              Id <span class="muted">generated if empty</span>
            </span>
            <input value={id} onInput={(event) => setId(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>
              Tags <span class="muted">optional, such as team=ops, day=2026-11-17</span>
            </span>
            <input value={labels} onInput={(event) => setLabels(event.currentTarget.value)} />
          </label>
          {who.project === null ? (
            <label class="field">
              <span>Project</span>
              <input value={chosen} onInput={(event) => setChosen(event.currentTarget.value)} />
            </label>
          ) : null}
        </>
      )}
    </ActionDialog>
  );
}

function tagText(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

/** Reads tags such as `team=ops, urgent`. */
function readTags(text: string): Record<string, string> {
  const pairs = text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
  return Object.fromEntries(
    pairs.map((pair): [string, string] => {
      const at = pair.indexOf("=");
      return at < 0 ? [pair, ""] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    }),
  );
}
